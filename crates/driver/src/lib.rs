//! Drivers in user space, and the strategies by which they receive.
//!
//! A driver ([`NicDriver`]) is handed its device for the length of one call ([`Hardware`]); it never
//! reads a clock, never sleeps, and does not know whether it runs in a process of its own, in real
//! time, or in one thread with everything else, in virtual time. When to look at the ring and when to
//! sleep is its [`strategy`]'s choice.

mod model;
mod upper;

pub use model::{
    Buffer, Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, Received, RxSink, TxFrame,
};
pub use upper::{MOST_PIECES, OwnPool, PoolError, Transmit, Upper};

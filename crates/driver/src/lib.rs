//! Drivers in user space, and the strategies by which they receive.
//!
//! A driver ([`NicDriver`]) is handed its device for the length of one call ([`Hardware`]); it never
//! reads a clock, never sleeps, and does not know whether it runs in a process of its own, in real
//! time, or in one thread with everything else, in virtual time. When to look at the ring and when to
//! sleep is its [`strategy`]'s choice.

pub mod access;
pub mod descriptor_fifo;
pub mod device;
mod model;
pub mod rtl8139;
pub mod rtl8168;
pub mod run;
pub mod state;
pub mod strategy;
pub mod transmit;
mod upper;

pub use model::{
    Buffer, Causes, DriverError, DriverInfo, Hardware, Link, MOST_UNCUT_BYTES, NicDriver, Received,
    RxSink, Segments, TxFrame,
};
pub use upper::{Forgotten, MOST_PIECES, OwnPool, PoolError, Transmit, Upper};

/// The drivers that can be asked for by name.
pub const DRIVERS: &[&DriverInfo] = &[
    &rtl8168::INFO,
    &descriptor_fifo::OC48.info,
    &descriptor_fifo::OC192.info,
    &descriptor_fifo::GE10.info,
    &rtl8139::INFO,
];

/// The driver of whoever does not name one; the model that it drives has the same name.
pub const DEFAULT_DRIVER: &str = rtl8168::INFO.name;

/// The driver called `name`; `None` if there is none of that name.
pub fn by_name(name: &str) -> Option<Box<dyn NicDriver>> {
    use descriptor_fifo::{DescriptorFifo, GE10, OC48, OC192};
    let fifo = |card| -> Option<Box<dyn NicDriver>> { Some(Box::new(DescriptorFifo::new(card))) };
    match name {
        "rtl8168" => Some(Box::new(rtl8168::Rtl8168::new())),
        "rtl8139" => Some(Box::new(rtl8139::Rtl8139::new())),
        "oc48" => fifo(&OC48),
        "oc192" => fifo(&OC192),
        "ge10" => fifo(&GE10),
        _ => None,
    }
}

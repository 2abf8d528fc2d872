//! Time, and everything that must not depend on where time comes from.
//!
//! No other crate reads a clock: an instant is an argument, so the same code runs against the
//! processor's time stamp counter and against a test's invented times.

mod clock;
mod events;
mod random;
mod time;
mod tsc;

pub use clock::{Clock, VirtualClock};
pub use events::EventQueue;
pub use random::{Arrivals, Chance, Dice, Jitter, Seed};
pub use time::{ExactSpan, ParseSpanError, Span, Time};
pub use tsc::{TscClock, TscUnusable, read_tsc};

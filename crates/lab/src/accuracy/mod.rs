//! How exactly a requested interval is kept, at three places: where the NIC is given a packet, where
//! its interrupt rises, and where the driver's handler first looks at it.
//!
//! The packets are of an EtherType that no protocol takes. What a stack and an application do with
//! a packet keeps the target's only core busy when the next interrupt comes, and would be measured
//! instead of the interrupt.
//!
//! A driver in a process of its own tells the time of each handler by itself; there, interrupts without
//! packets are looked at, too ([`alone`]).
//!
//! Intervals that fall into a hiccup are marked, and figures are given with and without them: of the loop that
//! injects, and of a guest that polls, which watches itself while it looks for interrupts. Any other target has one
//! core, and what spun on it to watch would delay the very interrupts that are looked at. For those there is
//! the time that the target waited for its core, and the time that the host stole, over the whole run.

mod alone;
mod columns;
mod cycle;
mod errors;
mod flags;
mod lag;
mod made;
mod resolution;
mod series;
mod smallest;

pub use cycle::CycleStep;
pub use flags::Accuracy;
pub use made::{AccuracyOptions, Measured, accuracy};
pub use series::{Interval, Place, PlaceFigures, Series};
pub use smallest::{KEPT_SHARE, Tried};

//! Success against interval, for frames of several lengths, and the shortest interval without loss.
//!
//! Repeats the published measurement: cycles of 5,000 packets with growing interval, from the
//! shortest possible to the first at which every packet is received, and beyond.

mod columns;
mod counters;
mod cycle;
mod dips;
mod flags;
mod found;
mod made;
mod plan;
mod search;

pub use columns::throughput;
pub use cycle::{Cycle, Phase};
pub use flags::Sweep;
pub use made::{Swept, sweep};
pub use plan::{MAX_REPEAT, MAX_SIZES, SweepPlan};

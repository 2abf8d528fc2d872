//! What was seen, and what can be said about it.
//!
//! A [`Ledger`] says what became of each packet, an [`IntervalRecorder`] how far apart things came,
//! [`Hiccups`] when the loop that watched all this was itself not running, [`Machine`] where.
//! [`RunResult`] is all of it in the form in which it is kept, and [`RunDirectory`] the place.
//! [`rank_sum`] tells what is more than noise.
//!
//! Nothing here knows of NICs, targets or plans, and nothing reads a clock.

mod count;
mod cpu_time;
mod distribution;
mod fault;
mod hiccup;
mod intervals;
pub mod layout;
mod ledger;
mod machine;
mod median;
pub mod published;
pub mod rank_sum;
mod result;
mod run_directory;
mod shard;
mod table;
mod warnings;

pub use count::CountOverTime;
pub use cpu_time::CpuTime;
pub use distribution::{Delay, Distribution, Samples};
pub use fault::{Evidence, FaultFinding, FaultReport, Verdict};
pub use hiccup::{BothHiccups, Hiccup, HiccupSummary, Hiccupping, Hiccups, Meanwhile, NotRunning};
pub use intervals::{IntervalRecorder, IntervalStats};
pub use layout::Layout;
pub use ledger::{
    Contradictions, Delivery, Fate, Ledger, Outcome, Packet, Row, Totals, Unaccounted,
};
pub use machine::{CoreWait, CpuTimes, Machine, core_wait_ns, governor_of, parse};
pub use median::median;
pub use result::{
    Interrupts, Intervals, Pacing, ReadError, Repeat, RunResult, SCHEMA, Success, TargetInfo,
    TimeBase, VectorInterrupts, Warning,
};
pub use run_directory::{RunDirectory, WriteError, utc_stamp};
pub use shard::{MadeShard, ParseShardError, Shard};
pub use table::{as_object, ms, table, texts, us};
pub use warnings::{Thresholds, no_handler, warnings};

//! Replacing a driver under traffic, and proving that nothing was lost.
//!
//! A [`Plan`] says which ways are tried under which loads. For each pair a target is brought up whose driver is
//! supervised; the workload runs, and at random moments within it the driver is replaced. What came of it is
//! judged from outside: by the numbers of frames, at the application and on the wire.

pub(crate) mod columns;
mod course;
mod edge;
mod gaps;
mod growth;
pub mod kernel;
mod moments;
mod plan;
mod row;
mod series;
mod supervised;
mod tally;
mod workload;

pub use edge::{Edge, EdgeRow};
pub use growth::Usage;
pub use plan::{
    EVERY, INTERVALS, Load, MOST_DESCRIPTORS, MOST_REPLACEMENTS, ParseLoadError, Plan, Soak,
};
pub use row::{ReplaceRow, Spread};
pub use series::replace;
pub use tally::{Line, Moment};
pub use workload::{COMPUTE_US, SEND_BYTES, SENDS};

use warikomi_live::Program;
use warikomi_measure::RunResult;

use crate::ProcessSessionOptions;

/// What is replaced by what.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is measured.
    pub plan: Plan,
    /// The target with its first driver.
    pub session: ProcessSessionOptions,
    /// The driver that follows, and is followed by the first again.
    pub to: Program,
}

/// What came of it.
pub struct Replaced {
    /// The figures; a row for each way with each load.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<ReplaceRow>,
    /// Each replacement.
    pub lines: Vec<Line>,
    /// One replacement of each row, step by step.
    pub timeline: Vec<Moment>,
    /// What was lost although it was promised not to be; a run with anything here has failed.
    pub broken: Vec<String>,
}

/// How far it has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Replacements that are done.
    pub done: u64,
    /// Replacements in all.
    pub all: u64,
    /// The row that is at work.
    pub row: &'a str,
}

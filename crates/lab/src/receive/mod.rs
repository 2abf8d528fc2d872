//! Ways to receive, compared on the same device and the same traffic: what each costs the processor,
//! loses and delays, while a compute job wants the same processor.
//!
//! Here is what all targets have in common: the traffic, the row of a result, and how work that was
//! done says what receiving took. A module for each kind of target has its strategies.

pub mod advice;
pub(crate) mod columns;
mod doubts;
pub mod kernel;
pub mod process;
mod row;
pub mod simulated;
mod traffic;
mod work;

use doubts::Doubts;
use warikomi_measure::RunResult;

pub use row::{Burst, Row};
pub use traffic::Traffic;
pub use work::Work;

/// What came of a comparison.
pub struct Received {
    /// The figures; a row for each strategy with each of its parameters.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
    /// Each burst of each row.
    pub bursts: Vec<Burst>,
}

/// How far a comparison has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Rows that are done.
    pub row: usize,
    /// Rows in all.
    pub rows: usize,
    /// The strategy that is at work.
    pub strategy: &'a str,
}

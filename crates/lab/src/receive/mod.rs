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
pub use row::{Burst, Delay, Row};
pub use traffic::{Traffic, TrafficError};
pub use work::{Course, Work};

use warikomi_measure::RunResult;

use crate::inject::InjectError;

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

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// Such traffic cannot be.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Packets could not be injected, or not be accounted for.
    #[error(transparent)]
    Inject(#[from] InjectError),
    /// The compute job did not run when it was alone.
    #[error(
        "the compute job in the target did no work while nothing was received: something else takes \
         the target's processor; look with warikomi doctor"
    )]
    NoWork,
    /// A target could not be had.
    #[error(transparent)]
    Session(#[from] crate::SessionError),
    /// Virtual time could not be run.
    #[error(transparent)]
    Virtual(#[from] crate::virtual_time::VirtualError),
    /// Nobody says how long the target has had a processor.
    #[error("cannot read the processor time of the target's processes: {0}")]
    CpuTime(std::io::Error),
}

impl From<warikomi_target::TargetError> for ReceiveError {
    fn from(error: warikomi_target::TargetError) -> Self {
        Self::Inject(error.into())
    }
}

//! The experiments, one module each.

pub mod accuracy;
pub mod cells;
pub mod cost;
mod error;
mod experiment;
pub mod inject;
mod journal;
pub mod receive;
pub mod record;
pub mod replace;
pub mod replay;
pub mod sweep;
pub mod transmit;
mod values;
mod watch;

use warikomi_measure::RunResult;

pub use error::Error;
pub use experiment::{Conclusion, Entry, Experiment, Ready};
pub use journal::NewRun;
pub use watch::{Progress, Watch};

/// Every experiment: a line each.
pub const EXPERIMENTS: &[Entry] = &[
    Entry::of::<inject::Inject>(),
    Entry::of::<sweep::Sweep>(),
    Entry::of::<accuracy::Accuracy>(),
    Entry::of::<cost::Cost>(),
    Entry::of::<receive::Receive>(),
    Entry::of::<transmit::Transmit>(),
    Entry::of::<replace::Replace>(),
    Entry::of::<record::Record>(),
    Entry::of::<replay::Replay>(),
];

/// Describes a result by its experiment; one of an unknown experiment is left as it is.
pub fn describe(result: &mut RunResult) {
    if let Some(entry) = EXPERIMENTS.iter().find(|entry| entry.name == result.experiment) {
        (entry.describe)(result);
    }
    result.layout.settle();
}

//! The experiments, one module each.

pub mod accuracy;
pub mod at;
pub mod cells;
pub mod cost;
mod error;
mod experiment;
pub mod explore;
pub mod histories;
pub mod inject;
mod journal;
mod on_demand;
pub mod receive;
pub mod record;
pub mod replace;
pub mod replay;
pub mod round_trip;
pub mod selftest;
mod shards;
pub mod soak;
pub mod strict;
pub mod strike;
pub mod sweep;
pub mod transmit;
mod values;
mod watch;

use warikomi_measure::{Layout, RunResult};

pub use error::Error;
pub use experiment::{Conclusion, Entry, Experiment, Ready, carry_out};
pub use journal::NewRun;
pub use on_demand::OnDemand;
pub use shards::ShardDirectory;
pub use watch::{Progress, Watch};

/// Every experiment: a line each.
pub const EXPERIMENTS: &[Entry] = &[
    Entry::of::<inject::Inject>(),
    Entry::of::<sweep::Sweep>(),
    Entry::of::<accuracy::Accuracy>(),
    Entry::of::<cost::Cost>(),
    Entry::of::<receive::Receive>(),
    Entry::of::<round_trip::RoundTrip>(),
    Entry::of::<transmit::Transmit>(),
    Entry::of::<replace::Replace>(),
    Entry::of::<record::Record>(),
    Entry::of::<replay::Replay>(),
    Entry::of::<at::At>(),
    Entry::of::<explore::Explore>(),
    Entry::of::<selftest::Selftest>(),
    Entry::of::<histories::RandomHistories>(),
    Entry::of::<soak::Soak>(),
];

/// Describes a result by its experiment; one of an unknown experiment is left as it is.
pub fn describe(result: &mut RunResult) {
    match EXPERIMENTS.iter().find(|entry| entry.name == result.experiment) {
        Some(entry) => describe_by(entry, result),
        None => result.layout.settle(),
    }
}

/// Describes a result of this experiment; of a shard it says only which one it is.
pub fn describe_by(entry: &Entry, result: &mut RunResult) {
    match result.shard {
        None => (entry.describe)(result),
        Some(_) => result.layout = Layout::default(),
    }
    if let Some(system) = entry.published {
        result.layout.name_publisher(system);
    }
    shards::describe(result);
    strict::describe(result);
    result.layout.settle();
}

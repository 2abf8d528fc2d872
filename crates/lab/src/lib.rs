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
pub use values::{ReceiverName, buffer_bytes};
pub use warikomi_session::{
    CoreWatch, GuestSettings, PacketPath, ProcessSessionOptions, Session, SessionError,
    SessionOptions, bring_up,
};
pub use watch::{Progress, Watch};

/// Every experiment: a line each.
pub const EXPERIMENTS: &[Entry] = &[
    Entry::of::<inject::Inject>(),
    Entry::of::<sweep::Sweep>(),
    Entry::of::<accuracy::Accuracy>(),
    Entry::of::<cost::Cost>(),
    Entry::of::<receive::Receive>(),
    Entry::of::<record::Record>(),
    Entry::of::<replay::Replay>(),
];

/// Describes a result by its experiment; one of an unknown experiment is left as it is.
pub fn describe(result: &mut RunResult) {
    match result.experiment.as_str() {
        "replace" => crate::replace::columns::describe(result),
        // A kernel's rows say what sent.
        "transmit" if result.rows.iter().flatten().any(|row| row.contains_key("sender")) => {
            crate::transmit::kernel::columns::describe(result);
        }
        "transmit" => crate::transmit::columns::describe(result),
        name => {
            let known = EXPERIMENTS.iter().find(|entry| entry.name == name);
            known.into_iter().for_each(|entry| (entry.describe)(result));
        }
    }
    result.layout.settle();
}

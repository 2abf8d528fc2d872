//! `warikomi part`: this program as a part of a process target.

use std::process::ExitCode;

use clap::Subcommand;
use warikomi_target::process::Program;

/// What this process is to be.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// The driver
    Driver {
        /// Which
        name: String,
    },
}

/// This very program, even if its file has been replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// The program of one of our drivers.
pub(crate) fn driver(name: &str) -> Program {
    Program {
        path: OURSELVES.into(),
        arguments: ["part", "driver", name].map(Into::into).into(),
        environment: Vec::new(),
    }
}

/// Is that part until it ends.
pub(crate) fn run(part: &Part) -> ExitCode {
    match part {
        Part::Driver { name } => warikomi_driver::run::main(name),
    }
}

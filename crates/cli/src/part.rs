//! `warikomi part`: this program as a part of a process target.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use warikomi_process::programs;

/// A command line that is read by itself.
#[derive(Parser)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) part: Part,
}

/// What this process is to be.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// The driver
    Driver {
        /// Which
        name: String,
        /// The newest version of the state area that it knows, and the one that it writes
        #[arg(long, value_name = "N")]
        state_version: Option<u64>,
    },
    /// The stack between it and the application
    Stack,
    /// The application
    Application,
    /// An echo service in the place of the application
    Echo,
    /// What drivers know, while one follows another
    Store,
    /// What else keeps something there
    StoreClient,
    /// What starts the others
    Starter,
}

/// Is that part until it ends.
pub(crate) fn run(part: &Part) -> ExitCode {
    let (name, ended) = match part {
        Part::Driver { name, state_version } => {
            (name.as_str(), programs::driver::main_of_version(name, *state_version))
        }
        Part::Stack => ("stack", programs::stack::main()),
        Part::Application => ("application", programs::application::main()),
        Part::Echo => ("echo", programs::echo::main()),
        Part::Store => ("store", programs::store::main()),
        Part::StoreClient => ("store-client", programs::store_client::main()),
        Part::Starter => ("starter", programs::starter::main()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

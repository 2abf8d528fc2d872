//! The `warikomi` command with an experiment of your own beside those of Warikomi.

mod reach;

use std::process::ExitCode;

use warikomi_lab::Entry;

/// Yours; one of Warikomi's is a line in crates/lab/src/lib.rs.
const EXPERIMENTS: &[Entry] = &[Entry::of::<reach::Reach>()];

fn main() -> ExitCode {
    warikomi_cli::main(EXPERIMENTS)
}

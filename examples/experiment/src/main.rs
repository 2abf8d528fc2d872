//! The `warikomi` command with an experiment of your own in it.

mod reach;

use std::process::ExitCode;

use warikomi_lab::Entry;

/// Yours; with those of Warikomi, a line among theirs in crates/lab/src/lib.rs.
const EXPERIMENTS: &[Entry] = &[Entry::of::<reach::Reach>()];

fn main() -> ExitCode {
    warikomi_cli::main(EXPERIMENTS)
}

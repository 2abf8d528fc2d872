//! The `warikomi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    warikomi_cli::main(&[])
}

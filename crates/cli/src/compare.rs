//! `warikomi compare`.
use clap::Args;
use std::process::ExitCode;
/// x
#[derive(Args)]
pub(crate) struct Arguments {}
pub(crate) fn run(_: &Arguments) -> ExitCode {
    ExitCode::SUCCESS
}

//! `warikomi bench`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use warikomi_lab::bench::bench;
use warikomi_nic::wire::WireKind;
use warikomi_report::terminal;
use warikomi_target::Interrupted;

use crate::output::{self, Cleared};
use crate::target::TargetArguments;

/// For frames of 1 to 16 KB: the time to inject one against copying its bytes into the same
/// memory, the driver's saturated receive rate, and the shortest interval at which at least 99.9%
/// are accepted. Medians of five rounds, in turns within one run. Leave the machine alone meanwhile.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, interrupted: &Interrupted) -> Result<ExitCode> {
    let prepared = arguments.target.prepare()?;
    let wire = WireKind::Sink.build().context("cannot set up the wire")?;
    let bar = Cleared(output::bar("{bar:32} {percent:>3}% {elapsed} {eta} left"));
    let mut session = prepared.start(wire, interrupted, &mut |_| ())?;
    let result = bench(&mut session, &mut |done, all| {
        bar.0.set_length(all as u64);
        bar.0.set_position(done as u64);
        bar.0.tick();
    })?;
    session.stop()?;
    drop(bar);
    output::print(&result, arguments.json, |style| terminal::rows(&result, style));
    Ok(ExitCode::SUCCESS)
}

//! `warikomi record`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use warikomi_lab::record::{Recording, record};
use warikomi_measure::RunDirectory;

use crate::export::{FormatName, write_export};
use crate::inject;
use crate::invocation::Invocation;

/// Does what `warikomi inject` does, and records from the first packet until the driver has taken the
/// last what happens at the device's edge: register accesses, interrupts, DMA and frames, each with
/// its time. The trace is trace.wkt in the run's directory.
///
/// Replay it with `warikomi replay`, look at it with `warikomi export`.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    inject: inject::Arguments,
    /// Export the trace into the run's directory as well: trace.pcapng for Wireshark, trace.json for
    /// ui.perfetto.dev; may be repeated
    #[arg(long, value_enum, value_name = "FORMAT")]
    export: Vec<FormatName>,
}

/// The trace's name in a run's directory.
pub(crate) const TRACE: &str = "trace.wkt";

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    let wire = arguments.inject.wire().clone();
    inject::carry_out(
        &arguments.inject,
        invocation,
        |session, plan, application, run_id, show| {
            let recording = record(session, plan, application, run_id, &wire, show)?;
            let Recording { injected, trace } = recording;
            Ok((injected, trace))
        },
        |directory: &RunDirectory, trace| {
            directory.write(TRACE, |file| trace.write_to(file))?;
            for format in &arguments.export {
                let name = format!("trace.{}", format.extension());
                write_export(&directory.path().join(TRACE), *format, |write| {
                    Ok(directory.write(&name, write)?)
                })?;
            }
            Ok(())
        },
    )
}

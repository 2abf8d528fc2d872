//! `warikomi replay`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use warikomi_clock::read_tsc;
use warikomi_inject::Source;
use warikomi_lab::inject::Application;
use warikomi_lab::replay::{Origin, ReplayOptions, Replayable, load, replay};
use warikomi_trace::Comparison;
use warikomi_wire::WireKind;

use crate::inject::{bring_up, keep, with_bar};
use crate::invocation::Invocation;
use crate::output;
use crate::record::TRACE;
use warikomi_session::TargetArguments;

/// Gives the packets of a trace (trace.wkt of `warikomi record`) or of real traffic (pcap, pcapng) to
/// a driver, in their order, at the times at which they came, and accounts for each.
///
/// A trace goes to the same or any other driver or kernel. The result says where the driver first
/// behaved differently from the recording: a packet with another outcome at the NIC, or a step from one
/// register access to the next that it never took there. How often it polls, and how many packets share
/// an interrupt, depends on time and is not compared.
///
/// Frames of a capture are addressed to the guest's NIC, and the driver is where their account ends.
/// They keep their own times, to the nanosecond if the file has them.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A trace, a pcap or a pcapng file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many times as fast as it was: 0.001 to 1000
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Leave destination addresses as they are: the NIC then filters what is not for it
    #[arg(long)]
    keep_addresses: bool,
    /// Fail (exit status 1) if the driver behaves differently from the recording
    #[arg(long)]
    expect_same: bool,
    /// The socket's receive buffer of the application in the guest, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Application::default().socket_buffer_bytes)]
    socket_buffer: u32,
    /// What the NIC is cabled to [default: as in the recording; sink for a capture]
    #[arg(long)]
    wire: Option<WireKind>,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArguments,
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    let name = || arguments.file.display().to_string();
    let replayable = load(&arguments.file, arguments.speed).with_context(name)?;
    if arguments.expect_same && matches!(replayable.origin, Origin::Capture(_)) {
        bail!("--expect-same needs a trace: a capture does not say what a driver did");
    }
    let kind = wire(arguments, &replayable);
    let mut prepared = arguments.target.prepare()?;
    let wire = kind.build().context("cannot set up the wire")?;
    if !was_as_fast_as_possible(&replayable) {
        prepared.defer_nothing();
    }
    let (duration, count) = (replayable.schedule.duration(), replayable.schedule.count());
    let mut session = bring_up(&prepared, wire, &invocation.interrupted)?;
    let options = ReplayOptions {
        keep_addresses: arguments.keep_addresses,
        application: Application {
            socket_buffer_bytes: arguments.socket_buffer,
            ..Application::default()
        },
    };
    let mut replayed = with_bar(duration, count, |show| {
        Ok(replay(&mut session, replayable, options, &kind, read_tsc() as u32, show)?)
    })?;
    session.stop()?;

    output::describe_and_print(&mut replayed.injected.result, arguments.json);
    if let (Some(comparison), false) = (&replayed.comparison, arguments.json) {
        print_comparison(comparison);
    }
    let directory = invocation.new_run(&arguments.runs, &replayed.injected.result.experiment)?;
    if !replayed.trace.is_empty() {
        directory.write(TRACE, |file| file.write_all(&replayed.trace))?;
    }
    keep(&directory, &replayed.injected)?;
    let different = replayed.comparison.is_some_and(|comparison| comparison.first.is_some());
    let failed = arguments.expect_same && different;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn wire(arguments: &Arguments, replayable: &Replayable) -> WireKind {
    let recorded = || replayable.origin.header().and_then(|header| header.wire_kind());
    arguments.wire.clone().or_else(recorded).unwrap_or(WireKind::Sink)
}

/// Settings are to be those of the recording.
fn was_as_fast_as_possible(replayable: &Replayable) -> bool {
    let plan = replayable.origin.header().and_then(|header| header.plan.as_ref());
    plan.is_some_and(|plan| plan.spacing() == warikomi_clock::Span::ZERO)
}

fn print_comparison(comparison: &Comparison) {
    println!();
    let Some(first) = &comparison.first else {
        println!("The driver behaved as in the recording.");
        return;
    };
    println!("First difference, after {} packets: {}.", first.packet, first.what);
    if !first.before.is_empty() {
        println!("Before it: {}.", first.before.join(", "));
    }
    println!(
        "In all: {} packets with another outcome, {} steps that were never recorded.",
        comparison.different_outcomes, comparison.new_steps
    );
}

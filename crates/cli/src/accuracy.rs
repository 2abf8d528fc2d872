//! `warikomi accuracy`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use warikomi_clock::{Span, Time};
use warikomi_inject::{FrameBytes, Plan};
use warikomi_lab::accuracy::{Accuracy, AccuracyOptions, Series, accuracy};
use warikomi_measure::{Ledger, RunDirectory};
use warikomi_wire::WireKind;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use warikomi_session::{TargetArguments, Usual};

/// Asks for one interval, again and again, and measures what came of it at three places: where the NIC is
/// given each packet (injected), where its interrupt rises (raised), and where the driver's handler
/// first reads the interrupt status (handler). Shows the error of the intervals as a histogram, the
/// shares that were exact, within 1% and within 6.25%, the worst, and the drift over the run,
/// beside the published figures.
///
/// Exact means: off by no more than the resolution of the timer, which is one pass of the loop that
/// watches the clock and serves the driver; its median is measured beforehand. Intervals during
/// which that loop was not running (hiccups) are marked, and figures are given with and without
/// them. The packets are of an EtherType that no protocol takes, so that the target's only core is
/// not busy with the last packet when the next interrupt comes.
///
/// Then looks for the smallest interval that can be kept: the shortest of which 99% are within
/// 6.25%, and the shortest at which 99% of the packets go out before the next is due. It takes
/// medians of three cycles of 2,000 packets each, from 20 ns up to 100 µs or to the interval (1 ms at
/// most).
///
/// Keeps plan.toml, result.json, intervals.csv (every interval), smallest.csv (every interval that was
/// tried) and repeats.csv (the shares of each repetition) in a directory of its own.
///
/// Times are written with their unit: 200ns, 38us, 3.5ms, 1s.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    /// The interval to ask for
    #[arg(long, value_name = "TIME", default_value = "38us", allow_hyphen_values = true)]
    interval: Span,
    /// Number of packets
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(2..=Ledger::DETAILED_ROWS))]
    count: u64,
    /// Frame length without check sequence: 60 to 16379 bytes
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    size: FrameBytes,
    /// How often; the repetition in the middle, by the share of exact injections, is shown, and
    /// repeats.csv has all
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Do not look for the smallest interval that can be kept
    #[arg(long)]
    no_smallest: bool,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn options(&self) -> Result<AccuracyOptions> {
        ensure!(
            self.interval > Span::ZERO,
            "an interval of 0 cannot be kept or missed; give --interval a time, such as 38us"
        );
        let plan = Plan {
            size_bytes: self.size.0,
            interval: self.interval,
            count: self.count,
            receiver: self.target.receiver_as(Usual::Handlers),
            ..Plan::default()
        };
        plan.validate()?;
        Ok(AccuracyOptions { plan, repeat: self.repeat, smallest: !self.no_smallest })
    }
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    let options = arguments.options()?;
    let mut prepared = arguments.target.prepare_as(Usual::Handlers)?;
    prepared.defer_nothing();
    let wire = WireKind::Sink.build().context("cannot set up the wire")?;
    let bar = Cleared(output::bar("{bar:32} {percent:>3}% {msg} {elapsed}, {eta} left"));
    let mut session = prepared.start(wire, &invocation.interrupted, &mut |what| {
        bar.0.set_message(what.to_owned());
        bar.0.tick();
    })?;
    let mut found = accuracy(&mut session, &options, &mut |step| {
        bar.0.set_message(step.what);
        bar.0.set_length(step.total);
        bar.0.set_position(step.done);
    })?;
    session.stop()?;
    drop(bar);
    output::describe_and_print(&mut found.result, arguments.json);
    let directory = save(invocation.new_run(&arguments.runs, "accuracy")?, &found)?;
    eprintln!("kept in {}", directory.path().display());
    Ok(ExitCode::SUCCESS)
}

/// A line of `intervals.csv`.
#[derive(Serialize)]
struct Line {
    place: &'static str,
    index: usize,
    at_ns: f64,
    interval_ns: f64,
    error_ns: f64,
    in_hiccup: bool,
}

fn save(directory: RunDirectory, found: &Accuracy) -> Result<RunDirectory> {
    let lines = found.series.iter().flat_map(|series| lines(series, found.start));
    directory.write_table("intervals", lines)?;
    if !found.tried.is_empty() {
        directory.write_table("smallest", &found.tried)?;
    }
    directory.write_table("repeats", &found.repeats)?;
    directory.write_result(&found.result)?;
    Ok(directory)
}

fn lines(series: &Series, start: Time) -> impl Iterator<Item = Line> {
    series.intervals.iter().enumerate().map(move |(at, interval)| Line {
        place: series.place,
        index: at + 1,
        at_ns: interval.until.since(start).as_ns(),
        interval_ns: interval.length.as_ns(),
        error_ns: series.error_ns(interval),
        in_hiccup: interval.in_hiccup,
    })
}

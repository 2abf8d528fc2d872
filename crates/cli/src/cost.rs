//! `warikomi cost`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use warikomi_inject::FrameBytes;
use warikomi_lab::cost::{Cost, CostOptions, cost};
use warikomi_measure::{RunDirectory, published};
use warikomi_wire::WireKind;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use warikomi_session::TargetArguments;

/// What a packet costs, by frame length, beside the published figures.
///
/// Sending (update descriptor, place packet, request interrupt): the mean of calls 1,000 to 2,000 of
/// 3,000, their median and 99th percentile, and the line through the means: a fixed part and
/// one for each byte. Once while the driver polls, and once while it waits for its interrupt, which
/// then has to be signalled.
///
/// Receiving: the time that a saturated target needs for a packet, for the driver alone and until its
/// application has it. What grows with the frame length, by the line through the lengths, is copying;
/// the rest is protocol processing. Where the program perf may be used, the functions in which
/// the target's kernel spends its time are sampled as well, and the two ways are checked against
/// each other.
///
/// Keeps plan.toml, result.json, calls.csv (every call) and repeats.csv (the figures of each
/// repetition) in a directory of its own. Leave the machine alone meanwhile.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Frame lengths without check sequence, 60 to 16379 bytes, with commas [default: 1024, 1500,
    /// 4096, 8192, 12288 and 16379, the published ones]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    sizes: Vec<FrameBytes>,
    /// How often; medians are shown, and repeats.csv has all
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Do not sample the target's functions with perf
    #[arg(long)]
    no_sampling: bool,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn options(&self) -> CostOptions {
        let mut sizes_bytes: Vec<usize> = match self.sizes.is_empty() {
            true => published::SIZES.iter().map(|(_, bytes)| *bytes).collect(),
            false => self.sizes.iter().map(|size| size.0).collect(),
        };
        sizes_bytes.sort_unstable();
        sizes_bytes.dedup();
        CostOptions { sizes_bytes, repeat: self.repeat, sampling: !self.no_sampling }
    }
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    let options = arguments.options();
    let prepared = arguments.target.prepare()?;
    let wire = WireKind::Sink.build().context("cannot set up the wire")?;
    let bar = Cleared(output::bar("{bar:32} {percent:>3}% {elapsed}, {eta} left"));
    let mut session = prepared.start(wire, &invocation.interrupted, &mut |_| ())?;
    let mut found = cost(&mut session, &options, &mut |done, all| {
        bar.0.set_length(all as u64);
        bar.0.set_position(done as u64);
        bar.0.tick();
    })?;
    session.stop()?;
    drop(bar);
    output::describe_and_print(&mut found.result, arguments.json);
    let directory = save(invocation.new_run(&arguments.runs, "cost")?, &found)?;
    eprintln!("kept in {}", directory.path().display());
    Ok(ExitCode::SUCCESS)
}

/// A line of `calls.csv`.
#[derive(Serialize)]
struct Line {
    size_bytes: usize,
    call: u64,
    send_ns: f64,
}

fn save(directory: RunDirectory, found: &Cost) -> Result<RunDirectory> {
    let lines = found.calls.iter().flat_map(|(size_bytes, calls)| {
        let size_bytes = *size_bytes;
        calls.iter().map(move |call| Line {
            size_bytes,
            call: call.number,
            send_ns: call.took.as_ns(),
        })
    });
    directory.write_table("calls", lines)?;
    directory.write_table("repeats", &found.repeats)?;
    directory.write_result(&found.result)?;
    Ok(directory)
}

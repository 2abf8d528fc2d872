//! `warikomi cost`.

use clap::Args;
use serde::Serialize;
use warikomi_inject::{FrameBytes, Plan};
use warikomi_measure::{RunResult, published};
use warikomi_session::TargetArguments;
use warikomi_wire::WireKind;

use super::columns;
use super::made::{self, CostOptions};
use super::send::Call;
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

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
pub struct Cost {
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
}

impl Cost {
    fn options(&self) -> Result<CostOptions, Error> {
        let mut sizes_bytes: Vec<usize> = match self.sizes.is_empty() {
            true => published::SIZES.iter().map(|(_, bytes)| *bytes).collect(),
            false => self.sizes.iter().map(|size| size.0).collect(),
        };
        sizes_bytes.sort_unstable();
        sizes_bytes.dedup();
        for &size_bytes in &sizes_bytes {
            Plan { size_bytes, ..Plan::default() }.validate()?;
        }
        Ok(CostOptions { sizes_bytes, repeat: self.repeat, sampling: !self.no_sampling })
    }
}

impl Experiment for Cost {
    const NAME: &'static str = "cost";
    const ABOUT: &'static str =
        "Measure what a packet costs to send and to receive, by frame length";
    const PUBLISHED: Option<&'static str> = Some(published::INJECTION);

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let options = self.options()?;
        let mut prepared = self.target.prepare()?;
        prepared.let_sleep();
        let mut session = watch.start(&prepared, &WireKind::Sink)?;
        let found = made::cost(&mut session, &options, watch)?;
        session.stop()?;
        let lines = found.calls.into_iter().flat_map(|(size_bytes, calls)| {
            calls.into_iter().map(move |Call { number, took }| Line {
                size_bytes,
                call: number,
                send_ns: took.as_ns(),
            })
        });
        Ok(Conclusion::new(found.result)
            .with_table("calls", lines)
            .with_table("repeats", found.repeats))
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

/// A line of `calls.csv`.
#[derive(Serialize)]
struct Line {
    size_bytes: usize,
    call: u64,
    send_ns: f64,
}

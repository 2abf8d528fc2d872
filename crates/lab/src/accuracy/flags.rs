//! `warikomi accuracy`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use warikomi_clock::{Seed, Span, Time};
use warikomi_inject::{Arrival, FrameBytes, Plan};
use warikomi_measure::published;
use warikomi_measure::{Ledger, RunResult};
use warikomi_session::{TargetArguments, Usual, VirtualArguments};
use warikomi_wire::WireKind;

use super::columns;
use super::made::{self, AccuracyOptions};
use super::series::{Interval, Place, Series};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

/// Asks for one interval, again and again, and measures what came of it at three places: where the NIC is
/// given each packet (injected), where its interrupt rises (raised), and where the driver's handler
/// first reads the interrupt status (handler). Shows the error of the intervals as a histogram, the
/// shares that were exact, within 1% and within 6.25%, the worst, and the drift over the run,
/// beside the published figures.
///
/// Exact means: off by no more than the resolution of the timer, which is one pass of the loop that
/// watches the clock and serves the driver; its median is measured beforehand. Intervals during
/// which that loop was not running, or a guest that polls was not (hiccups), are marked, and figures
/// are given with and without them. The packets are of an EtherType that no protocol takes, so that
/// the target's only core is not busy with the last packet when the next interrupt comes.
///
/// Then looks for the smallest interval that can be kept: the shortest of which 99% are within
/// 6.25% at the injection, and at the handler, hiccups aside, and the shortest at which 99% of the
/// packets go out before the next is due. It takes medians of three cycles of 2,000 packets each,
/// from 20 ns up to 100 µs or to the interval (1 ms at most).
///
/// Keeps plan.toml, result.json, intervals.csv (every interval, and who was not running), smallest.csv
/// (every interval that was tried) and repeats.csv (the shares of each repetition) in a directory of
/// its own.
///
/// Times are written with their unit: 200ns, 38us, 3.5ms, 1s.
#[derive(Args)]
pub struct Accuracy {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    time: VirtualArguments,
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
    /// How the intervals are drawn; the smallest interval is looked for with exact ones in any case
    #[arg(long, value_enum, default_value_t = ArrivalName::Exact)]
    arrival: ArrivalName,
    /// Where --arrival fitted-real-nic starts from: one seed is one schedule [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How often; the repetition in the middle, by the share of exact injections, is shown, and
    /// repeats.csv has all
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Do not look for the smallest interval that can be kept
    #[arg(long)]
    no_smallest: bool,
    /// Take the cycle of an interrupt apart, in a run of its own: raised, status read, masked,
    /// acknowledged, unmasked (keeps cycle.csv)
    #[arg(long)]
    cycle: bool,
    /// Repeat what was disturbed, up to 10 times: runs of which more than 10% of the intervals fall into
    /// hiccups; the result says how often that was
    #[arg(long)]
    retry_disturbed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalName {
    /// Every interval as it was asked for
    Exact,
    /// As a real NIC gave them, fitted to what was published: off by up to 2 us, and seldom (1 of 10,000) by up to 4 s
    FittedRealNic,
}

impl ArrivalName {
    fn arrival(self) -> Arrival {
        match self {
            ArrivalName::Exact => Arrival::Constant,
            ArrivalName::FittedRealNic => Arrival::FittedRealNic,
        }
    }
}

impl Accuracy {
    fn options(&self) -> Result<AccuracyOptions, Error> {
        if self.interval == Span::ZERO {
            return Err(Error::impossible(
                "an interval of 0 cannot be kept or missed; give --interval a time, such as 38us",
            ));
        }
        if self.seed.is_some() && self.arrival == ArrivalName::Exact {
            return Err(Error::impossible(
                "nothing is drawn in exact intervals; leave --seed out, or add --arrival fitted-real-nic",
            ));
        }
        let plan = Plan {
            size_bytes: self.size.0,
            interval: self.interval,
            count: self.count,
            receiver: self.target.receiver_as(Usual::Handlers),
            arrival: self.arrival.arrival(),
            seed: self.seed.map_or(Plan::default().seed, Seed),
            ..Plan::default()
        };
        plan.validate()?;
        Ok(AccuracyOptions {
            plan,
            repeat: self.repeat,
            smallest: !self.no_smallest,
            cycle: self.cycle,
            retry_disturbed: self.retry_disturbed,
        })
    }
}

impl Experiment for Accuracy {
    const NAME: &'static str = "accuracy";
    const ABOUT: &'static str =
        "Measure how exactly an interval is kept, from the injection to the driver's handler";
    const PUBLISHED: Option<&'static str> = Some(published::INJECTION);

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let options = self.options()?;
        let mut prepared = self.target.prepare_at(Usual::Handlers, &self.time, 1)?;
        prepared.defer_nothing();
        let mut session = watch.start(&prepared, &WireKind::Sink)?;
        let found = made::accuracy(&mut session, &options, watch)?;
        session.stop()?;
        let start = found.start;
        let intervals = found.series.into_iter().flat_map(move |series| lines(&series, start));
        let conclusion = Conclusion::new(found.result)
            .with_table("intervals", intervals)
            .with_table("repeats", found.repeats);
        let conclusion = match found.cycle.is_empty() {
            true => conclusion,
            false => conclusion.with_table("cycle", found.cycle),
        };
        Ok(match found.tried.is_empty() {
            true => conclusion,
            false => conclusion.with_table("smallest", found.tried),
        })
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

/// A line of `intervals.csv`.
#[derive(Serialize)]
struct Line {
    place: Place,
    index: usize,
    at_ns: f64,
    interval_ns: f64,
    error_ns: f64,
    in_hiccup: bool,
    not_running: &'static str,
}

fn lines(series: &Series, start: Time) -> Vec<Line> {
    let line = |(at, interval): (usize, &Interval)| Line {
        place: series.place,
        index: at + 1,
        at_ns: interval.until.since(start).as_ns(),
        interval_ns: interval.length.as_ns(),
        error_ns: series.error_ns(interval),
        in_hiccup: interval.not_running.any(),
        not_running: interval.not_running.name(),
    };
    series.intervals.iter().enumerate().map(line).collect()
}

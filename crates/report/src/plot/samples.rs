//! What a ledger with a row for each packet (`samples.csv`) shows.

use std::collections::BTreeMap;

use warikomi_measure::layout::{Scale, Unit};
use warikomi_measure::{Fate, Totals};

use super::axis::Axis;
use super::chart::{Chart, Series, Shape};
use super::style::MAX_SERIES;
use super::thin::{LogBins, Thinned};
use crate::read::{ReadError, Run, Sample, Watch, stream};

/// Intervals over time at two places, how long packets were under way, and what became of them.
pub(super) fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    let mut seen = Seen::default();
    let there = stream(&run.path.join("samples.csv"), watch, |sample: Sample| seen.add(&sample))?;
    if !there {
        return Ok(Vec::new());
    }
    let requested = run.result.intervals.as_ref().and_then(|intervals| intervals.requested_ns);
    Ok(vec![
        seen.injected.chart("intervals-injected", "Intervals between injections", requested),
        seen.delivered.chart("intervals-delivered", "Intervals between deliveries", requested),
        seen.delays(run.result.recipient()),
        seen.fates(run.result.ledger.as_ref()),
    ])
}

#[derive(Default)]
struct Seen {
    injected: IntervalsOverTime,
    delivered: IntervalsOverTime,
    to_driver: LogBins,
    to_application: LogBins,
    fates: BTreeMap<Fate, u64>,
}

impl Seen {
    fn add(&mut self, sample: &Sample) {
        *self.fates.entry(sample.fate).or_default() += 1;
        self.injected.at(sample.injected_ns);
        if sample.delivered_ns.is_some() {
            self.delivered.at(sample.delivered_ns);
        }
        let delay = |end: Option<f64>| Some(end? - sample.injected_ns?);
        delay(sample.accepted_ns).into_iter().for_each(|ns| self.to_driver.add(ns));
        delay(sample.delivered_ns).into_iter().for_each(|ns| self.to_application.add(ns));
    }

    fn delays(&self, recipient: &str) -> Chart {
        let x = Axis::new("time since the injection", "delay_from_ns", Unit::Ns, Scale::Log);
        let y = Axis::new("packets", "packets", Unit::Count, Scale::Zero);
        let mut chart = Chart::new("delay", "How long packets were under way", x, y);
        let steps = Shape::Steps(LogBins::ratio());
        chart.series = vec![
            Series::new("to the driver", steps, 0, self.to_driver.points()),
            Series::new(&format!("to {recipient}"), steps, 1, self.to_application.points()),
        ];
        chart.notes.push(BINS.to_owned());
        chart
    }

    fn fates(&self, ledger: Option<&Totals>) -> Chart {
        let names = self.fates.keys().map(|fate| fate_name(*fate).to_owned()).collect();
        let x = Axis::named("what became of it", "fate", names);
        let y = Axis::new("packets", "packets", Unit::Count, Scale::Zero);
        let mut chart = Chart::new("fates", "What became of each packet", x, y);
        let points = self.fates.values().enumerate().map(|(at, &count)| (at as f64, count as f64));
        chart.series = vec![Series::new("packets", Shape::Bars, 0, points)];
        if ledger.is_some_and(|ledger| !self.agrees_with(ledger)) {
            chart.notes.push(
                "samples.csv and the ledger in result.json contradict each other: one of them was \
                 changed or cut off. Run the experiment again."
                    .to_owned(),
            );
        }
        chart
    }

    /// Whether the rows, counted, are the ledger's columns.
    fn agrees_with(&self, ledger: &Totals) -> bool {
        let filtered = ledger.filtered.saturating_sub(ledger.not_receiving);
        let columns = [
            (Fate::NotInjected, ledger.not_injected),
            (Fate::NoDescriptor, ledger.no_descriptor),
            (Fate::Filtered, filtered),
            (Fate::NotReceiving, ledger.not_receiving),
            (Fate::DmaError, ledger.dma_error),
            (Fate::NotCompleted, ledger.not_completed),
            (Fate::Refused, ledger.refused),
            (Fate::LostOnRing, ledger.lost_on_ring),
            (Fate::Unclaimed, ledger.unclaimed),
            (Fate::LostInStack, ledger.lost_in_stack),
            (Fate::Delivered, ledger.delivered),
        ];
        columns.iter().all(|(fate, count)| self.fates.get(fate).copied().unwrap_or(0) == *count)
    }
}

/// What is said of histograms by the logarithm.
pub(super) const BINS: &str = "A bin is 1.059 times as long at its end as at its beginning (40 bins \
                               to a factor of ten); the numbers have its beginning.";

/// The fate as a file has it, which is as people say it but for the underscores.
fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::NotInjected => "not injected",
        Fate::NoDescriptor => "no descriptor",
        Fate::Filtered => "filtered",
        Fate::NotReceiving => "not receiving",
        Fate::DmaError => "DMA error",
        Fate::NotCompleted => "not completed",
        Fate::Refused => "refused",
        Fate::LostOnRing => "lost on ring",
        Fate::Unclaimed => "accepted",
        Fate::LostInStack => "lost in stack",
        Fate::Delivered => "delivered",
    }
}

/// Intervals between events, one after another.
#[derive(Default)]
struct IntervalsOverTime {
    last: Option<f64>,
    intervals: Thinned,
}

impl IntervalsOverTime {
    /// An event; one whose time is not known has no interval to either side.
    fn at(&mut self, at_ns: Option<f64>) {
        if let (Some(last), Some(at)) = (self.last, at_ns) {
            self.intervals.add(at, at - last);
        }
        self.last = at_ns;
    }

    fn chart(&self, name: &str, title: &str, requested_ns: Option<f64>) -> Chart {
        let series = [Series::new("interval", Shape::Points, 0, self.intervals.points())];
        over_time(name, title, requested_ns, series.to_vec(), self.intervals.group_size())
    }
}

/// Intervals over time, with a line at what was asked for.
fn over_time(
    name: &str,
    title: &str,
    requested_ns: Option<f64>,
    mut series: Vec<Series>,
    group_size: u64,
) -> Chart {
    let x = Axis::new("time since the first deadline", "at_ns", Unit::Ns, Scale::Linear);
    let y = Axis::new("interval", "interval_ns", Unit::Ns, Scale::Linear);
    let mut chart = Chart::new(name, title, x, y);
    series.extend(requested_ns.map(|ns| level("asked for", ns, &series)));
    chart.series = series;
    chart.notes.extend(thinned(group_size));
    chart
}

/// A line at one ordinate, from the first to the last of these points.
pub(super) fn level(name: &str, at: f64, beside: &[Series]) -> Series {
    let abscissae = || beside.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x));
    let (least, most) =
        (abscissae().fold(f64::INFINITY, f64::min), abscissae().fold(f64::NEG_INFINITY, f64::max));
    Series::new(name, Shape::Plain, MAX_SERIES - 1, [least, most].map(|x| (x, at))).dashed()
}

/// What is said of points of which only some are drawn.
pub(super) fn thinned(group_size: u64) -> Option<String> {
    (group_size > 1).then(|| {
        format!(
            "Of each {group_size} neighbours the shortest and the longest are drawn; the run's \
             directory has all of them."
        )
    })
}

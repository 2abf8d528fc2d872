//! What a run of `accuracy` shows: how far intervals were off, when, and how short they may be.

use super::inject::{BINS, over_time};
use super::thin::{LogBins, Thinned};
use super::{Axis, Chart, MAX_SERIES, Mark, Scale, Series, Shape, Unit, clean, figure};
use crate::read::{Interval, Kept, ReadError, Run, Watch, stream};
use crate::terminal::figures::time;

/// The most points of `smallest.csv` that are drawn.
const MAX_KEPT: usize = 5_000;

/// The histogram of errors, a course for each place, and the share kept against the interval.
pub(super) fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    // In the order in which they come, which is that in which things happen.
    let mut places: Vec<(String, Place)> = Vec::new();
    let intervals = run.path.join("intervals.csv");
    let there = stream(&intervals, &mut *watch, |interval: Interval| {
        let name = clean(&interval.place);
        let at = match places.iter().position(|(known, _)| *known == name) {
            Some(at) => at,
            None if places.len() == MAX_SERIES => return,
            None => {
                places.push((name, Place::default()));
                places.len() - 1
            }
        };
        places[at].1.add(&interval);
    })?;
    let mut charts = Vec::new();
    if there {
        let requested = requested_ns(run);
        charts.push(errors(run, &places, requested));
        let course = |(name, place): &(String, Place)| place.course(name, requested);
        charts.extend(places.iter().map(course));
    }
    let mut kept = Vec::new();
    stream(&run.path.join("smallest.csv"), watch, |line: Kept| {
        if kept.len() < MAX_KEPT {
            kept.extend(line.interval_ns.zip(line.kept_share));
        }
    })?;
    charts.push(smallest(run, kept));
    Ok(charts)
}

fn requested_ns(run: &Run) -> Option<f64> {
    let intervals = run.result.intervals.as_ref().and_then(|intervals| intervals.requested_ns);
    figure(&run.result.figures, "requested_ns").or(intervals)
}

/// The intervals seen at a place.
#[derive(Default)]
struct Place {
    errors: LogBins,
    quiet: Thinned,
    in_hiccup: Thinned,
}

impl Place {
    fn add(&mut self, interval: &Interval) {
        interval.error_ns.into_iter().for_each(|ns| self.errors.add(ns.abs()));
        if let (Some(at), Some(length)) = (interval.at_ns, interval.interval_ns) {
            let course = if interval.in_hiccup { &mut self.in_hiccup } else { &mut self.quiet };
            course.add(at, length);
        }
    }

    fn course(&self, name: &str, requested_ns: Option<f64>) -> Chart {
        let slug: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let series = vec![
            Series::new("interval", Shape::Points, 0, self.quiet.points()),
            Series::new("in a hiccup", Shape::Points, 1, self.in_hiccup.points()),
        ];
        let group = self.quiet.group_size().max(self.in_hiccup.group_size());
        let title = format!("Intervals over time, {name}");
        over_time(&format!("intervals-{slug}"), &title, requested_ns, series, group)
    }
}

fn errors(run: &Run, places: &[(String, Place)], requested: Option<f64>) -> Chart {
    let x = Axis::new("error, to either side", "error_from_ns", Unit::Time, Scale::Log);
    let y = Axis::new("intervals", "intervals", Unit::Count, Scale::FromZero);
    let mut chart = Chart::new("errors", "How far intervals were off", x, y);
    let steps = Shape::Steps(LogBins::ratio());
    chart.series = places
        .iter()
        .enumerate()
        .map(|(colour, (name, place))| Series::new(name, steps, colour, place.errors.points()))
        .collect();
    let mut mark = |name: &str, at: Option<f64>| {
        let colour = MAX_SERIES - 1;
        chart.marks.extend(at.map(|at| Mark { name: name.to_owned(), at, colour }));
    };
    mark("resolution of the clock", figure(&run.result.figures, "resolution_ns"));
    mark("1% of the interval", requested.map(|ns| ns * 0.01));
    mark("6.25% of the interval", requested.map(|ns| ns * 0.0625));
    let marks: Vec<_> =
        chart.marks.iter().map(|mark| format!("{} ({})", mark.name, time(mark.at))).collect();
    if !marks.is_empty() {
        chart.notes.push(format!("Marked, from the left: {}.", marks.join(", ")));
    }
    chart.marks_are = Some("resolution, 1%, 6.25%".to_owned());
    chart.notes.push(BINS.to_owned());
    chart.notes.push(format!("Errors below {} are in the first bin.", time(LogBins::SHORTEST_NS)));
    chart
}

fn smallest(run: &Run, mut kept: Vec<(f64, f64)>) -> Chart {
    let x = Axis::new("interval asked for", "interval_ns", Unit::Time, Scale::Log);
    let y = Axis::new("intervals kept", "kept_share", Unit::Share, Scale::FromZero);
    let mut chart = Chart::new("smallest", "How short intervals may be", x, y);
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    chart.series = vec![Series::new("kept", Shape::Line, 0, kept)];
    let smallest = figure(&run.result.figures, "smallest_interval_ns");
    let name = "smallest interval that was kept".to_owned();
    chart.marks_are = Some(name.clone());
    chart.marks.extend(smallest.map(|at| Mark { name, at, colour: MAX_SERIES - 1 }));
    chart
}

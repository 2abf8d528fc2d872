//! What a run of `replace` shows: how long replacements take, one of them step by step, where losses begin, and
//! whether anything grows.

use serde::Deserialize;
use serde_json::{Map, Value};
use warikomi_measure::published;

use super::{Axis, Chart, MAX_SERIES, Mark, Scale, Series, Shape, Unit, clean, figure};
use crate::read::{ReadError, Run, Watch, stream};

/// The most lines of a table that are kept, and the most charts of one kind.
const MAX_LINES: usize = 200_000;
const MAX_CHARTS: usize = 12;
/// The last colour is for what was published.
const PUBLISHED: usize = MAX_SERIES - 1;

/// A line of `replacements.csv`: a replacement.
#[derive(Debug, Deserialize)]
struct Line {
    way: String,
    load: String,
    kind: String,
    swap_us: f64,
}

/// A line of `timeline.csv`: something that happened around one replacement.
#[derive(Debug, Deserialize)]
struct Moment {
    way: String,
    load: String,
    kind: String,
    what: String,
    at_us: f64,
}

/// Which row of the result it belongs to.
fn name(way: &str, load: &str, kind: &str) -> String {
    clean(&format!("{way}, {load}, {kind}"))
}

/// The charts of a run with tables of replacements.
pub(super) fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    let mut lines: Vec<Line> = Vec::new();
    stream(&run.path.join("replacements.csv"), watch, |line| {
        if lines.len() < MAX_LINES {
            lines.push(line);
        }
    })?;
    let mut moments: Vec<Moment> = Vec::new();
    stream(&run.path.join("timeline.csv"), watch, |moment| {
        if moments.len() < MAX_LINES {
            moments.push(moment);
        }
    })?;
    let mut charts = vec![times(&lines)];
    charts.extend(timelines(&moments));
    charts.extend(list(&run.result.figures, "edges").take(MAX_CHARTS).enumerate().map(edge));
    charts.extend(list(&run.result.figures, "growth").take(MAX_CHARTS).enumerate().map(growth));
    Ok(charts)
}

fn list<'a>(
    of: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    of.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// Values that belong together, in the order of their first.
fn grouped<T>(all: &[T], key: impl Fn(&T) -> String) -> Vec<(String, Vec<&T>)> {
    let mut groups: Vec<(String, Vec<&T>)> = Vec::new();
    for one in all {
        let key = key(one);
        match groups.iter().position(|(known, _)| *known == key) {
            Some(at) => groups[at].1.push(one),
            None if groups.len() < MAX_CHARTS => groups.push((key, vec![one])),
            None => {}
        }
    }
    groups
}

/// The share of replacements that took no longer.
fn times(lines: &[Line]) -> Chart {
    let x = Axis::new("time to replace", "swap_ns", Unit::Time, Scale::Log);
    let y = Axis::new("replacements", "share", Unit::Share, Scale::FromZero);
    let title = "Share of replacements that took no longer than this";
    let mut chart = Chart::new("time", title, x, y);
    let rows = grouped(lines, |line| name(&line.way, &line.load, &line.kind));
    for (colour, (name, group)) in rows.into_iter().take(PUBLISHED).enumerate() {
        let mut sorted: Vec<f64> = group.iter().map(|line| line.swap_us * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let all = sorted.len() as f64;
        let points = sorted.into_iter().enumerate().map(|(at, ns)| (ns, (at + 1) as f64 / all));
        chart.series.push(Series::new(&name, Shape::Plain, colour, points));
    }
    for (system, _, figures) in published::driver_replacement().systems() {
        let name = format!("{system}, published mean");
        let at = figures.swap_ms_busy[1] * 1e6;
        chart.marks.push(Mark { name, at, colour: PUBLISHED });
    }
    chart.marks_are = Some("published means, busy: MINIX 3, AnT".to_owned());
    chart
}

/// Frames below, steps above, in the order in which they come.
const PLACES: [&str; 11] = [
    "frame sent",
    "frame taken",
    "frame arrived",
    "served",
    "accepted",
    "awake",
    "handed over",
    "death seen",
    "order seen",
    "killed",
    "order",
];
const FRAMES: usize = 3;
/// So much is shown before the order and behind the end: this share of it, and this time.
const MARGIN_SHARE: f64 = 0.5;
const MARGIN_US: f64 = 20.0;

fn timelines(moments: &[Moment]) -> impl Iterator<Item = Chart> {
    let rows = grouped(moments, |moment| name(&moment.way, &moment.load, &moment.kind));
    rows.into_iter().enumerate().map(|(at, (name, group))| timeline(at, &name, &group))
}

/// One replacement, a line for each kind of step and of frame.
fn timeline(at: usize, of: &str, moments: &[&Moment]) -> Chart {
    let title = format!("One replacement step by step: {of}");
    let x = Axis::new("since the order, or the kill", "at_ns", Unit::Time, Scale::Linear);
    let here: Vec<&str> = PLACES
        .into_iter()
        .filter(|place| moments.iter().any(|moment| moment.what == *place))
        .collect();
    let y = Axis::named("", "what", here.iter().map(|&place| place.to_owned()).collect());
    let mut chart = Chart::new(&format!("steps-{}", at + 1), &title, x, y);
    let end = moments.iter().filter(|moment| moment.what == "served").map(|moment| moment.at_us);
    let end = end.fold(0.0, f64::max);
    let margin = MARGIN_SHARE * end + MARGIN_US;
    let points = |frames: bool| {
        let place = |moment: &&&Moment| PLACES.iter().position(|place| *place == moment.what);
        let kind = move |moment: &&&Moment| place(moment).is_some_and(|at| (at < FRAMES) == frames);
        let shown = moments.iter().filter(kind).filter_map(|moment| {
            let line = here.iter().position(|place| *place == moment.what)?;
            let inside = (-margin..=end + margin).contains(&moment.at_us);
            inside.then_some((moment.at_us * 1e3, line as f64))
        });
        shown.collect::<Vec<_>>()
    };
    chart.series.push(Series::new("frames", Shape::Points, 0, points(true)));
    chart.series.push(Series::new("steps", Shape::Line, 1, points(false)));
    chart
}

/// Frames that found no descriptor, by free descriptors.
fn edge((at, edge): (usize, &Map<String, Value>)) -> Chart {
    let way = clean(edge.get("way").and_then(Value::as_str).unwrap_or_default());
    let x = Axis::new("free descriptors", "free_descriptors", Unit::Count, Scale::Log);
    let y = Axis::new("frames without one", "no_descriptor", Unit::Count, Scale::FromZero);
    let title = format!("Where losses begin: {way}");
    let mut chart = Chart::new(&format!("edge-{}", at + 1), &title, x, y);
    let mut points: Vec<(f64, f64)> = list(edge, "tried")
        .take(MAX_LINES)
        .filter_map(|row| Some((figure(row, "free_descriptors")?, figure(row, "no_descriptor")?)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    chart.series.push(Series::new("measured", Shape::Line, 0, points));
    if let Some(at) = figure(edge, "predicted_descriptors") {
        chart.marks.push(Mark { name: "predicted".to_owned(), at, colour: PUBLISHED });
        chart.marks_are = Some("predicted: gap / interval".to_owned());
    }
    chart
}

/// What a soak could let grow: a figure with its name.
const GROWTH: [(&str, &str); 4] = [
    ("support_resident_kib", "support side, resident"),
    ("support_shared_kib", "of this, shared"),
    ("target_resident_kib", "target, resident"),
    ("target_descriptors", "target, descriptors"),
];

fn growth((at, soak): (usize, &Map<String, Value>)) -> Chart {
    let row = clean(soak.get("row").and_then(Value::as_str).unwrap_or_default());
    let x = Axis::new("replacements", "replacements", Unit::Count, Scale::FromZero);
    let y = Axis::new("KiB, or number", "amount", Unit::Count, Scale::Log);
    let title = format!("What there is after so many replacements: {row}");
    let mut chart = Chart::new(&format!("growth-{}", at + 1), &title, x, y);
    for (colour, (name, said)) in GROWTH.into_iter().enumerate() {
        let point = |usage: &Map<String, Value>| {
            Some((figure(usage, "replacements")?, figure(usage, name)?))
        };
        let points: Vec<_> = list(soak, "usage").take(MAX_LINES).filter_map(point).collect();
        chart.series.push(Series::new(said, Shape::Plain, colour, points));
    }
    chart
}

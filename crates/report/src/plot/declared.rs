//! From a declared chart to what is drawn: once, or once for each value of what it is split by.

use serde_json::Value;
use warikomi_measure::layout::{self, Column, Kind, Object, Source};

use super::axis::Axis;
use super::chart::{Chart, Series, Shape};
use super::collect::{Collector, Plan, label, slug};
use super::name::clean;
use crate::read::{ReadError, Run, Wanted, Watch, lines, rows};

/// The most charts that one is split into.
const MAX_CHARTS: usize = 12;
/// The most rows that belong to every part, and events of a timeline.
const MAX_KEPT: usize = 200_000;

/// The drawn charts of a declared one; series and names may be empty.
pub(super) fn charts(
    run: &Run,
    chart: &layout::Chart,
    watch: Watch<'_>,
) -> Result<Vec<Chart>, ReadError> {
    let plan = plan(run, chart);
    let mut parts =
        Parts { plan: &plan, parts: Vec::new(), had: Vec::new(), common: Vec::new(), left_out: 0 };
    if let Source::File(name) = &chart.source {
        let path = run.path.join(format!("{name}.csv"));
        lines(&path, &wanted(chart), watch, |row| parts.add(row))?;
    } else {
        // Rows of all parts first, so that a series has the same colour in each.
        let rows = rows(&run.result, &chart.source).into_iter();
        let (of_all, others): (Vec<_>, Vec<_>) = rows.partition(|row| parts.of_all(row));
        of_all.into_iter().chain(others).for_each(|row| parts.add(row));
    }
    Ok(parts.finish())
}

fn plan<'a>(run: &Run, chart: &'a layout::Chart) -> Plan<'a> {
    let column = |key: &String| {
        let own = chart.columns.iter().find(|column| column.key == *key).cloned();
        own.unwrap_or_else(|| match chart.source {
            Source::Rows => run.result.layout.column(key),
            _ => Column::of(key),
        })
    };
    let columns = |keys: &[String]| keys.iter().map(column).collect();
    Plan {
        chart,
        x: columns(&chart.x.keys),
        series: columns(&chart.series),
        split: columns(&chart.split),
    }
}

/// What is read of a file for a chart.
fn wanted(chart: &layout::Chart) -> Wanted {
    let numbers = chart.curves.iter().map(|curve| &curve.key);
    let counted = matches!(chart.kind, Kind::Distribution | Kind::Cumulative);
    let measured = (!chart.x.named && !counted).then_some(&chart.x.keys);
    let conditions = chart.curves.iter().flat_map(|curve| &curve.only).chain(&chart.only);
    let others = [&chart.x.keys, &chart.series, &chart.split].into_iter().flatten();
    let others = others.chain(conditions.map(|only| &only.key));
    let numbers: Vec<String> = match chart.kind {
        Kind::Timeline => chart.x.keys.clone(),
        _ => numbers.chain(measured.into_iter().flatten()).cloned().collect(),
    };
    let events = chart.curves.iter().map(|curve| &curve.key);
    let events = events.filter(|_| chart.kind == Kind::Timeline);
    let words = chart.columns.iter().filter(|column| column.words.contains_key("true"));
    let flags = words.map(|column| &column.key).chain(&chart.aside).cloned().collect();
    Wanted { numbers, flags, others: others.chain(events).cloned().collect() }
}

/// The parts of a chart, each with its rows, by their names in words and for a file.
struct Parts<'a> {
    plan: &'a Plan<'a>,
    parts: Vec<([String; 2], Part<'a>)>,
    /// How many rows of all parts each has had from its beginning.
    had: Vec<usize>,
    /// Rows that belong to each part.
    common: Vec<Object>,
    /// Rows of parts beyond the last that is drawn.
    left_out: u64,
}

enum Part<'a> {
    Figures(Collector<'a>),
    Timeline(Vec<(f64, String)>),
}

impl<'a> Parts<'a> {
    /// Whether a row belongs to each part.
    fn of_all(&self, row: &Object) -> bool {
        let mut split = self.plan.split.iter();
        !self.plan.split.is_empty() && split.all(|column| column.value(row).is_none())
    }

    fn add(&mut self, row: &Object) {
        let of = label(&self.plan.split, row);
        if self.of_all(row) {
            if self.common.len() < MAX_KEPT {
                self.common.push(row.clone());
            }
            return;
        }
        let slug = slug(&self.plan.split, row);
        match self.part([of, slug]) {
            Some(at) => self.parts[at].1.add(self.plan, row),
            None => self.left_out += 1,
        }
    }

    fn part(&mut self, of: [String; 2]) -> Option<usize> {
        let known = self.parts.iter().position(|(known, _)| *known == of);
        known.or_else(|| {
            (self.parts.len() < MAX_CHARTS).then(|| {
                let mut part = match self.plan.chart.kind {
                    Kind::Timeline => Part::Timeline(Vec::new()),
                    _ => Part::Figures(Collector::new(self.plan)),
                };
                self.common.iter().for_each(|row| part.add(self.plan, row));
                self.had.push(self.common.len());
                self.parts.push((of, part));
                self.parts.len() - 1
            })
        })
    }

    fn finish(mut self) -> Vec<Chart> {
        if self.parts.is_empty() {
            let _ = self.part(Default::default());
        }
        let finish = |(([of, slug], mut part), had): (([String; 2], Part<'a>), usize)| {
            self.common.iter().skip(had).for_each(|row| part.add(self.plan, row));
            match part {
                Part::Figures(collector) => collector.finish(&of, &slug),
                Part::Timeline(events) => timeline(self.plan, [&of, &slug], &events),
            }
        };
        let mut charts: Vec<Chart> = self.parts.into_iter().zip(self.had).map(finish).collect();
        if let Some(last) = charts.last_mut().filter(|_| self.left_out > 0) {
            let left_out = layout::count(self.left_out);
            let rows = format!("{left_out} rows of further plots are left out");
            last.notes.push(format!("{rows}: there are {MAX_CHARTS} at most."));
        }
        charts
    }
}

impl Part<'_> {
    fn add(&mut self, plan: &Plan<'_>, row: &Object) {
        match self {
            Part::Figures(collector) => collector.add(row),
            Part::Timeline(events) if events.len() < MAX_KEPT => {
                let what = plan.chart.curves.first().and_then(|curve| row.get(&curve.key));
                let at = plan.x.first().and_then(|column| column.number(row));
                let event = at.zip(what.and_then(Value::as_str));
                let base = plan.chart.x.unit.base();
                events.extend(event.map(|(at, what)| (at * base, what.to_owned())));
            }
            Part::Timeline(_) => {}
        }
    }
}

/// So much is shown before the first step and behind the last: this share of the time between, and this long.
const MARGIN_SHARE: f64 = 0.5;
const MARGIN_NS: f64 = 20_000.0;

/// A line for each kind of event, the steps joined, around the steps.
fn timeline(plan: &Plan<'_>, [of, slug]: [&str; 2], events: &[(f64, String)]) -> Chart {
    let declared = plan.chart;
    let mut chart = Collector::new(plan).finish(of, slug);
    let here = |name: &&String| events.iter().any(|(_, what)| what == *name);
    let names: Vec<&String> = declared.y.order.iter().filter(here).collect();
    let is_step = |what: &String| !declared.background.contains(what);
    let steps = || events.iter().filter(|(_, what)| names.contains(&what) && is_step(what));
    let first = steps().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
    let last = steps().map(|(at, _)| *at).fold(f64::NEG_INFINITY, f64::max);
    let margin = MARGIN_SHARE * (last - first) + MARGIN_NS;
    let points = |step: bool| {
        let shown = events.iter().filter(|(at, what)| {
            is_step(what) == step && (first - margin..=last + margin).contains(at)
        });
        let place = |what: &String| names.iter().position(|name| *name == what);
        let points = shown.filter_map(|(at, what)| Some((*at, place(what)? as f64)));
        points.collect::<Vec<_>>()
    };
    chart.y = Axis::named("", "what", names.iter().map(|name| clean(name)).collect());
    chart.series = vec![
        Series::new("frames", Shape::Points, 0, points(false)),
        Series::new("steps", Shape::Line, 1, points(true)),
    ];
    chart
}

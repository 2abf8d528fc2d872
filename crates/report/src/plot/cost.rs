//! What a run of `cost` shows: the time to send, and what receiving is made of.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::inject::BINS;
use super::sweep::size_name;
use super::thin::LogBins;
use super::{Axis, Chart, MAX_SERIES, Scale, Series, Shape, Unit, figure};
use crate::read::{Call, ReadError, Run, Watch, stream};

type Row = Map<String, Value>;

/// Send time and receive time by length, if rows have them; the distribution of calls, if there is
/// one.
pub(super) fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    let rows = run.result.rows.as_deref().unwrap_or_default();
    let mut charts = vec![send(rows, &run.result.figures), receive(rows)];
    let mut calls: BTreeMap<u64, LogBins> = BTreeMap::new();
    let path = run.path.join("calls.csv");
    stream(&path, watch, |call: Call| {
        let drawn = calls.contains_key(&call.size_bytes) || calls.len() < MAX_SERIES;
        if let (true, Some(ns)) = (drawn, call.send_ns) {
            calls.entry(call.size_bytes).or_default().add(ns);
        }
    })?;
    charts.push(distribution(&calls));
    Ok(charts)
}

fn by_length(name: &str, title: &str, ordinate: &str) -> Chart {
    let x = Axis::new("frame length (bytes)", "size_bytes", Unit::Count, Scale::FromZero);
    let y = Axis::new(ordinate, "time_ns", Unit::Time, Scale::FromZero);
    Chart::new(name, title, x, y)
}

fn points(rows: &[Row], name: &str) -> Vec<(f64, f64)> {
    rows.iter().filter_map(|row| Some((figure(row, "size_bytes")?, figure(row, name)?))).collect()
}

fn send(rows: &[Row], figures: &Row) -> Chart {
    let mut chart = by_length("send", "Time to send a packet by frame length", "time to send");
    let measured = points(rows, "send_ns");
    // A sweep has send times too, but draws them where they matter: in its curves.
    let fit = figure(figures, "send_fixed_ns").zip(figure(figures, "send_ns_per_byte"));
    let Some((fixed, per_byte)) = fit else { return chart };
    let longest = measured.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max);
    let line = [0.0, longest].map(|bytes| (bytes, fixed + per_byte * bytes));
    chart.series = vec![
        Series::new("measured", Shape::Points, 0, measured),
        Series::new("fitted line", Shape::Plain, 0, line),
        Series::new("published", Shape::Line, 1, points(rows, "published_send_ns")).dashed(),
    ];
    let mut note = format!("Fitted: {fixed:.1} ns + {per_byte:.4} ns a byte");
    if let Some(r_squared) = figure(figures, "send_r_squared") {
        note += &format!(" (R² = {r_squared:.4})");
    }
    chart.notes.push(note + ".");
    chart
}

fn receive(rows: &[Row]) -> Chart {
    let title = "What receiving a packet costs, by frame length";
    let mut chart = by_length("receive", title, "time for a packet");
    let series = |name: &str, column: &str, colour| {
        Series::new(name, Shape::Line, colour, points(rows, column))
    };
    chart.series = vec![
        series("copy", "copy_ns", 0),
        series("protocol", "protocol_ns", 1),
        series("copy, published", "published_copy_ns", 0).dashed(),
        series("protocol, published", "published_protocol_ns", 1).dashed(),
    ];
    // The copy alone is another experiment's yardstick, not a part of receiving.
    if chart.series[1].points.is_empty() {
        chart.series.clear();
    }
    chart
}

fn distribution(calls: &BTreeMap<u64, LogBins>) -> Chart {
    let x = Axis::new("time to send", "send_from_ns", Unit::Time, Scale::Log);
    let y = Axis::new("calls", "calls", Unit::Count, Scale::FromZero);
    let mut chart = Chart::new("calls", "How long each call took", x, y);
    let steps = Shape::Steps(LogBins::ratio());
    chart.series = calls
        .iter()
        .enumerate()
        .map(|(colour, (bytes, bins))| {
            Series::new(&size_name(*bytes), steps, colour, bins.points())
        })
        .collect();
    chart.notes.push(BINS.to_owned());
    chart
}

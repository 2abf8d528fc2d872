//! What a run of `receive` shows: what each way to receive costs, loses and delays.

use serde_json::{Map, Value};
use warikomi_measure::published;

use super::{Axis, Chart, MAX_SERIES, Scale, Series, Shape, Unit, clean, figure};
use crate::read::Run;
use crate::terminal::figures::{count, time};

type Row = Map<String, Value>;
type Points = Vec<(f64, f64)>;

/// The most rows that are drawn, and the most poll times and buffers.
const MAX_ROWS: usize = 2_000;
const MAX_POLLS: usize = 6;
const MAX_BUFFERS: usize = 4;
/// The longest poll time that makes sense, in microseconds: a quarter of an hour.
const LONGEST_POLL_US: u64 = 1_000_000_000;
/// The last colour is for what was published, so one strategy less has one of its own.
const MAX_STRATEGIES: usize = MAX_SERIES - 1;
const PUBLISHED: usize = MAX_SERIES - 1;

/// The charts of rows that name a strategy.
pub(super) fn charts(run: &Run) -> Vec<Chart> {
    let rows = run.result.rows.iter().flatten().filter(|row| has_place(row));
    let rows: Vec<&Row> = rows.take(MAX_ROWS).collect();
    let strategies = strategies(&rows);
    if strategies.is_empty() {
        return Vec::new();
    }
    let mut charts = cpu_share(&rows, &strategies);
    charts.push(lost_share(&rows, &strategies));
    charts.push(delay(&rows, &strategies));
    charts
}

/// Whether its poll time is one, if it has any: it becomes part of a chart's name.
fn has_place(row: &Row) -> bool {
    let poll = row.get("poll_us").filter(|value| !value.is_null());
    let sound = |value: &Value| value.as_u64().is_some_and(|us| us <= LONGEST_POLL_US);
    poll.is_none_or(sound) && figure(row, "lost_share").is_some()
}

fn strategy(row: &Row) -> Option<&str> {
    row.get("strategy")?.as_str()
}

/// In the order of their first rows.
fn strategies(rows: &[&Row]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().filter_map(|row| strategy(row)) {
        if names.len() < MAX_STRATEGIES && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The different values of a figure, in order.
fn values(rows: &[&Row], name: &str) -> Vec<f64> {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| figure(row, name)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// A series for each strategy, of the points that its rows have.
fn by_strategy(
    rows: &[&Row],
    strategies: &[String],
    shape: Shape,
    point: impl Fn(&Row) -> Option<(f64, f64)>,
) -> Vec<Series> {
    let series = |(colour, name): (usize, &String)| {
        let rows = rows.iter().filter(|row| strategy(row) == Some(name));
        let mut points: Points = rows.filter_map(|row| point(row)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Series::new(&clean(name), shape, colour, points)
    };
    strategies.iter().enumerate().map(series).collect()
}

fn poll_time(us: f64) -> String {
    time(us * 1e3)
}

/// CPU share against burst size: a chart for each poll time, with those that do not poll in each.
fn cpu_share(rows: &[&Row], strategies: &[String]) -> Vec<Chart> {
    let polls = values(rows, "poll_us");
    let largest = values(rows, "buffer_bytes").last().copied();
    let chart = |poll: Option<f64>| {
        let x = Axis::new("burst (bytes)", "burst_bytes", Unit::Count, Scale::FromZero);
        let y = Axis::new("CPU share of receiving", "cpu_share", Unit::Share, Scale::FromZero);
        let (name, title) = match poll {
            Some(us) => (format!("cpu-{us:.0}us"), format!(", T = {}", poll_time(us))),
            None => ("cpu".to_owned(), String::new()),
        };
        let title = format!("CPU share by burst size{title}");
        let mut chart = Chart::new(&name, &title, x, y);
        chart.series = by_strategy(rows, strategies, Shape::Line, |row| {
            let of_poll = figure(row, "poll_us").is_none_or(|us| Some(us) == poll);
            let here = of_poll && figure(row, "buffer_bytes") == largest;
            Some((figure(row, "burst_bytes")?, figure(row, "cpu_share")?)).filter(|_| here)
        });
        let bytes = published::HYBRID_BURST_BYTES;
        let share = poll.and_then(|us| published::hybrid_receive().cpu_share(us as u64, bytes));
        let published = share.map(|share| (bytes as f64, share));
        chart.series.push(Series::new("published", Shape::Points, PUBLISHED, published).dashed());
        if let Some(bytes) = largest {
            chart.notes.push(format!("With a receive buffer of {} bytes.", count(bytes as u64)));
        }
        chart
    };
    match polls.is_empty() {
        true => vec![chart(None)],
        false => polls.into_iter().take(MAX_POLLS).map(|us| chart(Some(us))).collect(),
    }
}

/// What was lost, by poll time and buffer; of several bursts the one with the greatest loss.
fn lost_share(rows: &[&Row], strategies: &[String]) -> Chart {
    let buffers = values(rows, "buffer_bytes");
    let mut places: Vec<(Option<f64>, f64)> = Vec::new();
    let none = rows.iter().any(|row| figure(row, "poll_us").is_none()).then_some(None);
    let buffers = &buffers[..buffers.len().min(MAX_BUFFERS)];
    let polls = values(rows, "poll_us").into_iter().take(MAX_POLLS).map(Some);
    for poll in none.into_iter().chain(polls) {
        places.extend(buffers.iter().map(|buffer| (poll, *buffer)));
    }
    let names = places.iter().map(|(poll, buffer)| {
        let poll = poll.map_or("no T".to_owned(), poll_time);
        format!("{poll}, {} MB", decimals(buffer / 1e6))
    });
    let x = Axis::named("poll time T and receive buffer", "parameters", names.collect());
    let y = Axis::new("packets lost (%)", "lost_percent", Unit::Count, Scale::FromZero);
    let mut chart = Chart::new("lost", "Packets lost by poll time and receive buffer", x, y);
    let place = |poll: Option<f64>, buffer: f64| {
        places.iter().position(|known| *known == (poll, buffer)).map(|at| at as f64)
    };
    chart.series = by_strategy(rows, strategies, Shape::Points, |row| {
        let at = place(figure(row, "poll_us"), figure(row, "buffer_bytes")?)?;
        Some((at, 100.0 * figure(row, "lost_share")?))
    });
    for series in &mut chart.series {
        // In order of both: the last at a place is the greatest.
        series.points = series
            .points
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|same| same.last().copied())
            .collect();
    }
    let published = published::hybrid_receive().losses().iter().filter_map(|loss| {
        let at = place(Some(loss.poll_us as f64), (loss.buffer_mb * 1_000_000) as f64)?;
        Some((at, 100.0 * loss.lost_share))
    });
    chart.series.push(Series::new("published", Shape::Points, PUBLISHED, published).dashed());
    if values(rows, "burst_bytes").len() > 1 {
        chart.notes.push("Of bursts of several lengths, the one that lost most.".to_owned());
    }
    chart
}

fn decimals(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a shorter delay costs.
fn delay(rows: &[&Row], strategies: &[String]) -> Chart {
    let x = Axis::new("CPU share of receiving", "cpu_share", Unit::Share, Scale::FromZero);
    let y = Axis::new("delay, 99th percentile", "delay_p99_ns", Unit::Time, Scale::Log);
    let title = "Delay of a burst's last packet against CPU share";
    let mut chart = Chart::new("delay-cpu", title, x, y);
    chart.series = by_strategy(rows, strategies, Shape::Points, |row| {
        let p99_us = row.get("delay_us")?.get("p99")?.as_f64()?;
        Some((figure(row, "cpu_share")?, p99_us * 1e3))
    });
    chart.notes.push("A point for each row: poll time, buffer and burst.".to_owned());
    chart
}

//! What a run of `transmit` in a real kernel shows: throughput against size, a chart for each sender.

use serde_json::{Map, Value};

use super::{Axis, Chart, MAX_SERIES, Scale, Series, Shape, Unit, figure};
use crate::read::Run;
use crate::terminal::transmit_kernel::way;

/// The most rows that are looked at.
const MAX_ROWS: usize = 5_000;

/// The senders: a chart's name, what its row says, and its title.
const SENDERS: [(&str, &str, &str); 3] = [
    ("kernel-pktgen", "pktgen", "Throughput of pktgen by message size, burst and interrupts"),
    ("kernel-udp", "udp", "Throughput of a UDP application by message size and interrupts"),
    ("kernel-tcp", "tcp", "Throughput of TCP by length of a write, segmentation and interrupts"),
];

/// The charts of rows that say who sent in a kernel.
pub(super) fn charts(run: &Run) -> Vec<Chart> {
    let rows: Vec<_> = run.result.rows.iter().flatten().take(MAX_ROWS).collect();
    SENDERS.iter().map(|(name, sender, title)| chart(&rows, sender, name, title)).collect()
}

fn chart(rows: &[&Map<String, Value>], sender: &str, name: &str, title: &str) -> Chart {
    let x = Axis::new("message (bytes)", "size_bytes", Unit::Count, Scale::Log);
    let y = Axis::new("throughput of messages", "bps", Unit::Rate, Scale::FromZero);
    let mut chart = Chart::new(name, title, x, y);
    let text = |row: &Map<String, Value>, name: &str| {
        row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut courses: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for row in rows.iter().filter(|row| text(row, "sender") == sender) {
        let (way, completion) = (way(row), text(row, "completion"));
        let name = if way.is_empty() { completion } else { format!("{way}, {completion}") };
        let Some(point) = figure(row, "size_bytes").zip(figure(row, "bps")) else { continue };
        match courses.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => courses.push((name, vec![point])),
        }
    }
    courses.truncate(MAX_SERIES);
    let series = |(colour, (name, mut points)): (usize, (String, Vec<(f64, f64)>))| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Series::new(&name, Shape::Line, colour, points)
    };
    chart.series = courses.into_iter().enumerate().map(series).collect();
    chart
}

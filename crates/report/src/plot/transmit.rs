//! What a run of `transmit` shows: throughput against size, and what each choice changes in it.

use warikomi_measure::RunResult;
use warikomi_measure::published::{self, BOUNCE_BYTES, CHAIN_BYTES, DMA_BYTES};

use super::{Axis, Chart, MAX_SERIES, Scale, Series, Shape, Unit};
use crate::read::Run;
use crate::transmit::{
    Line, SHORT_BYTES, Way, adaptive_gain, bounce_gain, different, lines, shares,
};

/// The most kinds of buffers that are drawn; each has a name that becomes part of a chart's name.
const MAX_BUFFERS: usize = 4;
const LONGEST_NAME: usize = 24;
/// The last colour is for what was published.
const PUBLISHED: usize = MAX_SERIES - 1;

/// The charts of rows that say how messages were sent.
pub(super) fn charts(run: &Run) -> Vec<Chart> {
    let result = &run.result;
    let lines = lines(result);
    let mut buffers = different(&lines, |line| line.buffers);
    buffers.retain(|name| is_name(name));
    buffers.truncate(MAX_BUFFERS);
    if buffers.is_empty() {
        return Vec::new();
    }
    let mut charts = vec![
        systems(&lines, &buffers),
        packets(&lines, &buffers),
        completion_gain(&lines, &buffers),
    ];
    charts.extend(buffers.iter().map(|name| ways(&lines, name)));
    charts.extend(buffers.iter().map(|name| bounces(&lines, name)));
    charts.extend(buffers.iter().map(|name| mixtures(&lines, name)));
    charts.push(separated(result));
    charts.push(both_times(&lines, &buffers));
    charts
}

/// Whether it can be part of a file's name.
fn is_name(name: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':');
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(sound)
}

fn file_name(prefix: &str, buffers: &str) -> String {
    format!("{prefix}-{}", buffers.replace(':', "-"))
}

fn by_size(name: &str, title: &str, y: Axis) -> Chart {
    let x = Axis::new("message (bytes)", "size_bytes", Unit::Count, Scale::Log);
    Chart::new(name, title, x, y)
}

fn throughput() -> Axis {
    Axis::new("throughput of messages", "bps", Unit::Rate, Scale::FromZero)
}

fn change(label: &str) -> Axis {
    Axis::new(label, "change_percent", Unit::Count, Scale::FromZero)
}

/// Points of all rows of messages of one length that have a figure, by size.
fn points(
    lines: &[Line<'_>],
    which: impl Fn(&Line<'_>) -> bool,
    figure: impl Fn(&Line<'_>) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let here = lines.iter().filter(|line| line.mixture.is_none() && which(line));
    let mut points: Vec<(f64, f64)> =
        here.filter_map(|line| Some((line.size_bytes as f64, figure(line)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points
}

/// Sent as the systems are compared: adaptive completion without a bounce buffer.
fn is_usual(line: &Line<'_>) -> bool {
    line.completion.starts_with("adaptive") && line.bounce == "none"
}

fn systems(lines: &[Line<'_>], buffers: &[&str]) -> Chart {
    let title = "Throughput by message size, adaptive completion, no bounce buffer";
    let mut chart = by_size("throughput", title, throughput());
    let of = |name: &str, figure: &str| {
        points(lines, |line| is_usual(line) && line.buffers == name, |line| line.number(figure))
    };
    let measured =
        |(colour, name): (usize, &&str)| Series::new(name, Shape::Line, colour, of(name, "bps"));
    chart.series = buffers.iter().enumerate().map(measured).collect();
    let published = |(colour, name): (usize, &&str)| {
        let name_of = format!("{name}, published");
        Series::new(&name_of, Shape::Points, colour, of(name, "published_bps")).dashed()
    };
    chart.series.extend(buffers.iter().enumerate().map(published));
    chart
}

fn packets(lines: &[Line<'_>], buffers: &[&str]) -> Chart {
    let y = Axis::new("packets per second", "pps", Unit::Count, Scale::Log);
    let title = "Packets by message size, adaptive completion, no bounce buffer";
    let mut chart = by_size("packets", title, y);
    let series = |(colour, name): (usize, &&str)| {
        let of_name = |line: &Line<'_>| is_usual(line) && line.buffers == *name;
        Series::new(name, Shape::Line, colour, points(lines, of_name, |line| line.number("pps")))
    };
    chart.series = buffers.iter().enumerate().map(series).collect();
    chart
}

fn completion_gain(lines: &[Line<'_>], buffers: &[&str]) -> Chart {
    let title = "Adaptive completion against interrupts, by message size";
    let mut chart = by_size("completion", title, change("change of throughput (%)"));
    for (colour, name) in buffers.iter().enumerate() {
        let gain = |line: &Line<'_>| adaptive_gain(lines, line).map(|share| 100.0 * share);
        let measured = points(lines, |line| line.buffers == *name, gain);
        chart.series.push(Series::new(name, Shape::Line, colour, measured));
        let share = published::adaptive_transmit().short_gain_share(name);
        let there = [(SHORT_BYTES as f64, 100.0 * share)];
        let published = Series::new(&format!("{name}, published"), Shape::Points, colour, there);
        chart.series.push(published.dashed());
    }
    // What was published stands beside something, not alone.
    if chart.series.iter().all(|series| series.dashed || series.points.is_empty()) {
        chart.series.clear();
    }
    chart
        .notes
        .push(format!("What was published for short packets is drawn at {SHORT_BYTES} bytes."));
    chart
}

fn name_of((completion, bounce): Way<'_>) -> String {
    match bounce {
        "none" => completion.to_owned(),
        bounce => format!("{completion}, bounce {bounce}"),
    }
}

fn ways(lines: &[Line<'_>], buffers: &str) -> Chart {
    let title = format!("Throughput by message size and way to send, {buffers}");
    let mut chart = by_size(&file_name("ways", buffers), &title, throughput());
    let of_buffers: Vec<Line<'_>> =
        lines.iter().filter(|line| line.buffers == buffers).copied().collect();
    let ways = different(&of_buffers, Line::way);
    let series = |(colour, way): (usize, &Way<'_>)| {
        let measured = points(&of_buffers, |line| line.way() == *way, |line| line.number("bps"));
        Series::new(&name_of(*way), Shape::Line, colour, measured)
    };
    chart.series = ways.iter().take(MAX_SERIES).enumerate().map(series).collect();
    if of_buffers.iter().any(Line::dead_locked) {
        chart.notes.push("Where a strategy has no point it came to a dead-lock.".to_owned());
    }
    chart
}

fn bounces(lines: &[Line<'_>], buffers: &str) -> Chart {
    let title = format!("Bounce buffer against none, by message size, {buffers}");
    let name = file_name("bounce", buffers);
    let mut chart = by_size(&name, &title, change("change of throughput (%)"));
    let of_buffers: Vec<Line<'_>> =
        lines.iter().filter(|line| line.buffers == buffers).copied().collect();
    let gain = |line: &Line<'_>| bounce_gain(lines, line).map(|share| 100.0 * share);
    let ways = different(&of_buffers, Line::way).into_iter();
    let series = ways.map(|way| (way, points(&of_buffers, |line| line.way() == way, gain)));
    let series = series.filter(|(_, points)| !points.is_empty()).take(PUBLISHED);
    chart.series = series
        .enumerate()
        .map(|(colour, (way, points))| Series::new(&name_of(way), Shape::Line, colour, points))
        .collect();
    if buffers == "mbuf-2k" && !chart.series.is_empty() {
        let share = published::adaptive_transmit().bounce_gain_share;
        let there = [(BOUNCE_BYTES as f64, 100.0 * share)];
        chart.series.push(Series::new("published", Shape::Points, PUBLISHED, there).dashed());
    }
    chart
}

fn mixtures(lines: &[Line<'_>], buffers: &str) -> Chart {
    let of_buffers: Vec<Line<'_>> =
        lines.iter().filter(|line| line.buffers == buffers).copied().collect();
    let names: Vec<&str> =
        different(&of_buffers, |line| line.mixture).into_iter().flatten().collect();
    let x = Axis::named(
        "mixture of messages",
        "mixture",
        names.iter().map(|name| super::clean(name)).collect(),
    );
    let title = format!("Throughput of mixtures by way to send, {buffers}");
    let mut chart = Chart::new(&file_name("mixtures", buffers), &title, x, throughput());
    let ways = different(&of_buffers, Line::way).into_iter().take(MAX_SERIES).enumerate();
    chart.series = ways
        .map(|(colour, way)| {
            let rows = of_buffers.iter().filter(|line| line.way() == way);
            let points = rows.filter_map(|line| {
                let place = names.iter().position(|name| Some(*name) == line.mixture)?;
                Some((place as f64, line.number("bps")?))
            });
            Series::new(&name_of(way), Shape::Points, colour, points.collect::<Vec<_>>())
        })
        .collect();
    chart
}

fn separated(result: &RunResult) -> Chart {
    let title = "What mbufs cost, of a contiguous buffer's throughput";
    let mut chart = by_size("shares", title, change("lost throughput (%)"));
    let shares = shares(result);
    let transmit = published::adaptive_transmit();
    let mut kinds: Vec<&str> = shares.iter().map(|share| share.buffers).collect();
    kinds.dedup();
    for (number, kind) in kinds.into_iter().take(MAX_SERIES / 2).enumerate() {
        let of_kind = || shares.iter().filter(|share| share.buffers == kind);
        let dma = of_kind().map(|share| (share.size_bytes as f64, 100.0 * share.dma));
        let chain = of_kind().map(|share| (share.size_bytes as f64, 100.0 * share.chain));
        let name = format!("DMA, {kind}");
        chart.series.push(Series::new(&name, Shape::Line, 2 * number, dma));
        let name = format!("chains, {kind}");
        chart.series.push(Series::new(&name, Shape::Line, 2 * number + 1, chain));
    }
    if !chart.series.is_empty() {
        let dma = [(DMA_BYTES as f64, 100.0 * transmit.dma_cost_share)];
        let chain = [(CHAIN_BYTES as f64, 100.0 * transmit.mbuf_cost_share)];
        chart.series.push(Series::new("DMA, published", Shape::Points, 0, dma).dashed());
        chart.series.push(Series::new("chains, published", Shape::Points, 1, chain).dashed());
    }
    chart
}

fn both_times(lines: &[Line<'_>], buffers: &[&str]) -> Chart {
    let title = "Real and virtual time: adaptive completion, no bounce buffer";
    let mut chart = by_size("virtual", title, throughput());
    if !lines.iter().any(|line| line.number("virtual_bps").is_some()) {
        return chart;
    }
    for (colour, name) in buffers.iter().enumerate() {
        let of = |figure: &str| {
            let which = |line: &Line<'_>| is_usual(line) && line.buffers == *name;
            points(lines, which, |line| line.number(figure))
        };
        chart.series.push(Series::new(&format!("{name}, real"), Shape::Line, colour, of("bps")));
        let name = format!("{name}, virtual");
        chart.series.push(Series::new(&name, Shape::Line, colour, of("virtual_bps")).dashed());
    }
    chart
}

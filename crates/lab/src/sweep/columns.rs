//! What a sweep shows: throughput by length, and success against the interval.

use warikomi_measure::layout::{
    Axis, Chart, Column, Curve, Kind, Layout, Mark, Object, Only, Scale, Several, Source, Table,
    Unit, View, count, time,
};
use warikomi_measure::{RunResult, published};

use super::dips::ALPHA;
use crate::cells::{headline, list, number, text};

/// The length whose two curves are overlaid, in bytes, or the nearest to it.
const OVERLAID_BYTES: u64 = 1_500;

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let said = &published::injection().findings;
    let notes = [&said.success_vs_interval, &said.end_to_end_vs_driver];
    let notes = notes.map(|said| format!("published: {said}")).to_vec();
    let mut layout = Layout {
        columns: columns(rows),
        views: vec![View { turned: true, notes, ..View::default() }],
        charts: charts(rows),
        tables: dips(&result.figures).into_iter().collect(),
        ..Layout::default()
    };
    say_dips(&mut layout, &result.figures);
    let longest = rows.iter().filter(|row| row.contains_key("loss_free_bps")).max_by(|a, b| {
        let size = |row: &Object| number(row, "size_bytes").unwrap_or_default();
        size(a).total_cmp(&size(b))
    });
    let usual = rows.iter().find(|row| number(row, "size_bytes") == Some(OVERLAID_BYTES as f64));
    let figures = [
        (longest, "loss_free_bps", "without loss"),
        (usual.or(longest), "send_ns", "to send a packet"),
        (usual.or(longest), "shortest_loss_free_ns", "between packets, without loss"),
    ];
    for (row, key, title) in figures {
        let Some(row) = row else { continue };
        let of = layout.column("size_bytes").name(row);
        let figure = headline(&layout, row, key, title, &of);
        layout.headline.extend(figure);
    }
    result.layout = layout;
}

/// The dips of the end-to-end curve, if there are any.
fn dips(figures: &Object) -> Option<Table> {
    list(figures, "dips").next()?;
    let columns = vec![
        Column::parameter("size_bytes", "dip, bytes"),
        Column::parameter("from_ns", "from"),
        Column::parameter("until_ns", "until"),
        Column::figure("before_share", "before"),
        Column::figure("end_to_end_share", "in it"),
        Column::figure("behind_share", "behind"),
        Column::figure("driver_share", "driver"),
        Column::figure("p", "p").unit(Unit::Number),
    ];
    let title = "dips of the end-to-end curve: shares that the application gets, medians";
    Some(Table::of_figures("dips", title, "dips", columns))
}

/// What each dip came with, or that there is none, and by which test.
fn say_dips(layout: &mut Layout, figures: &Object) {
    if !figures.contains_key("dips") {
        return;
    }
    let mut any = false;
    for dip in list(figures, "dips") {
        any = true;
        let bounds =
            [number(dip, "from_ns"), number(dip, "until_ns")].map(Option::unwrap_or_default);
        let lead = format!(
            "{} bytes, {} to {}",
            count(number(dip, "size_bytes").unwrap_or_default() as u64),
            time(bounds[0]),
            time(bounds[1])
        );
        let driver = match dip.get("driver_dips").and_then(serde_json::Value::as_bool) {
            Some(true) => "; the driver takes less there, too",
            _ => "",
        };
        layout.say(lead, format!("{}{driver}", text(dip, "counters")));
    }
    let method = format!(
        "optimal partitioning of ranked shares, then exact rank sum tests by other cycles, level {ALPHA} together"
    );
    layout
        .say("dips of the end-to-end curve", if any { method } else { format!("none ({method})") });
}

/// A row is of a line if all of it was measured over one. A row that has figures with and without one names
/// the former `on_line_...`.
fn columns(rows: &[Object]) -> Vec<Column> {
    let beside = rows.iter().any(|row| row.contains_key("on_line_bps"));
    let line = Column::of("line_rate_bps").says("{} line");
    let line = Column { parameter: !beside, better: None, title: "line".to_owned(), ..line };
    vec![
        Column::parameter("size_bytes", "length in bytes").says("{} bytes"),
        line,
        Column::figure("shortest_loss_free_ns", "shortest loss free"),
        Column::figure("loss_free_bps", "loss free").published("published_bps"),
        Column::figure("published_bps", "published"),
        Column::figure("saturated_bps", "as fast as possible"),
        Column::figure("share_of_saturated", "share of saturated"),
        Column::figure("end_to_end_loss_free_ns", "end to end, shortest loss free"),
        Column::figure("end_to_end_loss_free_bps", "end to end, loss free"),
        Column::figure("send_ns", "send").published("published_send_ns"),
        Column::figure("published_send_ns", "send, published"),
        Column::figure("on_line_bps", "over a line").published("published_real_nic_bps"),
        Column::figure("published_real_nic_bps", "real NIC, published"),
        Column::figure("on_line_driver_share", "over a line, accepted"),
    ]
}

fn charts(rows: &[Object]) -> Vec<Chart> {
    let success = |name: &str, title: &str| {
        let x = Axis::new("interval_ns", "interval between packets", Unit::Ns, Scale::Log);
        let y = Axis::new("success_share", "packets received", Unit::Share, Scale::Zero);
        let mut chart = Chart::new(name, title, x, y)
            .from(Source::File("cycles".to_owned()))
            .only(Only::none("line_rate_bps"))
            .note(
                "Where several cycles had one interval, the line is at their median and small dots are the \
                 cycles; those that other work of the machine disturbed are dots only.",
            );
        chart.several = Several::Median;
        chart.aside = Some("disturbed".to_owned());
        chart.marks_are = "time to send one of that length".to_owned();
        chart
    };
    let marks = |of: &dyn Fn(u64) -> bool| -> Vec<Mark> {
        let mark = |row: &Object| {
            let bytes = row.get("size_bytes")?.as_u64().filter(|bytes| of(*bytes))?;
            let name = format!("time to send {} bytes", count(bytes));
            Some(Mark { name, at: number(row, "send_ns")? })
        };
        rows.iter().filter_map(mark).collect()
    };
    let mut driver = success("success-driver", "Success at the driver")
        .series(&["size_bytes"])
        .curve(Curve::new("driver_share", ""));
    driver.marks = marks(&|_| true);
    let mut end_to_end = success("success-end-to-end", "Success end to end")
        .series(&["size_bytes"])
        .curve(Curve::new("end_to_end_share", ""));
    end_to_end.marks = marks(&|_| true);
    let sizes = rows.iter().filter_map(|row| row.get("size_bytes")?.as_u64());
    let bytes = sizes.min_by_key(|bytes| bytes.abs_diff(OVERLAID_BYTES)).unwrap_or(OVERLAID_BYTES);
    let title = format!("Success at the driver and end to end, {} bytes", count(bytes));
    let mut overlaid = success("success-overlaid", &title)
        .only(Only::any("size_bytes", [bytes]))
        .curve(Curve::new("driver_share", "driver"))
        .curve(Curve::new("end_to_end_share", "end to end"));
    overlaid.marks = marks(&|size| size == bytes);
    vec![driver, end_to_end, overlaid, throughput(rows)]
}

/// Throughput by length, with and without a line.
pub fn throughput(rows: &[Object]) -> Chart {
    let beside = rows.iter().any(|row| row.contains_key("on_line_bps"));
    let x = Axis::new("size_bytes", "frame length (bytes)", Unit::Count, Scale::Zero);
    let y = Axis::new("throughput_bps", "throughput", Unit::Bps, Scale::Zero);
    let lines: Vec<_> =
        rows.iter().filter_map(|row| row.get("line_rate_bps").cloned()).take(64).collect();
    // Rows of a line alone are points; in one that has figures of a line besides, these have keys of their own.
    let alone = |curve: Curve| if beside { curve } else { curve.only(Only::none("line_rate_bps")) };
    let over_a_line = |own: &str, shared: &str, name: &str| match beside {
        true => Curve::new(own, name),
        false => Curve::new(shared, name).only(Only::any("line_rate_bps", lines.clone())),
    };
    Chart::new("throughput", "Throughput by frame length", x, y)
        .curve(alone(Curve::new("loss_free_bps", "without loss")))
        .curve(alone(Curve::new("saturated_bps", "as fast as possible")))
        .curve(alone(Curve::new("published_bps", "published, without loss").published()))
        .curve(
            over_a_line("on_line_bps", "loss_free_bps", "over a line, without loss")
                .kind(Kind::Points),
        )
        .curve(
            over_a_line("published_real_nic_bps", "published_bps", "published, real NIC")
                .kind(Kind::Points)
                .published(),
        )
}

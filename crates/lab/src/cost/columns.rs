//! What the costs show: the time to send, and what receiving is made of.

use warikomi_measure::RunResult;
use warikomi_measure::layout::{
    Axis, Chart, Column, Curve, Kind, Layout, Object, PointSeries, Scale, Source, Unit, View, time,
};

use crate::cells::{headline, number};

/// The length whose figures are shown first.
const USUAL_BYTES: f64 = 1_500.0;

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let figures = &result.figures;
    let mut layout = Layout {
        columns: columns(),
        views: views(figures),
        charts: charts(rows, figures),
        ..Layout::default()
    };
    let usual = rows.iter().find(|row| number(row, "size_bytes") == Some(USUAL_BYTES));
    if let Some(row) = usual.or(rows.first()) {
        let of = layout.column("size_bytes").name(row);
        let copies = ["copy_ns", "path_copy_ns", "end_to_end_copy_ns"];
        let copy = copies.into_iter().find(|key| row.contains_key(*key)).unwrap_or("copy_ns");
        let figures = [
            ("send_ns", "to send"),
            (copy, "to copy"),
            ("path_protocol_ns", "of protocol processing"),
        ];
        let figures = figures.map(|(key, title)| headline(&layout, row, key, title, &of));
        layout.headline = figures.into_iter().flatten().collect();
    }
    result.layout = layout;
}

fn columns() -> Vec<Column> {
    let figure = |key: &str, title: &str, head: &str| Column::figure(key, title).head(head);
    vec![
        Column::parameter("size_bytes", "frame length in bytes").head("bytes").says("{} bytes"),
        figure("send_ns", "send, mean", "mean").published("published_send_ns"),
        figure("send_p50_ns", "send, p50", "p50"),
        figure("send_p99_ns", "send, p99", "p99"),
        figure("published_send_ns", "send, published", "published"),
        figure("send_signalled_ns", "send and tell, mean", "mean"),
        figure("send_signalled_p50_ns", "send and tell, p50", "p50"),
        figure("send_signalled_p99_ns", "send and tell, p99", "p99"),
        figure("telling_ns", "telling adds", "telling adds"),
        Column::parameter("interrupts_per_send", "interrupts a packet")
            .head("interrupts")
            .unit(Unit::Number),
        figure("receive_ns", "driver alone", "whole"),
        figure("copy_ns", "driver, copy", "copy").published("published_copy_ns"),
        figure("rest_ns", "driver, rest", "rest"),
        figure("sampled_copy_ns", "driver, sampled copy", "sampled copy"),
        figure("sampled_rest_ns", "driver, sampled rest", "sampled rest"),
        figure("end_to_end_ns", "to application", "whole"),
        figure("end_to_end_copy_ns", "to application, copy", "copy"),
        figure("end_to_end_rest_ns", "to application, rest", "rest"),
        figure("path_copy_ns", "path, copy", "copy").published("published_copy_ns"),
        figure("path_protocol_ns", "path, protocol", "protocol").published("published_protocol_ns"),
        figure("path_rest_ns", "path, rest", "rest"),
        figure("published_copy_ns", "copy, published", "published copy"),
        figure("published_protocol_ns", "protocol, published", "published protocol"),
    ]
}

/// What is sampled with a receiver on the path, beside what was published.
const PATH: [&str; 5] = [
    "path_copy_ns",
    "published_copy_ns",
    "path_protocol_ns",
    "published_protocol_ns",
    "path_rest_ns",
];

fn views(figures: &Object) -> Vec<View> {
    let view = |title: &str, columns: &[&str], notes: Vec<String>| View {
        title: title.to_owned(),
        columns: std::iter::once(&"size_bytes").chain(columns).map(|&key| key.to_owned()).collect(),
        notes,
        ..View::default()
    };
    let notes = |name: &str, note: &str| {
        let note = Some(note.to_owned()).filter(|note| !note.is_empty());
        line(figures, name).into_iter().chain(note).collect()
    };
    vec![
        view(
            "Send",
            &["send_ns", "send_p50_ns", "send_p99_ns", "published_send_ns"],
            notes("send", "of calls 1,000 to 2,000 of 3,000, while the driver polls"),
        ),
        view(
            "Send and tell",
            &[
                "send_signalled_ns",
                "send_signalled_p50_ns",
                "send_signalled_p99_ns",
                "telling_ns",
                "interrupts_per_send",
            ],
            notes(
                "",
                "the same calls while the driver waits for its interrupt, with the write that tells the target; \
                 telling adds: this mean less that of a driver that polls",
            ),
        ),
        view(
            "Driver alone",
            &["receive_ns", "copy_ns", "rest_ns", "sampled_copy_ns", "sampled_rest_ns"],
            notes(
                "receive",
                "frames that no protocol takes; copy: what grows with the length, by the line; sampled: by the \
                 functions in which the target spent its time",
            ),
        ),
        view(
            "To application",
            &["end_to_end_ns", "end_to_end_copy_ns", "end_to_end_rest_ns"],
            notes("end_to_end", ""),
        ),
        view(
            "Path with a receiver",
            &PATH,
            notes(
                "",
                "sampled with an application that receives; protocol: functions between the driver and the socket; \
                 rest: driver, scheduling, system calls, application",
            ),
        ),
    ]
}

/// The line through the figures of one kind.
fn line(figures: &Object, name: &str) -> Option<String> {
    let figure = |part: &str| number(figures, &format!("{name}_{part}"));
    let (fixed, per_byte) = (figure("fixed_ns")?, figure("ns_per_byte")?);
    let r_squared = figure("r_squared")?;
    Some(format!("line: {} and {per_byte:.4} ns a byte (R² {r_squared:.4})", time(fixed)))
}

fn charts(rows: &[Object], figures: &Object) -> Vec<Chart> {
    let by_length = |name: &str, title: &str, ordinate: &str| {
        let x = Axis::new("size_bytes", "frame length (bytes)", Unit::Count, Scale::Zero);
        Chart::new(name, title, x, Axis::new("time_ns", ordinate, Unit::Ns, Scale::Zero))
    };
    let x = Axis::new("send_from_ns", "time to send", Unit::Ns, Scale::Log);
    let y = Axis::new("calls", "calls", Unit::Count, Scale::Zero);
    let calls = Chart::new("calls", "How long each call took", x, y)
        .from(Source::File("calls".to_owned()))
        .kind(Kind::Distribution)
        .series(&["size_bytes"])
        .curve(Curve::new("send_ns", ""));
    let send = by_length("send", "Time to send a packet by frame length", "time to send")
        .curve(Curve::new("send_ns", "measured").kind(Kind::Points))
        .curve(Curve::new("published_send_ns", "published").published());
    let receive =
        by_length("receive", "What receiving a packet costs, by frame length", "time for a packet")
            .curve(Curve::new("path_copy_ns", "copy"))
            .curve(Curve::new("published_copy_ns", "copy, published").published().like_before())
            .curve(Curve::new("path_protocol_ns", "protocol"))
            .curve(
                Curve::new("published_protocol_ns", "protocol, published")
                    .published()
                    .like_before(),
            );
    vec![with_line(send, rows, figures), receive, calls]
}

fn with_line(chart: Chart, rows: &[Object], figures: &Object) -> Chart {
    let fit = number(figures, "send_fixed_ns").zip(number(figures, "send_ns_per_byte"));
    let Some((fixed, per_byte)) = fit else { return chart };
    let lengths = rows.iter().filter(|row| row.contains_key("send_ns"));
    let longest = lengths.filter_map(|row| number(row, "size_bytes")).fold(0.0, f64::max);
    let fitted = PointSeries {
        name: "fitted line".to_owned(),
        kind: Kind::Plain,
        like: "measured".to_owned(),
        points: [0.0, longest].map(|bytes| (bytes, fixed + per_byte * bytes)).to_vec(),
        ..PointSeries::default()
    };
    let r_squared = number(figures, "send_r_squared");
    let r_squared = r_squared.map_or(String::new(), |r| format!(" (R² = {r:.4})"));
    let note = format!("Fitted: {fixed:.1} ns + {per_byte:.4} ns a byte{r_squared}.");
    chart.beside(fitted).note(note)
}

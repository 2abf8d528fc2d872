//! What a comparison of TCP shows whose segments are cut by the stack, or by the card (TSO).

use warikomi_measure::RunResult;
use warikomi_measure::layout::{
    Axis, Better, Chart, Column, Curve, Layout, Object, Scale, Unit, View,
};

use super::columns as common;
use crate::cells::{headline, number};

/// Figures that mean the same as of UDP.
const COMMON: [&str; 16] = [
    "card",
    "size_bytes",
    "mixture",
    "completion",
    "bps",
    "min_bps",
    "max_bps",
    "cpu_share",
    "interrupts_per_packet",
    "copied_bytes_per_packet",
    "socket_drop_share",
    "wait_p50_us",
    "wait_p99_us",
    "virtual_bps",
    "virtual_difference_share",
    "digest",
];

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let mut layout = Layout {
        columns: columns(),
        views: vec![view(rows)],
        charts: charts(),
        ..Layout::default()
    };
    for on in [false, true] {
        let rate = |row: &Object| number(row, "bps").unwrap_or_default();
        let sent = rows.iter().filter(|row| is_offloaded(row) == on && rate(row) > 0.0);
        let Some(row) = sent.max_by(|a, b| rate(a).total_cmp(&rate(b))) else { continue };
        let names = ["card", "size_bytes", "completion"].map(|key| layout.column(key).name(row));
        let of = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
        let title =
            if on { "at most, the card segments (TSO)" } else { "at most, the stack segments" };
        let figure = headline(&layout, row, "bps", title, &of);
        layout.headline.extend(figure);
    }
    result.layout = layout;
}

fn is_offloaded(row: &Object) -> bool {
    row.get("tso").is_some_and(|tso| *tso == true)
}

fn columns() -> Vec<Column> {
    let own = [
        Column::parameter("tso", "segmentation").word("true", "TSO").word("false", "no TSO"),
        Column::figure("pps", "messages/s").head("msg/s"),
        Column::figure("busy_ns_per_byte", "processor time a byte")
            .head("ns/byte")
            .unit(Unit::Number)
            .better(Better::Less),
        Column::figure("transfers_per_packet", "DMA transfers a message").head("DMA"),
        Column::figure("segments_per_packet", "segments a message").head("segments"),
        Column::figure("summed_bytes_per_packet", "summed bytes a message")
            .head("summed")
            .unit(Unit::Count),
    ];
    let all = common::columns().into_iter();
    all.filter(|column| COMMON.contains(&&*column.key)).chain(own).collect()
}

fn view(rows: &[Object]) -> View {
    let both = rows.iter().any(|row| row.contains_key("virtual_bps"));
    let columns = [
        "size_bytes",
        "mixture",
        "tso",
        "bps",
        "pps",
        "cpu_share",
        "busy_ns_per_byte",
        "transfers_per_packet",
        "segments_per_packet",
        "interrupts_per_packet",
        "copied_bytes_per_packet",
        "summed_bytes_per_packet",
    ];
    let beside = ["virtual_bps", "virtual_difference_share"].into_iter().filter(|_| both);
    View {
        columns: columns.into_iter().chain(beside).map(str::to_owned).collect(),
        split: ["card", "completion"].map(str::to_owned).to_vec(),
        notes: vec![
            "throughput of messages, without headers; CPU, ns/byte: the share of the time in which the sender was \
             busy, and how long that was for each byte (without interrupts it is busy while it waits, too); DMA, \
             segments, intr, copied, summed: transfers, frames on the line, interrupts, bytes copied, and bytes \
             summed up for checksums by the processor, for each message; the connection is open, its window never \
             closes, and nothing is acknowledged"
                .to_owned(),
        ],
        ..View::default()
    }
}

fn charts() -> Vec<Chart> {
    let chart = |name: &str, title: &str, key: &str, (label, unit): (&str, Unit)| {
        let x = Axis::new("size_bytes", "message (bytes)", Unit::Count, Scale::Log);
        let y = Axis::new(key, label, unit, Scale::Zero);
        let chart = Chart::new(name, title, x, y).series(&["card", "tso", "completion"]);
        Chart { columns: columns(), ..chart.curve(Curve::new(key, "")) }
    };
    vec![
        chart(
            "segmentation",
            "Throughput of TCP by message size and segmentation",
            "bps",
            ("throughput of messages", Unit::Bps),
        ),
        chart(
            "segmentation-transfers",
            "DMA transfers a message by message size and segmentation",
            "transfers_per_packet",
            ("DMA transfers a message", Unit::Number),
        ),
        chart(
            "segmentation-busy",
            "Processor time a byte by message size and segmentation",
            "busy_ns_per_byte",
            ("processor time a byte (ns)", Unit::Number),
        ),
    ]
}

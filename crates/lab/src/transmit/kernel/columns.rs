//! What sending in a real kernel shows.

use warikomi_measure::RunResult;
use warikomi_measure::layout::{
    Axis, Better, Chart, Column, Curve, Layout, Object, Only, Scale, Unit, View,
};

use super::super::columns as common;
use crate::cells::{headline, number, say_refusals, text};

/// The senders, with what a chart of one is titled.
const SENDERS: [(&str, &str); 3] = [
    ("pktgen", "Throughput of pktgen by message size, burst and interrupts"),
    ("udp", "Throughput of a UDP application by message size and interrupts"),
    ("tcp", "Throughput of TCP by length of a write, segmentation and interrupts"),
];

/// Describes the result.
pub(in super::super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let mut layout = Layout {
        columns: columns(),
        views: vec![view()],
        charts: SENDERS.map(chart).to_vec(),
        ..Layout::default()
    };
    say_refusals(&mut layout, rows, |row| text(row, "completion").to_owned());
    let most = |sender: &str| {
        let rate = |row: &Object| number(row, "bps").unwrap_or_default();
        let sent = rows.iter().filter(|row| text(row, "sender") == sender && rate(row) > 0.0);
        sent.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    for (sender, _) in SENDERS {
        let Some(row) = most(sender) else { continue };
        let names = ["size_bytes", "burst", "tso", "completion"];
        let names = names.map(|key| layout.column(key).name(row));
        let of = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
        let figure = headline(&layout, row, "bps", &format!("at most, {sender}"), &of);
        layout.headline.extend(figure);
    }
    result.layout = layout;
}

fn columns() -> Vec<Column> {
    let own = [
        Column::parameter("sender", "sender"),
        Column::parameter("burst", "burst").word("1", "single").says("burst {}"),
        Column::parameter("tso", "segmentation").word("true", "TSO").word("false", "no TSO"),
        Column::figure("bps", "Mbit/s").unit(Unit::Mbps).better(Better::More),
        Column::figure("pps", "messages/s").head("pkt/s"),
        Column::figure("cpu_ns_per_packet", "CPU time a message")
            .head("CPU")
            .unit(Unit::Ns)
            .better(Better::Less),
        Column::figure("doorbells_per_packet", "doorbells a message").head("bells"),
        Column::figure("interrupts_per_packet", "interrupts a message").head("intr"),
        Column::figure("transfers_per_packet", "descriptors a message").head("DMA"),
        Column::figure("frames_per_packet", "frames a message").head("frames"),
        Column::parameter("not_available", "why not"),
    ];
    let given = ["size_bytes", "completion"].map(|key| {
        let all = common::columns().into_iter();
        all.filter(|column| column.key == key).collect::<Vec<_>>()
    });
    given.into_iter().flatten().chain(own).collect()
}

fn view() -> View {
    let columns = [
        "size_bytes",
        "burst",
        "tso",
        "bps",
        "pps",
        "cpu_ns_per_packet",
        "doorbells_per_packet",
        "interrupts_per_packet",
        "transfers_per_packet",
        "frames_per_packet",
    ];
    View {
        columns: columns.map(str::to_owned).to_vec(),
        split: ["sender", "completion"].map(str::to_owned).to_vec(),
        only: vec![Only::none("not_available")],
        notes: vec![
            "Mbit/s: of messages, without headers, by the clock of the wire; CPU: processor time of the guest; \
             bells, intr, DMA, frames: doorbells that the driver rang, interrupts, descriptors and frames; all for \
             each message (pktgen: a frame; udp: a datagram; tcp: a write)"
                .to_owned(),
        ],
        ..View::default()
    }
}

fn chart((sender, title): (&str, &str)) -> Chart {
    let x = Axis::new("size_bytes", "message (bytes)", Unit::Count, Scale::Log);
    let y = Axis::new("bps", "throughput of messages", Unit::Bps, Scale::Zero);
    Chart::new(&format!("kernel-{sender}"), title, x, y)
        .only(Only::any("sender", [sender]))
        .series(&["burst", "tso", "completion"])
        .curve(Curve::new("bps", ""))
}

//! What the benchmarks of Warikomi itself show.

use std::cmp::Ordering::Equal;

use warikomi_measure::layout::{
    Better, Column, Headline, Layout, Object, Table, Unit, View, percent,
};
use warikomi_measure::{RunResult, published};

use warikomi_lab::cells::{list, number, text};

/// The length whose figures are shown first.
const USUAL_BYTES: f64 = 1_500.0;

/// Describes the result.
pub fn describe(result: &mut RunResult) {
    let (rows, figures) = (result.rows.as_deref().unwrap_or_default(), &result.figures);
    let mut layout = Layout {
        columns: columns(),
        views: vec![View { turned: true, ..View::default() }],
        tables: tables(figures).into_iter().chain(memory(figures)).collect(),
        charts: vec![warikomi_lab::sweep::throughput(rows)],
        ..Layout::default()
    };
    if let Some(stolen) = number(figures, "comparison_stolen_share") {
        layout.say("time stolen by the host meanwhile", percent(stolen));
    }
    let ways = figures.get("comparison_ways").and_then(serde_json::Value::as_object);
    for (name, description) in ways.into_iter().flatten() {
        if let Some(text) = description.as_str() {
            layout.say(name.replace('_', " "), text);
        }
    }
    let usual = rows.iter().find(|row| number(row, "size_bytes") == Some(USUAL_BYTES));
    let figures = [
        ("inject_ns", "to inject a frame"),
        ("inject_over_memcpy", "times a memcpy of the frame"),
        ("saturated_bps", "accepted by the driver at most"),
    ];
    let figure = |(key, title): (&str, &str)| {
        Some(Headline {
            title: title.to_owned(),
            value: number(usual?, key)?,
            unit: layout.column(key).unit,
            published: None,
            of: "frames of 1,500 bytes".to_owned(),
        })
    };
    layout.headline =
        figures.into_iter().filter_map(figure).chain(ceiling(&result.figures)).collect();
    result.layout = layout;
    result.layout.settle();
}

/// What memory gives to all cores that were measured: the ceiling.
fn ceiling(figures: &Object) -> Option<Headline> {
    let copies = list(figures, "memory").filter(|row| text(row, "stream") == "copy");
    let row = copies
        .max_by(|a, b| number(a, "cores").partial_cmp(&number(b, "cores")).unwrap_or(Equal))?;
    Some(Headline {
        title: "moved through memory by copying".to_owned(),
        value: number(row, "moved_bps")?,
        unit: Unit::Bps,
        published: number(row, "published_bps"),
        of: format!("{} cores at a time", number(row, "cores")?),
    })
}

fn memory(figures: &Object) -> Option<Table> {
    list(figures, "memory").next()?;
    let columns = vec![
        Column::parameter("stream", "Memory"),
        Column::parameter("cores", "cores").unit(Unit::Count).says("{} cores"),
        Column::figure("gigabytes_per_s", "GB/s").unit(Unit::Number).better(Better::More),
        Column::figure("moved_bps", "moved").published("published_bps"),
        Column::figure("published_bps", "published"),
    ];
    let title = "memory's own rate: medians of the rounds";
    let table = Table::of_figures("memory", title, "memory", columns)
        .note("bytes that are read and bytes that are written: a copy of one byte moves two (as STREAM counts)")
        .note(format!(
            "published for: {}; how it was measured is not said",
            published::injection().environment
        ));
    Some(match number(figures, "memory_buffer_bytes") {
        Some(bytes) => {
            table.note(format!("each core has two buffers of {} MB", bytes as u64 >> 20))
        }
        None => table,
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::parameter("size_bytes", "frame length in bytes").says("{} bytes"),
        Column::figure("inject_over_memcpy", "inject over memcpy").better(Better::Less),
        Column::figure("recording_cost_share", "recording cost").better(Better::Less),
        Column::figure("trace_bytes_per_event", "trace bytes per event")
            .unit(Unit::Number)
            .better(Better::Less),
        Column::parameter("shortest_interval_at_most", "shortest interval at most"),
    ]
}

fn tables(figures: &Object) -> Vec<Table> {
    let table = |key: &str, title: &str| {
        let first = list(figures, key).next()?;
        let mut keys: Vec<&String> = list(figures, key).flat_map(Object::keys).collect();
        keys.sort_by_key(|key| {
            let place = first.keys().position(|known| known == *key);
            (*key != "size_bytes", place.is_none(), place)
        });
        keys.dedup();
        let size = Column::parameter("size_bytes", "frame length in bytes");
        let column = |key: &String| match (key.as_str(), Column::of(key)) {
            ("size_bytes", _) => size.clone(),
            (_, column) if column.unit == Unit::Plain => column.unit(Unit::Number),
            (_, column) => column,
        };
        let mut columns: Vec<Column> = Vec::new();
        for key in keys {
            if !columns.iter().any(|column| column.key == *key) {
                columns.push(column(key));
            }
        }
        Some(Table { turned: true, ..Table::of_figures(key, title, key, columns) })
    };
    let comparison = "from one core to another: medians of the rounds, and how far these lie apart";
    let sending = "what a sender does for a message: medians of the rounds";
    let exploring = "places at which an interrupt is tried: medians of the rounds";
    let hypervisor = "the same traffic into a kernel of ours and into QEMU: medians of the rounds";
    let rates = "frames that the driver takes in a second: medians of the rounds";
    let tables = [
        ("comparison", comparison),
        ("sending", sending),
        ("hypervisor", hypervisor),
        ("hypervisor_rates", rates),
        ("exploring", exploring),
    ];
    tables.into_iter().filter_map(|(key, title)| table(key, title)).collect()
}

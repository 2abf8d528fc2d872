//! What replacements show: how long they take, what the workload notices, and what becomes of the frames.

use warikomi_measure::layout::{
    Axis, Better, Chart, Column, Curve, Headline, Kind, Layout, Mark, Object, Only, Scale, Source,
    Table, Unit, View, count, time,
};
use warikomi_measure::{RunResult, published};

use crate::cells::{list, number, object, say_refusals, text};

/// The most rows, and the most tables of one kind.
const MAX_ROWS: usize = 200;
const MAX_TABLES: usize = 12;

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let figures = &result.figures;
    let mut layout =
        Layout { columns: columns(), views: views(), charts: charts(), ..Layout::default() };
    for (at, edge) in list(figures, "edges").take(MAX_TABLES).enumerate() {
        layout.tables.push(edge_table(at, edge));
        layout.charts.push(edge_chart(at, edge));
    }
    for (at, soak) in list(figures, "growth").take(MAX_TABLES).enumerate() {
        layout.tables.extend(growth_table(at, soak));
        layout.charts.push(growth_chart(at, soak));
    }
    let measured = rows.iter().filter(|row| !row.contains_key("not_available")).take(MAX_ROWS);
    for (name, text) in measured.filter_map(arithmetic) {
        layout.say(name, text);
    }
    say_refusals(&mut layout, rows, name);
    layout.tables.push(published_table(rows));
    matters(&mut layout, rows);
    result.layout = layout;
}

fn name(row: &Object) -> String {
    let parts = ["way", "load", "kind"].map(|part| text(row, part).to_owned());
    let spare = match text(row, "spare") {
        "" => String::new(),
        spare => format!("spare {spare}"),
    };
    let parts = parts.into_iter().chain([spare]).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

/// Those of times that are spread.
fn spreads() -> Vec<Column> {
    const ALL: &[&str] = &["min", "mean", "p50", "p99", "max"];
    // Of the steps two are enough: a layout has at most 64 columns.
    const STEP: &[&str] = &["mean", "max"];
    let mut columns = Vec::new();
    for (key, title, parts) in [
        ("replace_us", "time to replace", ALL),
        ("create_us", "create", STEP),
        ("write_state_us", "write state", STEP),
        ("start_us", "start", STEP),
        ("read_state_us", "read state", STEP),
        ("swap_us", "time to switch", ALL),
        ("outage_us", "outage", ALL),
        ("send_us", "send", ALL),
        ("send_with_us", "send with", ALL),
        ("send_during_us", "send during", ALL),
        ("store_request_us", "store request", ALL),
        ("store_request_during_us", "store request during", ALL),
    ] {
        for part in parts {
            let head = match key {
                "replace_us" | "send_us" => (*part).to_owned(),
                "send_with_us" => format!("with: {part}"),
                "store_request_us" => (*part).to_owned(),
                "store_request_during_us" => format!("during: {part}"),
                _ => format!("{title} {part}"),
            };
            let column = Column::figure(&format!("{key}.{part}"), &format!("{title}, {part}"));
            columns.push(column.head(&head));
        }
    }
    columns
}

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::parameter("way", "way"),
        Column::parameter("load", "load"),
        Column::parameter("kind", "kind"),
        Column::parameter("spare", "spare"),
        Column::figure("replacements", "replacements").head("count").unit(Unit::Count),
        Column::figure("resets", "resets").unit(Unit::Count),
    ];
    columns.extend(spreads());
    let harm = |key: &str, title: &str, head: &str| {
        Column::figure(key, title).head(head).unit(Unit::Count).alarm()
    };
    columns.extend([
        Column::figure("usual_interval_us", "interval between sends, without").head("interval"),
        Column::figure("longest_interval_us", "longest interval between sends").head("longest"),
        Column::figure("excess_us.mean", "excess over ten sends, mean").head("excess: mean"),
        Column::figure("excess_us.max", "excess over ten sends, max").head("excess: max"),
        Column::figure("dispatches", "times that the application got the processor")
            .head("dispatches")
            .unit(Unit::Number),
        Column::figure("read_dispatches", "of these, during the creation's reads")
            .head("in reads")
            .unit(Unit::Number),
        Column::figure("longest_send_gap_us", "longest gap between sends").head("gap"),
        Column::figure("longest_receive_gap_us", "longest gap on receive"),
        Column::figure("received", "received").unit(Unit::Count),
        Column::figure("sent", "sent").unit(Unit::Count),
        harm("lost", "lost", ""),
        harm("duplicated", "came twice", "twice"),
        harm("reordered", "out of order", "order"),
        harm("no_descriptor", "found no descriptor", "no desc."),
        harm("not_receiving", "came while the receiver was off", "off"),
        harm("missed_otherwise", "missed by the card otherwise", "other"),
        Column::figure("retransmitted", "TCP segments again")
            .head("TCP again")
            .unit(Unit::Count)
            .better(Better::Less),
        Column::figure("connections_lost", "TCP connections broken")
            .head("broken")
            .unit(Unit::Count)
            .better(Better::Less),
        Column::parameter("not_available", "why not"),
    ]);
    columns
}

fn view(title: &str, keys: &[&str], note: &str) -> View {
    View {
        title: title.to_owned(),
        columns: ["way", "load", "kind", "spare"]
            .iter()
            .chain(keys)
            .map(|&key| key.to_owned())
            .collect(),
        only: vec![Only::none("not_available")],
        notes: vec![note.to_owned()],
        ..View::default()
    }
}

fn views() -> Vec<View> {
    views_of_replacements().into_iter().chain(views_of_workload()).collect()
}

fn views_of_replacements() -> Vec<View> {
    vec![
        view(
            "Time to replace",
            &[
                "replacements",
                "replace_us.min",
                "replace_us.mean",
                "replace_us.max",
                "swap_us.mean",
                "swap_us.max",
                "outage_us.max",
            ],
            "time to replace: from the request to the return of its result, the new process's creation included; to \
             switch: from the order (of a kill: from the death's being seen) to the new driver's first pass; \
             outage: how long no driver served the device (of a kill: from the signal on)",
        ),
        view(
            "Its steps",
            &["create_us.mean", "write_state_us.mean", "start_us.mean", "read_state_us.mean"],
            "means of the published steps: a new process waits for the device; the old driver has left its state; \
             the new one runs with the device; it has accepted that state",
        ),
    ]
}

/// What the workload notices.
fn views_of_workload() -> Vec<View> {
    vec![
        view(
            "A send",
            &[
                "send_us.mean",
                "send_us.max",
                "send_with_us.mean",
                "send_with_us.max",
                "longest_send_gap_us",
            ],
            "mean, max: without a replacement; with: in runs with one; gap: the longest time between two frames \
             of the workload on the wire around one",
        ),
        view(
            "The interval between sends",
            &[
                "usual_interval_us",
                "longest_interval_us",
                "excess_us.mean",
                "excess_us.max",
                "dispatches",
                "read_dispatches",
            ],
            "interval: from the beginning of a send to that of the next, in runs without a replacement; longest: with \
             one in it; excess: what ten intervals from the request on were longer, together; dispatches: how often \
             the application got the processor until the result; in reads: of these, while the creation waited for a \
             read from the disk",
        ),
        view(
            "A request of another client to the data store",
            &[
                "store_request_us.mean",
                "store_request_us.max",
                "store_request_during_us.mean",
                "store_request_during_us.max",
            ],
            "mean, max: while nothing was replaced; during: those into which a replacement fell",
        ),
        view(
            "Frames",
            &[
                "received",
                "sent",
                "lost",
                "duplicated",
                "reordered",
                "no_descriptor",
                "not_receiving",
                "missed_otherwise",
                "retransmitted",
                "connections_lost",
            ],
            "lost, twice, order: by their numbers, both ways; no desc., off, other: frames that found no descriptor, or \
             the receiver off, or that the card missed otherwise (its filter, memory out of its reach, a marked error); \
             TCP: segments sent again, and connections broken",
        ),
    ]
}

/// Why nothing can be lost on receive, of a row with frames that arrive.
fn arithmetic(row: &Object) -> Option<(String, String)> {
    let (free, interval) = (number(row, "free_descriptors")?, number(row, "interval_ns")?);
    let (bridged, gap) = (number(row, "bridged_us")?, number(row, "longest_receive_gap_us")?);
    let (relation, so) = match bridged > gap {
        true => ("more", "no frame can have found the ring full"),
        false => ("not more", "frames can have found the ring full"),
    };
    let text = format!(
        "{} free descriptors x {} between frames bridge {}, {relation} than the longest gap on receive, {}: {so}",
        count(free as u64),
        time(interval),
        time(bridged * 1e3),
        time(gap * 1e3)
    );
    Some((name(row), text))
}

fn edge_table(at: usize, edge: &Object) -> Table {
    let columns = vec![
        Column::parameter("buffers", "buffers").unit(Unit::Count),
        Column::parameter("free_descriptors", "free").unit(Unit::Count),
        Column::figure("bridged_us", "bridge"),
        Column::figure("longest_receive_gap_us", "longest gap"),
        Column::figure("no_descriptor", "frames without one").unit(Unit::Count).alarm(),
    ];
    let shown = |name: &str| match number(edge, name) {
        Some(value) => count(value as u64),
        None => "none".to_owned(),
    };
    let title = format!("Where losses begin, {}", text(edge, "way"));
    let path = format!("edges.{at}.tried");
    Table::of_figures(&format!("edge-{}", at + 1), &title, &path, columns).note(format!(
        "predicted: {} descriptors for a gap of {} at {} between frames; measured: losses with {}, none from {} on",
        shown("predicted_descriptors"),
        number(edge, "longest_receive_gap_us").map_or(String::new(), |us| time(us * 1e3)),
        number(edge, "interval_ns").map_or(String::new(), time),
        shown("most_with_loss"),
        shown("least_without_loss"),
    ))
}

/// Frames that found no descriptor, by free descriptors.
fn edge_chart(at: usize, edge: &Object) -> Chart {
    let x = Axis::new("free_descriptors", "free descriptors", Unit::Count, Scale::Log);
    let y = Axis::new("no_descriptor", "frames without one", Unit::Count, Scale::Zero);
    let title = format!("Where losses begin: {}", text(edge, "way"));
    let mut chart = Chart::new(&format!("edge-{}", at + 1), &title, x, y)
        .from(Source::Figures(format!("edges.{at}.tried")))
        .curve(Curve::new("no_descriptor", "measured"));
    if let Some(at) = number(edge, "predicted_descriptors") {
        chart.marks.push(Mark { name: "predicted".to_owned(), at });
        chart.marks_are = "predicted: gap / interval".to_owned();
    }
    chart
}

/// What a soak must not let grow: after its first run, and at its end.
const GROWTH: [(&str, &str); 8] = [
    ("support_descriptors", "descriptors of the support side"),
    ("support_memory_files", "of these, files in memory"),
    ("support_mappings", "mappings of the support side"),
    ("support_resident_kib", "its resident memory, KiB"),
    ("support_shared_kib", "of this, shared, KiB"),
    ("target_processes", "processes of the target"),
    ("target_descriptors", "their descriptors"),
    ("target_resident_kib", "their resident memory, KiB"),
];
/// Of these, what is drawn.
const DRAWN: [(&str, &str); 4] = [
    ("support_resident_kib", "support side, resident"),
    ("support_shared_kib", "of this, shared"),
    ("target_resident_kib", "target, resident"),
    ("target_descriptors", "target, descriptors"),
];

fn growth_table(at: usize, soak: &Object) -> Option<Table> {
    let usage: Vec<&Object> = list(soak, "usage").collect();
    let (first, last) = (usage.first()?, usage.last()?);
    let after = |row: &Object| {
        let replacements = number(row, "replacements").map_or(String::new(), |n| count(n as u64));
        format!("after {replacements}")
    };
    let rows = GROWTH.map(|(figure, what)| {
        let most = usage.iter().filter_map(|row| number(row, figure)).fold(0.0, f64::max);
        let value = |row: &Object| number(row, figure).into();
        object([
            ("what", what.into()),
            ("first", value(first)),
            ("last", value(last)),
            ("most", most.into()),
        ])
    });
    let columns = vec![
        Column::parameter("what", &format!("growth, {}", text(soak, "row"))),
        Column::figure("first", &after(first)).unit(Unit::Count),
        Column::figure("last", &after(last)).unit(Unit::Count),
        Column::figure("most", "at most").unit(Unit::Count),
    ];
    Some(Table::here(&format!("growth-{}", at + 1), "", columns, rows.to_vec()))
}

fn growth_chart(at: usize, soak: &Object) -> Chart {
    let x = Axis::new("replacements", "replacements", Unit::Count, Scale::Zero);
    let y = Axis::new("amount", "KiB, or number", Unit::Count, Scale::Log);
    let title = format!("What there is after so many replacements: {}", text(soak, "row"));
    let chart = Chart::new(&format!("growth-{}", at + 1), &title, x, y)
        .from(Source::Figures(format!("growth.{at}.usage")))
        .kind(Kind::Plain);
    DRAWN.into_iter().fold(chart, |chart, (key, name)| chart.curve(Curve::new(key, name)))
}

/// The greatest, the mean and the least, as publications have them.
const FIGURES: [&str; 3] = ["max", "mean", "min"];

/// The published table, with what stands for each system here, without a spare as there and with one; nothing
/// where nothing was measured.
fn published_table(rows: &[Object]) -> Table {
    let mut beside = Vec::new();
    for (system, way, figures) in published::driver_replacement().systems() {
        let mut add = |what: &str, load: &str, spread: &str, published_ms: [f64; 3]| {
            for (figure, ms) in FIGURES.into_iter().zip(published_ms) {
                let here = |spare: &str| {
                    let us =
                        number(planned(rows, way, load, spare)?, &format!("{spread}.{figure}"));
                    us.map(|us| us * 1e3)
                };
                let name = format!("{system} ({way}): {what}, {figure}");
                beside.push(object([
                    ("figure", name.into()),
                    ("published_ns", (ms * 1e6).into()),
                    ("here_ns", here("none").into()),
                    ("kept_ns", here("kept").into()),
                ]));
            }
        };
        add("replace, idle", "idle", "replace_us", figures.swap_ms_idle);
        add("replace, busy", "busy", "replace_us", figures.swap_ms_busy);
        add("send without", "busy", "send_us", figures.send_ms_without);
        add("send with", "busy", "send_with_us", figures.send_ms_with);
    }
    beside.extend(published_intervals(rows));
    let columns = vec![
        Column::parameter("figure", "Beside what was published"),
        Column::figure("published_ns", "published"),
        Column::figure("here_ns", "here"),
        Column::figure("kept_ns", "here, spare kept"),
    ];
    let published = published::driver_replacement();
    let [compute, send, replace] = published.minix3_gap_parts_ms.map(|ms| time(ms * 1e6));
    Table::here("published", "", columns, beside).note(format!(
        "published: {}; {}; {}; the longest interval of MINIX 3 is {compute} of computing, {send} of sending and \
         {replace} of replacing; in AnT the application got the processor {} times while a process was created",
        published.workload, published.clock, published.priorities, published.ant_dispatches
    ))
}

/// The published intervals between sends, with those here.
fn published_intervals(rows: &[Object]) -> Vec<Object> {
    let published = published::driver_replacement();
    let [(first, store, _), (second, shared, _)] = published.systems();
    let of = |way: &'static str, key: &'static str| {
        move |spare: &str| number(planned(rows, way, "busy", spare)?, key).map(|us| us * 1e3)
    };
    let [of_store, of_shared] = [store, shared].map(|way| of(way, "excess_us.max"));
    let more = |spare: &str| Some(of_shared(spare)? - of_store(spare)?);
    let one = |name: String, ms: f64, here: &dyn Fn(&str) -> Option<f64>| {
        object([
            ("figure", name.into()),
            ("published_ns", (ms * 1e6).into()),
            ("here_ns", here("none").into()),
            ("kept_ns", here("kept").into()),
        ])
    };
    let [_, _, replacing] = published.minix3_gap_parts_ms;
    let added = published.ant_extra_gap_ms;
    vec![
        one(
            format!("{first} ({store}): longest interval between sends"),
            published.minix3_longest_send_gap_ms,
            &of(store, "longest_interval_us"),
        ),
        one(format!("{first} ({store}): excess over ten sends, max"), replacing, &of_store),
        one(format!("{second} ({shared}): excess over ten sends, max"), added, &of_shared),
        one(format!("{second} less {first}: excess over ten sends"), added - replacing, &more),
    ]
}

/// The row of planned replacements in this way under this load.
fn planned<'a>(rows: &'a [Object], way: &str, load: &str, spare: &str) -> Option<&'a Object> {
    let wanted = [("way", way), ("load", load), ("kind", "planned"), ("spare", spare)];
    rows.iter().find(|row| wanted.iter().all(|(key, value)| text(row, key) == *value))
}

fn matters(layout: &mut Layout, rows: &[Object]) {
    for (system, way, figures) in published::driver_replacement().systems() {
        let of_way = || rows.iter().find(|row| text(row, "way") == way);
        let row = planned(rows, way, "busy", "none").or_else(of_way);
        let Some((row, mean)) = row.and_then(|row| Some((row, number(row, "replace_us.mean")?)))
        else {
            continue;
        };
        layout.headline.push(Headline {
            title: format!("to replace the driver, {way}"),
            value: mean,
            unit: Unit::Us,
            published: Some(figures.swap_ms_busy[1] * 1e3),
            of: format!("mean of {}; published: {system}", name(row)),
        });
    }
    if rows.iter().any(|row| row.contains_key("lost")) {
        let lost = rows.iter().filter_map(|row| number(row, "lost")).sum();
        let sent: f64 = ["received", "sent"]
            .iter()
            .flat_map(|key| rows.iter().filter_map(|row| number(row, key)))
            .sum();
        layout.headline.push(Headline {
            title: "frames lost".to_owned(),
            value: lost,
            unit: Unit::Count,
            published: None,
            of: format!("of {} received and sent", count(sent as u64)),
        });
    }
}

/// Frames below, steps above, in the order in which they come.
const EVENTS: [&str; 14] = [
    "frame sent",
    "frame taken",
    "frame arrived",
    "result",
    "served",
    "accepted",
    "awake",
    "handed over",
    "death seen",
    "order seen",
    "order",
    "warm",
    "killed",
    "request",
];
/// How many of these are frames.
const FRAMES: usize = 3;

fn charts() -> Vec<Chart> {
    let x = Axis::new("replace_us", "time to replace", Unit::Us, Scale::Log);
    let y = Axis::new("share", "replacements", Unit::Share, Scale::Zero);
    let title = "Share of replacements that took no longer than this";
    let mut times = Chart::new("time", title, x, y)
        .from(Source::File("replacements".to_owned()))
        .kind(Kind::Cumulative)
        .series(&["way", "load", "kind", "spare"])
        .curve(Curve::new("replace_us", ""));
    for (system, _, figures) in published::driver_replacement().systems() {
        let name = format!("{system}, published mean");
        times.marks.push(Mark { name, at: figures.swap_ms_busy[1] * 1e6 });
    }
    times.marks_are = "published means, busy: MINIX 3, AnT".to_owned();
    let x = Axis::new("at_us", "since the request, or the kill", Unit::Us, Scale::Linear);
    let events = EVENTS.map(str::to_owned).to_vec();
    let y = Axis { order: events.clone(), ..Axis::named(&["what"], "") };
    let mut steps = Chart::new("steps", "One replacement step by step", x, y)
        .from(Source::File("timeline".to_owned()))
        .kind(Kind::Timeline)
        .split(&["way", "load", "kind", "spare"])
        .curve(Curve::new("what", "steps"));
    steps.background = events[..FRAMES].to_vec();
    vec![times, steps]
}

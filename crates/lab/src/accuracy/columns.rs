//! What the accuracy of intervals shows: how far they were off, when, and how short they may be.

use serde_json::Value;
use warikomi_measure::layout::{
    Axis, Chart, Column, Curve, Headline, Kind, Layout, Mark, Object, Scale, Source, Table, Unit,
    View, percent, time,
};
use warikomi_measure::{RunResult, published};

use super::cycle;
use crate::cells::{number, object, text};

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let figures = &result.figures;
    let resolution = number(figures, "resolution_ns");
    let intervals = result.intervals.as_ref().and_then(|intervals| intervals.requested_ns);
    let requested = number(figures, "requested_ns").or(intervals);
    let mut layout = Layout {
        headline: matters(rows, figures),
        columns: columns(is_fitted(figures)),
        views: views(rows, resolution),
        tables: vec![published_table(rows, figures)],
        charts: charts(requested, figures),
        ..Layout::default()
    };
    layout.tables.push(errors_table(rows));
    layout.tables.extend(alone_table(figures));
    if figures.contains_key("cycle") {
        layout.tables.push(cycle::table());
        layout.charts.push(cycle::chart());
    }
    layout.tables.push(rest_table(result));
    result.layout = layout;
}

/// Whether intervals were fitted to what was published, which everything that is made of them says.
fn is_fitted(figures: &Object) -> bool {
    figures.contains_key("fitted")
}

fn columns(fitted: bool) -> Vec<Column> {
    let interval = if fitted { "Fitted interval" } else { "Interval" };
    let share = |key: &str, title: &str| Column::figure(key, title).unit(Unit::Share);
    vec![
        Column::parameter("place", interval),
        Column::parameter("count", "count").unit(Unit::Count),
        share("exact_share", "exact"),
        share("within_1_share", "in 1%"),
        share("within_6_25_share", "in 6.25%"),
        Column::figure("worst_error_ns", "worst"),
        Column::figure("worst_error_share", "worst error"),
        Column::figure("drift_ns", "drift"),
        share("excused_share", "excused"),
        share("not_excused_share", "not excused"),
        Column::parameter("quiet_count", "count").unit(Unit::Count),
        share("quiet_exact_share", "exact"),
        share("quiet_within_1_share", "in 1%"),
        share("quiet_within_6_25_share", "in 6.25%"),
        Column::figure("quiet_worst_error_ns", "worst"),
    ]
    .into_iter()
    .map(|column| match column.key.strip_prefix("quiet_") {
        Some(_) => Column {
            title: format!("quiet, {}", column.title),
            head: column.title.clone(),
            ..column
        },
        None => column,
    })
    .collect()
}

fn views(rows: &[Object], resolution: Option<f64>) -> Vec<View> {
    let view = |title: &str, columns: &[&str], notes: Vec<String>| View {
        title: title.to_owned(),
        columns: std::iter::once(&"place").chain(columns).map(|&key| key.to_owned()).collect(),
        notes,
        ..View::default()
    };
    let exact = resolution.map(|ns| {
        format!("exact: off by at most {}, one pass of the loop that watches the clock", time(ns))
    });
    let drift = "drift: how much later things came at the end of the run than at its start";
    let notes = exact.into_iter().chain([drift.to_owned()]).collect();
    let figures = [
        "count",
        "exact_share",
        "within_1_share",
        "within_6_25_share",
        "worst_error_ns",
        "drift_ns",
    ];
    let mut views = vec![view("", &figures, notes)];
    let marked =
        rows.iter().filter_map(|row| Some(number(row, "count")? - number(row, "quiet_count")?));
    let marked: f64 = marked.filter(|count| *count > 0.0).sum();
    if marked > 0.0 {
        let note = format!("quiet: without the intervals that fall into a hiccup ({marked})");
        let figures = [
            "quiet_count",
            "quiet_exact_share",
            "quiet_within_1_share",
            "quiet_within_6_25_share",
            "quiet_worst_error_ns",
            "not_excused_share",
        ];
        let missed = "not excused: off by more than 1% without a hiccup, of all";
        views.push(view("quiet", &figures, vec![note, missed.to_owned()]));
    }
    views
}

fn published_table(rows: &[Object], figures: &Object) -> Table {
    let places: Vec<&str> = rows.iter().map(|row| text(row, "place")).collect();
    let mut columns = vec![Column::parameter("figure", "Beside published")];
    let key = |place: &str, unit: &str| format!("{place}_{unit}");
    // A table of shares and times: each has columns of its own, of which a row fills one kind.
    for unit in ["share", "ns"] {
        columns.extend(places.iter().map(|place| Column::figure(&key(place, unit), place)));
        columns.push(Column::figure(&key("published", unit), "published"));
    }
    let line = |name: &str, figure: &str| {
        let cells = rows.iter().zip(&places);
        let cells =
            cells.filter_map(|(row, place)| Some((key(place, "share"), row.get(figure)?.clone())));
        let mut line = object([
            ("figure", name.into()),
            ("published_share", number(figures, &format!("published_{figure}")).into()),
        ]);
        line.extend(cells);
        line
    };
    let mut lines = match is_fitted(figures) {
        false => vec![line("exact", "exact_share"), line("worst error", "worst_error_share")],
        true => vec![fitted_line(rows, figures)],
    };
    let first = places.first().copied().unwrap_or("injected");
    for (name, place, found, published) in [
        ("smallest interval", first, "smallest_interval_ns", "published_smallest_interval_ns"),
        ("smallest pace", first, "smallest_paced_interval_ns", ""),
        ("smallest at the handler", "handler", "smallest_handler_interval_ns", ""),
    ] {
        let Some(ns) = number(figures, found) else { continue };
        let mut line =
            object([("figure", name.into()), ("published_ns", number(figures, published).into())]);
        line.insert(key(place, "ns"), ns.into());
        lines.push(line);
    }
    let mut table = Table::here("published", "", columns, lines);
    if let Some(ns) = number(figures, "published_jitter_ns") {
        table = table.note(format!(
            "fitted, so that no agreement shows anything: a real NIC's intervals were off by {} all the time, and by \
             what stands here at the worst",
            time(ns)
        ));
    }
    if let Some(ns) = number(figures, "published_requested_ns") {
        table = table.note(format!("published: of {} intervals", time(ns)));
    }
    if let Some(share) = number(figures, "smallest_kept_limit_share") {
        table = table.note(format!(
            "smallest interval: the shortest of which {0} are within 6.25%; smallest pace: the shortest at which \
             {0} of the packets go out before the next is due; both at the injection, whether or not the driver \
             keeps up; intervals in hiccups are left out",
            percent(share)
        ));
    }
    table.note(format!("published for: {}", published::injection().environment))
}

/// The worst error at each place beside the real NIC's that the intervals are fitted to.
fn fitted_line(rows: &[Object], figures: &Object) -> Object {
    let mut line = object([
        ("figure", "worst error, fitted".into()),
        ("published_ns", number(figures, "published_worst_error_ns").into()),
    ]);
    for row in rows {
        let error = row.get("worst_error_ns").cloned();
        line.extend(error.map(|ns| (format!("{}_ns", text(row, "place")), ns)));
    }
    line
}

fn matters(rows: &[Object], figures: &Object) -> Vec<Headline> {
    if is_fitted(figures) {
        return off_the_drawn(figures).into_iter().collect();
    }
    let published = &published::injection().interval_accuracy;
    let injected = rows.iter().find(|row| text(row, "place") == "injected");
    let of_row = |key: &str| injected.and_then(|row| number(row, key));
    let smallest = published.smallest_interval_us * 1e3;
    let found = [
        ("of the intervals exact", of_row("exact_share"), Unit::Share, published.exact_share),
        ("worst error", of_row("worst_error_share"), Unit::Share, published.worst_error_share),
        ("smallest interval", number(figures, "smallest_interval_ns"), Unit::Ns, smallest),
    ];
    let figure = |(title, value, unit, published): (&str, Option<f64>, Unit, f64)| {
        let of = "at the injection".to_owned();
        Some(Headline {
            title: title.to_owned(),
            value: value?,
            unit,
            published: Some(published),
            of,
        })
    };
    found.into_iter().filter_map(figure).collect()
}

/// How well the intervals were kept that were drawn: nothing else of fitted ones is ours.
fn off_the_drawn(figures: &Object) -> Option<Headline> {
    Some(Headline {
        title: "off the interval that was drawn, 99th percentile".to_owned(),
        value: number(figures, "interval_error_p99_ns")?,
        unit: Unit::Ns,
        published: None,
        of: "at the injection, fitted intervals".to_owned(),
    })
}

/// How many intervals were off by how much, a column for each place.
fn errors_table(rows: &[Object]) -> Table {
    let mut columns = vec![Column::parameter("error", "Error")];
    let places = rows.iter().map(|row| text(row, "place"));
    columns.extend(places.map(|place| Column::figure(place, place).unit(Unit::Bar)));
    Table::of_figures("errors", "", "errors", columns)
}

/// Interrupts without packets, where they were measured.
fn alone_table(figures: &Object) -> Option<Table> {
    let row = |spacing: &str| {
        let of =
            |name: &str| -> Value { number(figures, &format!("alone_{spacing}_{name}")).into() };
        number(figures, &format!("alone_{spacing}_sent"))?;
        Some(object([
            ("spacing", format!("{spacing} ns").into()),
            ("sent", of("sent")),
            ("handled", of("handled")),
            ("in_step_share", of("in_step_share")),
            ("within_6_25_share", of("within_6_25_share")),
            ("lag_p50_ns", of("lag_p50_ns")),
            ("lag_p99_ns", of("lag_p99_ns")),
        ]))
    };
    let rows: Vec<Object> = ["200", "100"].into_iter().filter_map(row).collect();
    let columns = vec![
        Column::parameter("spacing", "Interrupts alone"),
        Column::figure("sent", "sent").unit(Unit::Count),
        Column::figure("handled", "handled").unit(Unit::Count),
        Column::figure("in_step_share", "in step"),
        Column::figure("within_6_25_share", "in 6.25%"),
        Column::figure("lag_p50_ns", "lag p50"),
        Column::figure("lag_p99_ns", "lag p99"),
    ];
    let table = Table::here("alone", "", columns, rows);
    let note = "in step: its handler began before the next interrupt was sent";
    let there = matches!(&table.source, Source::Here(rows) if !rows.is_empty());
    there.then(|| table.note(note))
}

/// What else there is to know, a figure a line.
fn rest_table(result: &RunResult) -> Table {
    let mut rows = Vec::new();
    let mut say = |what: &str, value: Option<f64>, unit: Unit| {
        let said = value
            .map(|value| object([("figure", what.into()), ("value", unit.show(value).into())]));
        rows.extend(said);
    };
    let ledger = result.ledger.as_ref();
    let missed =
        |ledger: &warikomi_measure::Totals| ledger.injected.saturating_sub(ledger.accepted);
    let interrupts = result.interrupts.as_ref();
    let hiccups = result.hiccups.as_ref().and_then(|hiccups| hiccups.support.as_ref());
    for (percentile, name) in [("median", "p50"), ("99th percentile", "p99"), ("worst", "worst")] {
        let error = number(&result.figures, &format!("interval_error_{name}_ns"));
        say(&format!("injected off the fitted interval, {percentile}"), error, Unit::Ns);
    }
    let machine = &result.machine;
    let count = Unit::Count;
    say("packets accepted by the driver", ledger.map(|all| all.accepted as f64), count);
    say("packets missed", ledger.map(|all| missed(all) as f64), count);
    say("unaccounted", ledger.map(|all| all.unaccounted as f64), count);
    say("interrupts raised", interrupts.map(|all| all.raised as f64), count);
    say("interrupts handled", interrupts.map(|all| all.handled as f64), count);
    say("interrupts signalled again", interrupts.map(|all| all.resignalled as f64), count);
    for (percentile, name) in [("median", "p50"), ("99th percentile", "p99")] {
        let quiet = number(&result.figures, &format!("quiet_handler_lag_{name}_ns"));
        say(&format!("from raise to handler, {percentile}, quiet"), quiet, Unit::Ns);
    }
    say("hiccups of the support side", hiccups.map(|all| all.count as f64), count);
    say("longest of these", hiccups.map(|all| all.longest_ns), Unit::Ns);
    say("runs done again", number(&result.figures, "retried_runs"), count);
    let of_target = result.hiccups.as_ref().and_then(|hiccups| hiccups.target.as_ref());
    say("hiccups of the target", of_target.map(|all| all.count as f64), count);
    say("longest of these", of_target.map(|all| all.longest_ns), Unit::Ns);
    say("support side waited for its core", machine.support_waited_us, Unit::Us);
    say("target waited for its core", machine.target_waited_us, Unit::Us);
    say("tick of the clock", number(&result.figures, "clock_tick_ns"), Unit::Ns);
    let columns = vec![Column::parameter("figure", "Figure"), Column::parameter("value", "value")];
    Table::here("rest", "", columns, rows)
}

fn charts(requested: Option<f64>, figures: &Object) -> Vec<Chart> {
    let intervals = || Source::File("intervals".to_owned());
    let x = Axis::new("error_from_ns", "error, to either side", Unit::Ns, Scale::Log);
    let y = Axis::new("intervals", "intervals", Unit::Count, Scale::Zero);
    let mut errors = Chart::new("errors", "How far intervals were off", x, y)
        .from(intervals())
        .kind(Kind::Distribution)
        .series(&["place"])
        .curve(Curve::new("error_ns", ""))
        .note("Errors below 1 ns are in the first bin.");
    let mut mark = |name: &str, at: Option<f64>| {
        errors.marks.extend(at.map(|at| Mark { name: name.to_owned(), at }));
    };
    mark("resolution of the clock", number(figures, "resolution_ns"));
    mark("1% of the interval", requested.map(|ns| ns * 0.01));
    mark("6.25% of the interval", requested.map(|ns| ns * 0.0625));
    let marks = errors.marks.iter().map(|mark| format!("{} ({})", mark.name, time(mark.at)));
    let marks = marks.collect::<Vec<_>>().join(", ");
    if !marks.is_empty() {
        errors = errors.note(format!("Marked, from the left: {marks}."));
    }
    errors.marks_are = "resolution, 1%, 6.25%".to_owned();
    let x = Axis::new("at_ns", "time since the first deadline", Unit::Ns, Scale::Linear);
    let y = Axis::new("interval_ns", "interval", Unit::Ns, Scale::Linear);
    let mut course = Chart::new("intervals", "Intervals over time", x, y)
        .from(intervals())
        .kind(Kind::OverTime)
        .series(&["in_hiccup"])
        .split(&["place"])
        .curve(Curve::new("interval_ns", ""));
    let in_hiccup = Column::of("in_hiccup").word("true", "in a hiccup");
    course.columns = vec![in_hiccup.word("false", "interval").word("", "interval")];
    course.level = requested.map(|ns| ("asked for".to_owned(), ns));
    let x = Axis::new("interval_ns", "interval asked for", Unit::Ns, Scale::Log);
    let y = Axis::new("kept_share", "intervals kept", Unit::Share, Scale::Zero);
    let mut smallest = Chart::new("smallest", "How short intervals may be", x, y)
        .from(Source::File("smallest".to_owned()))
        .curve(Curve::new("kept_share", "kept"));
    smallest.marks_are = "smallest interval that was kept".to_owned();
    let kept = number(figures, "smallest_interval_ns");
    smallest.marks.extend(kept.map(|at| Mark { name: smallest.marks_are.clone(), at }));
    vec![errors, course, smallest]
}

//! What a comparison of ways to receive shows.

use warikomi_measure::RunResult;
use warikomi_measure::layout::{
    Axis, Better, Chart, Column, Curve, Kind, Layout, Object, Only, Scale, Several, Table, Unit,
    View, count, percent, rate, size, time,
};
use warikomi_measure::published::{self, HYBRID_BURST_BYTES};

use crate::cells::{headline, number, object, say_refusals, text};

/// Describes the result.
pub(crate) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let mut layout = Layout {
        asked: asked(result),
        columns: columns(),
        views: vec![view(rows)],
        tables: vec![published_table()],
        charts: charts(rows),
        ..Layout::default()
    };
    if result.figures.contains_key("losses") {
        layout.tables.push(losses());
    }
    if result.figures.contains_key("scaling") {
        layout.tables.push(scaling());
    }
    if let Some(verdict) = result.figures.get("verdict").and_then(serde_json::Value::as_object) {
        layout.say("claim", verdict_text(verdict));
    }
    say_refusals(&mut layout, rows, |row| text(row, "strategy").to_owned());
    let advice = result.figures.get("advice").and_then(serde_json::Value::as_object);
    if let Some(advice) = advice {
        layout.say("advice", advice_text(advice));
    }
    matters(&mut layout, rows, advice);
    result.layout = layout;
}

fn asked(result: &RunResult) -> Option<String> {
    let number = |name: &str| result.plan_number(name);
    let line = rate(number("line_rate_bps")?);
    let long = time(number("duration_ms")? * 1e6);
    let loads = result.plan.get("loads")?.as_array()?;
    let loads: Vec<_> = loads.iter().filter_map(serde_json::Value::as_f64).map(percent).collect();
    let whole = result.plan.get("whole_messages").and_then(serde_json::Value::as_bool);
    let what = match whole {
        Some(true) => "messages of one frame each".to_owned(),
        _ => format!("bursts of frames of {} bytes", count(number("frame_bytes")? as u64)),
    };
    let stall = result.plan.get("stall").and_then(serde_json::Value::as_str);
    let stall = stall.map(|stall| format!("; the core is taken away, {stall}")).unwrap_or_default();
    let quota = result.plan.get("quota").and_then(serde_json::Value::as_str);
    let stall = stall + &quota.map(|it| format!("; a quota of {it}")).unwrap_or_default();
    Some(format!("{what} on a line of {line}, {} of it, for {long}{stall}", loads.join(", ")))
}

fn columns() -> Vec<Column> {
    let delay = |part: &str, head: &str| {
        Column::figure(&format!("delay_us.{part}"), &format!("delay {part}")).head(head)
    };
    vec![
        Column::parameter("strategy", "strategy"),
        Column::parameter("poll_us", "poll time T").head("T").word("", "no T").says("T = {}"),
        Column::parameter("buffer_bytes", "receive buffer").head("buffer").unit(Unit::Size),
        Column::parameter("burst_bytes", "burst").unit(Unit::Size).says("Bursts of {}"),
        Column::parameter("load_share", "load of the line").head("load").says("load {}"),
        Column::parameter("line_rate_bps", "line"),
        Column::parameter("cpu_speed", "processor, times as fast").head("processor"),
        Column::parameter("real_time", "real-time priority").head("real-time"),
        Column::figure("cpu_share", "CPU share of receiving")
            .head("CPU")
            .better(Better::Less)
            .published("published_cpu_share")
            .instead("not_available", "none"),
        Column::figure("published_cpu_share", "CPU share, published"),
        Column::figure("lost_share", "lost").alarm().published("published_lost_share"),
        Column::figure("published_lost_share", "lost, published"),
        delay("p50", "delay p50"),
        delay("p90", "p90"),
        delay("p99", "p99"),
        delay("max", "max"),
        Column::figure("interrupts", "interrupts").head("intr").unit(Unit::Count),
        Column::figure("stalled_ms", "core taken away, ms"),
        Column::parameter("stalled_by", "taken by"),
        Column::parameter("asked_buffer_bytes", "receive buffer asked for").unit(Unit::Size),
        Column::figure("poll_now_us", "poll time at the end"),
        Column::parameter("polls_by", "polls"),
        Column::parameter("not_available", "why not"),
        Column::figure("application_messages", "messages, by the application")
            .head("by app")
            .unit(Unit::Count),
        Column::figure("application_bytes", "bytes, by the application").unit(Unit::Size),
        Column::parameter("application_differs", "what the driver says"),
        Column::parameter("digest", "digest"),
    ]
}

/// Columns that are shown where rows have them.
const SETTINGS: [&str; 3] = ["line_rate_bps", "cpu_speed", "real_time"];

fn view(rows: &[Object]) -> View {
    let settings = SETTINGS.iter().filter(|key| rows.iter().any(|row| row.contains_key(**key)));
    let several = several(rows, "load_share").then_some(&"load_share");
    let columns = ["strategy", "poll_us", "buffer_bytes"].iter().chain(several).chain(settings);
    let figures = ["cpu_share", "lost_share", "delay_us.p50", "delay_us.p99", "interrupts"].iter();
    let application = "application_messages";
    let application = rows.iter().any(|row| row.contains_key(application)).then_some(&application);
    View {
        columns: columns.chain(figures).chain(application).map(|&key| key.to_owned()).collect(),
        split: vec!["burst_bytes".to_owned()],
        notes: vec![
            "CPU: what receiving took from the compute job; delay: from the deadline of a burst's last packet \
             until the application has it; intr: interrupts that the device raised"
                .to_owned(),
        ],
        ..View::default()
    }
}

/// Whether rows differ in this.
fn several(rows: &[Object], key: &str) -> bool {
    let mut values = rows.iter().filter_map(|row| row.get(key));
    let first = values.next();
    values.any(|value| Some(value) != first)
}

/// Where losses begin, beside what was published at its own lengths of messages.
fn losses() -> Table {
    let columns = vec![
        Column::parameter("strategy", "Losses, strategy"),
        Column::parameter("poll_us", "T"),
        Column::parameter("buffer_bytes", "buffer").unit(Unit::Size),
        Column::figure("losing", "losing").unit(Unit::Count),
        Column::figure("tried", "of").unit(Unit::Count),
        Column::figure("begins_bytes", "from messages of").unit(Unit::Size),
        Column::figure("begins_load_share", "from load"),
        Column::figure("lost_share", "most lost").alarm().published("published_lost_share"),
        Column::figure("worst_bytes", "by messages of").unit(Unit::Size),
        Column::figure("published_lost_share", "published"),
        Column::parameter("published_at", "published at"),
    ];
    Table::of_figures("losses", "", "losses", columns).note(
        "losing, of: lengths of messages with loads that lost packets, and those that were tried",
    )
}

/// What was published, whether the same was found, and what was.
fn verdict_text(verdict: &Object) -> String {
    let said = match text(verdict, "verdict") {
        "same" => "the same was found",
        "different" => "something else was found",
        _ => "what was measured does not say it",
    };
    format!(
        "{}: published: {}; {said}: {}",
        text(verdict, "claim"),
        text(verdict, "published"),
        text(verdict, "found")
    )
}

/// All that was published about polling first and waiting then: a row for each poll time.
fn published_table() -> Table {
    let hybrid = published::hybrid_receive();
    let mut polls: Vec<u64> = hybrid.losses().iter().map(|loss| loss.poll_us).collect();
    polls.dedup();
    let mut buffers: Vec<u64> = hybrid.losses().iter().map(|loss| loss.buffer_mb).collect();
    buffers.sort_unstable();
    buffers.dedup();
    let key = |mb: &u64| format!("lost_{mb}MB_share");
    let at = |mb: &u64| format!("lost_{mb}MB_at");
    let mut columns = vec![
        Column::parameter("poll_us", "Published, T"),
        Column::figure("cpu_share", "CPU at 50 KB"),
    ];
    for mb in &buffers {
        columns.push(Column::figure(&key(mb), &format!("lost, {mb} MB")));
        columns.push(Column::parameter(&at(mb), "at").word("", ""));
    }
    let row = |poll: u64| {
        let cpu = hybrid.cpu_share(poll, HYBRID_BURST_BYTES);
        let mut row = object([("poll_us", poll.into()), ("cpu_share", cpu.into())]);
        for mb in &buffers {
            let Some(loss) = hybrid.loss(poll, mb * 1_000_000) else { continue };
            row.insert(key(mb), loss.lost_share.into());
            row.extend(loss.at.iter().map(|messages| (at(mb), messages.as_str().into())));
        }
        row
    };
    let rows = polls.into_iter().map(row).collect();
    Table::here("published", "", columns, rows)
        .note(format!("published: {}", hybrid.environment))
        .note("at: the lengths of the messages that were lost")
        .note(format!("below 100 µs: {}", hybrid.below_100us))
        .note(format!("how it scales: {}", hybrid.scaling_rule))
}

/// The rule that a buffer grows with the line, beside what each line needs.
fn scaling() -> Table {
    let columns = vec![
        Column::parameter("line_rate_bps", "Line"),
        Column::figure("needed_bytes", "smallest buffer")
            .unit(Unit::Size)
            .instead("line_rate_bps", "more than a ring holds"),
        Column::figure("predicted_bytes", "by the rule").unit(Unit::Size),
    ];
    Table::of_figures("scaling", "", "scaling", columns)
}

/// The strategy to choose for this traffic and this processor budget.
fn advice_text(advice: &Object) -> String {
    let figure = |name: &str| number(advice, name).unwrap_or_default();
    let budget = percent(figure("cpu_budget_share"));
    if advice.contains_key("none") {
        let none = text(advice, "none");
        return format!("with {budget} of the processor there is nothing to advise: {none}");
    }
    let poll = number(advice, "poll_us").map(|us| format!(", T = {}", time(us * 1e3)));
    format!(
        "for this traffic and {budget} of the processor use {}{}, buffer = {}: {} of the processor, 99% of the \
         bursts within {}, no loss in {} packets",
        text(advice, "strategy"),
        poll.unwrap_or_default(),
        size(figure("buffer_bytes")),
        percent(figure("cpu_share")),
        time(figure("delay_p99_us") * 1e3),
        count(figure("packets") as u64),
    )
}

/// The figures of the advised way with the longest bursts; without advice, of one beside which there are
/// published figures.
fn matters(layout: &mut Layout, rows: &[Object], advice: Option<&Object>) {
    let same = |row: &Object, of: &Object| {
        let keys = ["strategy", "poll_us", "buffer_bytes"];
        keys.iter().all(|key| {
            row.get(*key).filter(|v| !v.is_null()) == of.get(*key).filter(|v| !v.is_null())
        })
    };
    let longest = |a: &&Object, b: &&Object| {
        let burst = |row: &Object| number(row, "burst_bytes").unwrap_or_default();
        burst(a).total_cmp(&burst(b))
    };
    let measured = || rows.iter().filter(|row| row.contains_key("cpu_share"));
    let advised =
        advice.and_then(|advice| measured().filter(|row| same(row, advice)).max_by(longest));
    let published = || {
        let beside = measured().filter(|row| number(row, "published_cpu_share").is_some());
        beside.max_by(longest)
    };
    let Some(row) = advised.or_else(published).or_else(|| measured().max_by(longest)) else {
        return;
    };
    let load = several(rows, "load_share").then_some("load_share");
    let names: Vec<_> = ["strategy", "poll_us", "buffer_bytes", "burst_bytes"]
        .into_iter()
        .chain(load)
        .map(|key| layout.column(key).name(row))
        .collect();
    let of = names.join(", ");
    let figures = [
        ("cpu_share", "of the processor taken by receiving"),
        ("delay_us.p99", "delay, 99 of 100 bursts"),
        ("lost_share", "of the packets lost"),
    ];
    let figures = figures.map(|(key, title)| headline(layout, row, key, title, &of));
    layout.headline = figures.into_iter().flatten().collect();
}

fn charts(rows: &[Object]) -> Vec<Chart> {
    let share = || Axis::new("cpu_share", "CPU share of receiving", Unit::Share, Scale::Zero);
    let by_strategy =
        |chart: Chart, figure: &str| chart.series(&["strategy"]).curve(Curve::new(figure, ""));
    let buffers = rows.iter().filter_map(|row| row.get("buffer_bytes")?.as_u64());
    let x = Axis::new("burst_bytes", "burst (bytes)", Unit::Count, Scale::Zero);
    // Curves of several loads each have their own.
    let by_strategy = |chart: Chart, figure: &str| match several(rows, "load_share") {
        true => chart.series(&["strategy", "load_share"]).curve(Curve::new(figure, "")),
        false => by_strategy(chart, figure),
    };
    let mut cpu =
        by_strategy(Chart::new("cpu", "CPU share by burst size", x, share()), "cpu_share")
            .curve(Curve::new("published_cpu_share", "published").published().kind(Kind::Points))
            .split(&["poll_us"]);
    if let Some(largest) = buffers.max() {
        cpu = cpu
            .only(Only::any("buffer_bytes", [largest]))
            .note(format!("With a receive buffer of {} bytes.", count(largest)));
    }
    let x = Axis::named(&["poll_us", "buffer_bytes"], "poll time T and receive buffer");
    let y = Axis::new("lost_share", "packets lost", Unit::Share, Scale::Zero);
    let title = "Packets lost by poll time and receive buffer";
    let mut lost = by_strategy(Chart::new("lost", title, x, y).kind(Kind::Points), "lost_share")
        .curve(Curve::new("published_lost_share", "published").published());
    lost.several = Several::Greatest;
    if several(rows, "burst_bytes") {
        lost = lost.note("Of bursts of several lengths, the one that lost most.");
    }
    let y = Axis::new("delay_us.p99", "delay, 99th percentile", Unit::Us, Scale::Log);
    let title = "Delay of a burst's last packet against CPU share";
    let delay =
        by_strategy(Chart::new("delay-cpu", title, share(), y).kind(Kind::Points), "delay_us.p99")
            .note("A point for each row: poll time, buffer and burst.");
    vec![cpu, lost, delay]
}

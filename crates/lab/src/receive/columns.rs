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
        views: vec![view()],
        tables: vec![published_table()],
        charts: charts(rows),
        ..Layout::default()
    };
    if result.figures.contains_key("scaling") {
        layout.tables.push(scaling());
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
    let (load, frame) = (percent(number("load")?), count(number("frame_bytes")? as u64));
    let long = time(number("duration_ms")? * 1e6);
    Some(format!("bursts of frames of {frame} bytes on a line of {line}, {load} of it, for {long}"))
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
        Column::figure("poll_now_us", "poll time at the end"),
        Column::parameter("polls_by", "polls"),
        Column::parameter("not_available", "why not"),
        Column::parameter("digest", "digest"),
    ]
}

fn view() -> View {
    let columns = [
        "strategy",
        "poll_us",
        "buffer_bytes",
        "cpu_share",
        "lost_share",
        "delay_us.p50",
        "delay_us.p99",
        "interrupts",
    ];
    View {
        columns: columns.map(str::to_owned).to_vec(),
        split: vec!["burst_bytes".to_owned()],
        notes: vec![
            "CPU: what receiving took from the compute job; delay: from the deadline of a burst's last packet \
             until the application has it; intr: interrupts that the device raised"
                .to_owned(),
        ],
        ..View::default()
    }
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
    let mut columns = vec![
        Column::parameter("poll_us", "Published, T"),
        Column::figure("cpu_share", "CPU at 50 KB"),
    ];
    columns.extend(buffers.iter().map(|mb| Column::figure(&key(mb), &format!("lost, {mb} MB"))));
    let row = |poll: u64| {
        let cpu = hybrid.cpu_share(poll, HYBRID_BURST_BYTES);
        let mut row = object([("poll_us", poll.into()), ("cpu_share", cpu.into())]);
        let lost = |mb: &u64| Some((key(mb), hybrid.lost_share(poll, mb * 1_000_000)?.into()));
        row.extend(buffers.iter().filter_map(lost));
        row
    };
    let rows = polls.into_iter().map(row).collect();
    Table::here("published", "", columns, rows)
        .note(format!("published: {}", hybrid.environment))
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
    let names = ["strategy", "poll_us", "buffer_bytes", "burst_bytes"]
        .map(|key| layout.column(key).name(row));
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
    let bursts = rows.iter().filter_map(|row| row.get("burst_bytes"));
    let first = bursts.clone().next();
    if bursts.into_iter().any(|burst| Some(burst) != first) {
        lost = lost.note("Of bursts of several lengths, the one that lost most.");
    }
    let y = Axis::new("delay_us.p99", "delay, 99th percentile", Unit::Us, Scale::Log);
    let title = "Delay of a burst's last packet against CPU share";
    let delay =
        by_strategy(Chart::new("delay-cpu", title, share(), y).kind(Kind::Points), "delay_us.p99")
            .note("A point for each row: poll time, buffer and burst.");
    vec![cpu, lost, delay]
}

//! What `warikomi receive` prints.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use warikomi_measure::{RunResult, published};

use super::Style;
use super::figures::{count, percent, time};
use super::inject::tested;
use super::table::Page;

type Row = Map<String, Value>;

/// The most bursts that have a table of their own.
const MAX_BURSTS: usize = 32;

/// The result of `warikomi receive` as a page of text: for each length of bursts a table of the ways to
/// receive, then what was published, and what is to be said against it.
pub fn receive(result: &RunResult, style: Style) -> String {
    let mut page = Page::new(style);
    tested(&mut page, result);
    if let Some(asked) = asked_for(result) {
        page.paragraph("asked: ", &asked);
    }
    let rows: Vec<&Row> = result.rows.iter().flatten().collect();
    let bursts: BTreeSet<u64> = rows.iter().filter_map(|row| whole(row, "burst_bytes")).collect();
    for burst in bursts.into_iter().take(MAX_BURSTS) {
        page.blank();
        table(&mut page, &rows, burst);
    }
    page.paragraph(
        " ",
        "CPU: what receiving took from the compute job; delay: from the deadline of a burst's last \
         packet until the application has it; intr: interrupts that the device raised",
    );
    not_available(&mut page, &rows);
    page.blank();
    beside_published(&mut page);
    scaling(&mut page, result);
    advice(&mut page, result);
    page.finish_with_doubts(result)
}

/// What somebody with this traffic and so much processor should choose.
fn advice(page: &mut Page, result: &RunResult) {
    let Some(advice) = result.figures.get("advice").and_then(Value::as_object) else { return };
    let budget = percent(number(advice, "cpu_budget_share").unwrap_or_default());
    page.blank();
    let said = match advice.get("none").and_then(Value::as_str) {
        Some(none) => format!("with {budget} of the processor there is nothing to advise: {none}"),
        None => {
            let name = advice.get("strategy").and_then(Value::as_str).unwrap_or("?");
            let poll = number(advice, "poll_us").map(|us| format!(", T = {}", time(us * 1e3)));
            format!(
                "for this traffic and {budget} of the processor use {name}{}, buffer = {}: {} of the \
                 processor, 99% of the bursts within {}, no loss in {} packets",
                poll.unwrap_or_default(),
                size(number(advice, "buffer_bytes").unwrap_or_default()),
                percent(number(advice, "cpu_share").unwrap_or_default()),
                time(number(advice, "delay_p99_us").unwrap_or_default() * 1e3),
                count(whole(advice, "packets").unwrap_or_default()),
            )
        }
    };
    page.paragraph("advice: ", &said);
}

/// The rule that a buffer grows with the line, beside what each line needs.
fn scaling(page: &mut Page, result: &RunResult) {
    let Some(lines) = result.figures.get("scaling").and_then(Value::as_array) else { return };
    page.blank();
    let cells = lines.iter().filter_map(Value::as_object).map(|line| {
        let needed = number(line, "needed_bytes");
        vec![
            super::figures::rate(number(line, "line_rate_bps").unwrap_or_default()),
            needed.map_or("more than a ring holds".to_owned(), size),
            size(number(line, "predicted_bytes").unwrap_or_default()),
        ]
    });
    let lines: Vec<(bool, Vec<String>)> = cells.map(|cells| (false, cells)).collect();
    page.table(&["Line", "smallest buffer", "by the rule"], &lines);
}

fn asked_for(result: &RunResult) -> Option<String> {
    let number = |name: &str| result.plan_number(name);
    let rate = super::figures::rate(number("line_rate_bps")?);
    let (load, frame) = (percent(number("load")?), count(number("frame_bytes")? as u64));
    let long = time(number("duration_ms")? * 1e6);
    Some(format!("bursts of frames of {frame} bytes on a line of {rate}, {load} of it, for {long}"))
}

fn whole(row: &Row, name: &str) -> Option<u64> {
    row.get(name).and_then(Value::as_u64)
}

fn number(row: &Row, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

fn shown(value: Option<f64>, how: impl Fn(f64) -> String) -> String {
    value.map_or(String::new(), how)
}

fn table(page: &mut Page, rows: &[&Row], burst: u64) {
    let title = format!("Bursts of {}", size(burst as f64));
    let header = [&title, "T", "buffer", "CPU", "lost", "delay p50", "p99", "intr"];
    let of_burst = rows.iter().filter(|row| whole(row, "burst_bytes") == Some(burst));
    let lines: Vec<(bool, Vec<String>)> = of_burst
        .map(|row| {
            let name = row.get("strategy").and_then(Value::as_str).unwrap_or("?").to_owned();
            let delay = |part: &str| row.get("delay_us").and_then(|all| all.get(part)?.as_f64());
            let available = !row.contains_key("not_available");
            let lost = shown(number(row, "lost_share"), percent);
            let cells = vec![
                name,
                shown(number(row, "poll_us"), |us| time(us * 1e3)),
                shown(number(row, "buffer_bytes"), size),
                if available { shown(number(row, "cpu_share"), percent) } else { "none".into() },
                lost,
                shown(delay("p50"), |us| time(us * 1e3)),
                shown(delay("p99"), |us| time(us * 1e3)),
                whole(row, "interrupts").map_or(String::new(), count),
            ];
            (number(row, "lost_share").is_some_and(|share| share > 0.0), cells)
        })
        .collect();
    page.table(&header, &lines);
}

/// Bytes in the unit in which buffers are given: `7 MB`.
fn size(bytes: f64) -> String {
    // Whole buffers make odd numbers: three digits say enough.
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    match bytes {
        small if small < 1e6 => format!("{} KB", rounded(small / 1e3)),
        big => format!("{} MB", rounded(big / 1e6)),
    }
}

/// Each reason once.
fn not_available(page: &mut Page, rows: &[&Row]) {
    let mut said = BTreeSet::new();
    for row in rows {
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        let (Some(name), Some(why)) = (text("strategy"), text("not_available")) else { continue };
        if said.insert((name, why)) {
            page.blank();
            page.paragraph(&format!("{name} is not available: "), why);
        }
    }
}

fn beside_published(page: &mut Page) {
    let hybrid = published::hybrid_receive();
    let mut polls: Vec<u64> = hybrid.losses().iter().map(|loss| loss.poll_us).collect();
    polls.dedup();
    let mut buffers: Vec<u64> = hybrid.losses().iter().map(|loss| loss.buffer_mb).collect();
    buffers.sort_unstable();
    buffers.dedup();
    let lost = buffers.iter().map(|mb| format!("lost, {mb} MB"));
    let header: Vec<String> =
        ["Published, T".to_owned(), "CPU at 50 KB".to_owned()].into_iter().chain(lost).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let line = |poll: u64| {
        let cpu = hybrid.cpu_share(poll, published::HYBRID_BURST_BYTES);
        let lost = buffers.iter().map(|mb| shown(hybrid.lost_share(poll, mb * 1_000_000), percent));
        let cells = [time(poll as f64 * 1e3), shown(cpu, percent)].into_iter().chain(lost);
        (false, cells.collect())
    };
    let lines: Vec<_> = polls.into_iter().map(line).collect();
    page.table(&header, &lines);
    page.paragraph(" ", &format!("published: {}", hybrid.environment));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use warikomi_measure::{Machine, TimeBase};

    #[test]
    fn each_way_is_a_line_beside_the_published_and_what_cannot_be_had_says_why() {
        let mut result = RunResult::new("receive", TimeBase::Real, Machine::default());
        let row = |value: Value| value.as_object().unwrap().clone();
        let why = "the kernel does not know it: Operation not supported (os error 95)";
        result.plan = row(json!({"line_rate_bps": 800_000_000, "load": 0.25,
            "frame_bytes": 1_514, "duration_ms": 2_000.0}));
        result.rows = Some(vec![
            row(json!({"strategy": "interrupt", "buffer_bytes": 7_000_000, "burst_bytes": 50_000,
                "cpu_share": 0.413, "lost_share": 0.0, "interrupts": 12_345,
                "delay_us": {"p50": 61.0, "p90": 80.0, "p99": 10_250.0, "max": 11_000.0}})),
            row(json!({"strategy": "prefer-busy-poll", "poll_us": 300, "buffer_bytes": 15_000_000,
                "burst_bytes": 50_000, "cpu_share": 0.513, "lost_share": 0.002,
                "interrupts": 45})),
            row(json!({"strategy": "irq-suspend", "poll_us": 100, "buffer_bytes": 500_000,
                "burst_bytes": 1_000, "not_available": why})),
            row(json!({"strategy": "irq-suspend", "poll_us": 140, "buffer_bytes": 500_000,
                "burst_bytes": 1_000, "not_available": why})),
        ]);
        let text = receive(&result, Style::default());
        for expected in [
            "Bursts of 50 KB",
            "Bursts of 1 KB",
            "800 Mbit/s, 25.00% of it, for 2 s",
            "41.30%",
            "10.25 ms",
            "12,345",
            "15 MB",
            "500 KB",
            "0.20%",
            "31.00%",
            "Giganet",
            "irq-suspend is not available: the kernel does not know it",
        ] {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(expected), "{expected} is not in:\n{text}");
        }
        assert_eq!(text.matches("is not available").count(), 1, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

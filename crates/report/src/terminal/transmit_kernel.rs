//! What `warikomi transmit --target kernel` prints.

use serde_json::{Map, Value};
use warikomi_measure::RunResult;

use super::Style;
use super::figures::{count, time};
use super::inject::tested;
use super::table::Page;

type Row = Map<String, Value>;

/// The result of sending in a real kernel as a page of text: a table for each sender with each completion,
/// and what the kernel refused.
pub(super) fn page(result: &RunResult, style: Style) -> String {
    let mut page = Page::new(style);
    tested(&mut page, result);
    let rows: Vec<&Row> = result.rows.iter().flatten().collect();
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for row in rows.iter().filter(|row| !row.contains_key("not_available")) {
        if !kinds.contains(&kind(row)) && kinds.len() < MAX_TABLES {
            kinds.push(kind(row));
        }
    }
    for (sender, completion) in kinds {
        page.blank();
        page.heading(&format!("{sender}, {completion}"));
        table(&mut page, rows.iter().copied().filter(|row| kind(row) == (sender, completion)));
    }
    page.paragraph(
        " ",
        "Mbit/s: of messages, without headers, by the clock of the wire; CPU: processor time of the guest; \
         bells, intr, DMA, frames: doorbells that the driver rang, interrupts, descriptors and frames; \
         all for each message (pktgen: a frame; udp: a datagram; tcp: a write)",
    );
    refused(&mut page, &rows);
    page.finish_with_doubts(result)
}

/// The most tables.
const MAX_TABLES: usize = 32;

/// What the rows of a table have in common: sender and completion.
type Kind<'a> = (&'a str, &'a str);

fn kind(row: &Row) -> Kind<'_> {
    (text(row, "sender"), text(row, "completion"))
}

fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn shown(row: &Row, name: &str, how: impl Fn(f64) -> String) -> String {
    row.get(name).and_then(Value::as_f64).map_or(String::new(), how)
}

/// A number of something for each message.
fn each(number: f64) -> String {
    match number {
        many if many >= 100.0 => count(many.round() as u64),
        some if some >= 1.0 => format!("{some:.2}"),
        few => format!("{few:.4}"),
    }
}

/// What a row has that others of its sender have not: bursts, or segmentation.
pub(crate) fn way(row: &Row) -> String {
    let burst = row.get("burst").and_then(Value::as_u64);
    let tso = row.get("tso").and_then(Value::as_bool);
    match (burst, tso) {
        (Some(1), _) => "single".to_owned(),
        (Some(burst), _) => format!("burst {burst}"),
        (None, Some(true)) => "TSO".to_owned(),
        (None, Some(false)) => "no TSO".to_owned(),
        (None, None) => String::new(),
    }
}

fn table<'a>(page: &mut Page, rows: impl Iterator<Item = &'a Row>) {
    let header = ["bytes", "way", "Mbit/s", "pkt/s", "CPU", "bells", "intr", "DMA", "frames"];
    let lines: Vec<(bool, Vec<String>)> = rows
        .map(|row| {
            let cells = vec![
                shown(row, "size_bytes", |bytes| count(bytes as u64)),
                way(row),
                shown(row, "bps", |bps| each(bps / 1e6)),
                shown(row, "pps", |pps| count(pps.round() as u64)),
                shown(row, "cpu_ns_per_packet", time),
                shown(row, "doorbells_per_packet", each),
                shown(row, "interrupts_per_packet", each),
                shown(row, "transfers_per_packet", each),
                shown(row, "frames_per_packet", each),
            ];
            (false, cells)
        })
        .collect();
    page.table(&header, &lines);
}

/// Each reason once.
fn refused(page: &mut Page, rows: &[&Row]) {
    let mut said: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let reason = (text(row, "completion"), text(row, "not_available"));
        if !reason.1.is_empty() && !said.contains(&reason) {
            page.blank();
            page.paragraph(&format!("{} is not available: ", reason.0), reason.1);
            said.push(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use warikomi_measure::{Machine, TimeBase};

    #[test]
    fn each_sender_has_a_table_and_what_cannot_be_had_says_why() {
        let mut result = RunResult::new("transmit", TimeBase::Real, Machine::default());
        let row = |value: Value| value.as_object().unwrap().clone();
        let why = "cannot set the coalescing: Numerical result out of range (os error 34)";
        result.rows = Some(vec![
            row(json!({"sender": "pktgen", "size_bytes": 64, "burst": 32, "completion": "napi",
                "bps": 250e6, "pps": 488_281.25, "cpu_ns_per_packet": 2_048.0,
                "doorbells_per_packet": 0.031_25, "interrupts_per_packet": 0.004,
                "transfers_per_packet": 1.0, "frames_per_packet": 1.0})),
            row(json!({"sender": "tcp", "size_bytes": 65_507, "tso": true,
                "completion": "coalesce:100us/32", "transfers_per_packet": 18.5})),
            row(json!({"sender": "tcp", "size_bytes": 16, "tso": false,
                "completion": "coalesce:9000us/32", "not_available": why})),
            row(json!({"sender": "tcp", "size_bytes": 64, "tso": false,
                "completion": "coalesce:9000us/32", "not_available": why})),
        ]);
        for width in [80, 120] {
            let text = page(&result, Style { width, ..Style::default() });
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for expected in [
                "pktgen, napi",
                "tcp, coalesce:100us/32",
                "64 burst 32 250 488,281 2.048 µs 0.0312 0.0040 1.00 1.00",
                "65,507 TSO 18.50",
                why,
            ] {
                assert!(words.contains(expected), "{expected} is not in:\n{text}");
            }
            assert_eq!(text.matches("is not available").count(), 1, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        }
    }
}

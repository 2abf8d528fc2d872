//! What `warikomi replace` prints.

use serde_json::{Map, Value};
use warikomi_measure::{RunResult, published};

use super::Style;
use super::figures::{count, time};
use super::inject::tested;
use super::table::Page;
use crate::replace::beside_published;

type Row = Map<String, Value>;

/// The most rows that are shown.
const MAX_ROWS: usize = 200;

/// The result of `warikomi replace` as a page of text: how long it took, what the workload noticed, what became of
/// the frames, the arithmetic, and what was published.
pub fn replace(result: &RunResult, style: Style) -> String {
    let mut page = Page::new(style);
    tested(&mut page, result);
    let rows: Vec<&Row> = result.rows.iter().flatten().take(MAX_ROWS).collect();
    let measured: Vec<&Row> =
        rows.iter().copied().filter(|row| !row.contains_key("not_available")).collect();
    times(&mut page, &measured);
    sends(&mut page, &measured);
    frames(&mut page, &measured);
    arithmetic(&mut page, &measured);
    edges(&mut page, result);
    growth(&mut page, result);
    for row in rows.iter().filter(|row| row.contains_key("not_available")) {
        page.blank();
        page.paragraph(&format!("{} is not available: ", name(row)), text(row, "not_available"));
    }
    beside(&mut page, result);
    page.finish_with_doubts(result)
}

fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(row: &Row, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

fn name(row: &Row) -> String {
    let parts = ["way", "load", "kind"].map(|part| text(row, part));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn us(value: Option<f64>) -> String {
    value.map_or(String::new(), |us| time(us * 1e3))
}

fn counted(row: &Row, name: &str) -> String {
    number(row, name).map_or(String::new(), |value| count(value as u64))
}

/// A way as it stands in a table: where it is not asked for, it says so.
fn way(row: &Row) -> String {
    match text(row, "kind") {
        "kill" => format!("{}, kill", text(row, "way")),
        _ => text(row, "way").to_owned(),
    }
}

/// One figure of a spread.
fn of(row: &Row, spread: &str, figure: &str) -> Option<f64> {
    row.get(spread)?.get(figure)?.as_f64()
}

fn times(page: &mut Page, rows: &[&Row]) {
    page.blank();
    let header = ["time to replace", "load", "count", "min", "mean", "p99", "max", "outage max"];
    let lines = rows.iter().map(|row| {
        let mut cells = vec![way(row), text(row, "load").to_owned(), counted(row, "replacements")];
        cells.extend(["min", "mean", "p99", "max"].map(|figure| us(of(row, "swap_us", figure))));
        cells.push(us(of(row, "outage_us", "max")));
        (false, cells)
    });
    page.table(&header, &lines.collect::<Vec<_>>());
    page.paragraph(
        " ",
        "time to replace: from the order (of a kill: from the death's being seen) to the new driver's first pass; \
         outage: how long nobody served the device (of a kill: from the signal on)",
    );
}

fn sends(page: &mut Page, rows: &[&Row]) {
    let sending: Vec<&&Row> = rows.iter().filter(|row| row.contains_key("send_with_us")).collect();
    if sending.is_empty() {
        return;
    }
    page.blank();
    let header = ["a send", "load", "mean", "max", "with: mean", "max", "gap"];
    let lines = sending.iter().map(|row| {
        let cells = vec![
            way(row),
            text(row, "load").to_owned(),
            us(of(row, "send_us", "mean")),
            us(of(row, "send_us", "max")),
            us(of(row, "send_with_us", "mean")),
            us(of(row, "send_with_us", "max")),
            us(number(row, "longest_send_gap_us")),
        ];
        (false, cells)
    });
    page.table(&header, &lines.collect::<Vec<_>>());
    page.paragraph(
        " ",
        "mean, max: without a replacement; with: in runs with one; gap: the longest time between two frames of \
         the workload on the wire around one",
    );
}

/// What must be 0, if the way promises it; the sum of these figures, and what heads it.
const HARM: [(&[&str], &str); 4] = [
    (&["lost"], "lost"),
    (&["duplicated"], "twice"),
    (&["reordered"], "order"),
    (&["no_descriptor", "not_receiving"], "missed"),
];

fn frames(page: &mut Page, rows: &[&Row]) {
    page.blank();
    let mut header = vec!["frames", "load", "received", "sent"];
    header.extend(HARM.map(|(_, head)| head));
    header.push("TCP");
    let lines = rows.iter().map(|row| {
        let sum =
            |figures: &[&str]| figures.iter().filter_map(|figure| number(row, figure)).sum::<f64>();
        let harm = HARM.map(|(figures, _)| sum(figures));
        let tcp = ["retransmitted", "connections_lost"].map(|figure| counted(row, figure));
        let mut cells = vec![way(row), text(row, "load").to_owned()];
        cells.extend(["received", "sent"].map(|figure| counted(row, figure)));
        cells.extend(harm.map(|value| count(value as u64)));
        cells.push(tcp.join("/"));
        (harm.iter().any(|&value| value > 0.0), cells)
    });
    page.table(&header, &lines.collect::<Vec<_>>());
    page.paragraph(
        " ",
        "lost, twice, out of order: by their numbers, both ways; missed: frames that found no descriptor, or the \
         receiver off; TCP: segments sent again / connections broken",
    );
}

/// Why nothing can be lost on receive, for every row with frames that arrive.
fn arithmetic(page: &mut Page, rows: &[&Row]) {
    for row in rows {
        let known = [
            number(row, "free_descriptors"),
            number(row, "interval_ns"),
            number(row, "bridged_us"),
            number(row, "longest_receive_gap_us"),
        ];
        let [Some(free), Some(interval), Some(bridged), Some(gap)] = known else { continue };
        let (relation, so) = if bridged > gap {
            ("more", "no frame can have found the ring full")
        } else {
            ("not more", "frames can have found the ring full")
        };
        page.blank();
        page.paragraph(
            &format!("{}: ", name(row)),
            &format!(
                "{} free descriptors x {} between frames bridge {}, {relation} than the longest gap on receive, {}: \
                 {so}",
                count(free as u64), time(interval), time(bridged * 1e3), time(gap * 1e3)
            ),
        );
    }
}

fn list<'a>(of: &'a Row, name: &str) -> impl Iterator<Item = &'a Row> {
    of.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn edges(page: &mut Page, result: &RunResult) {
    for edge in list(&result.figures, "edges").take(MAX_ROWS) {
        page.blank();
        page.heading(&format!("where losses begin, {}", text(edge, "way")));
        let lines = list(edge, "tried").take(MAX_ROWS).map(|row| {
            let harmed = number(row, "no_descriptor") > Some(0.0);
            let cells = vec![
                counted(row, "buffers"),
                counted(row, "free_descriptors"),
                us(number(row, "bridged_us")),
                us(number(row, "longest_receive_gap_us")),
                counted(row, "no_descriptor"),
            ];
            (harmed, cells)
        });
        let header = ["buffers", "free", "bridge", "longest gap", "frames without one"];
        page.table(&header, &lines.collect::<Vec<_>>());
        let shown = |name: &str| match number(edge, name) {
            Some(value) => count(value as u64),
            None => "none".to_owned(),
        };
        page.paragraph(
            " ",
            &format!(
                "predicted: {} descriptors for a gap of {} at {} between frames; measured: losses with {}, none \
                 from {} on",
                shown("predicted_descriptors"),
                us(number(edge, "longest_receive_gap_us")),
                number(edge, "interval_ns").map_or(String::new(), time),
                shown("most_with_loss"),
                shown("least_without_loss"),
            ),
        );
    }
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

fn growth(page: &mut Page, result: &RunResult) {
    for soak in list(&result.figures, "growth").take(MAX_ROWS) {
        let usage: Vec<&Row> = list(soak, "usage").collect();
        let (Some(first), Some(last)) = (usage.first(), usage.last()) else { continue };
        page.blank();
        let at = |row: &Row| format!("after {}", counted(row, "replacements"));
        let lines = GROWTH.map(|(figure, what)| {
            let most = usage.iter().filter_map(|row| number(row, figure)).fold(0.0, f64::max);
            let cells = vec![
                what.to_owned(),
                counted(first, figure),
                counted(last, figure),
                count(most as u64),
            ];
            (false, cells)
        });
        let head = format!("growth, {}", text(soak, "row"));
        page.table(&[&head, &at(first), &at(last), "at most"], &lines);
    }
}

/// The published table, with what stands for each system here.
fn beside(page: &mut Page, result: &RunResult) {
    let published = published::driver_replacement();
    page.blank();
    let lines = beside_published(result).into_iter().map(|(what, published, here)| {
        (false, vec![what, time(published), here.map_or(String::new(), time)])
    });
    let lines: Vec<(bool, Vec<String>)> = lines.collect();
    let header = ["Beside what was published", "published", "here"];
    page.table(&header, &lines);
    page.paragraph(
        " ",
        &format!(
            "published: {}; longest time between two sends around a replacement: MINIX 3 {}; AnT: {} more, all \
             sends together",
            published.workload,
            time(published.minix3_longest_send_gap_ms * 1e6),
            time(published.ant_extra_gap_ms * 1e6)
        ),
    );
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;

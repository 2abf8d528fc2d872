//! What `warikomi cost` prints.

use serde_json::{Map, Value};
use warikomi_measure::RunResult;

use super::Style;
use super::figures::{count, time};
use super::inject::tested;
use super::table::Page;

/// A table: its title, and the figures of each row with their headings.
type Columns = [(&'static str, &'static str)];

const SEND: &Columns = &[
    ("mean", "send_ns"),
    ("p50", "send_p50_ns"),
    ("p99", "send_p99_ns"),
    ("published", "published_send_ns"),
    ("signalled", "send_signalled_ns"),
];
const DRIVER: &Columns = &[
    ("whole", "receive_ns"),
    ("copy", "copy_ns"),
    ("protocol", "protocol_ns"),
    ("sampled copy", "sampled_copy_ns"),
    ("sampled rest", "sampled_protocol_ns"),
];
const END_TO_END: &Columns = &[
    ("whole", "end_to_end_ns"),
    ("copy", "end_to_end_copy_ns"),
    ("protocol", "end_to_end_protocol_ns"),
    ("published copy", "published_copy_ns"),
    ("published protocol", "published_protocol_ns"),
];

/// The result of `warikomi cost` as a page of text: what sending costs, and what receiving costs the
/// driver alone and with everything up to the application, by frame length, with the lines
/// through them, beside the published figures.
pub fn cost(result: &RunResult, style: Style) -> String {
    let mut page = Page::new(style);
    tested(&mut page, result);
    page.blank();
    table(&mut page, result, "Send, bytes", SEND);
    line(&mut page, result, "send");
    page.paragraph(
        " ",
        "mean, p50, p99: of calls 1,000 to 2,000 of 3,000, while the driver polls; signalled: the \
         mean while it waits for its interrupt",
    );
    page.blank();
    table(&mut page, result, "Driver alone, bytes", DRIVER);
    line(&mut page, result, "receive");
    page.paragraph(
        " ",
        "copy: what grows with the length, by the line; protocol: the rest; sampled: by the \
         functions in which the target spent its time",
    );
    page.blank();
    table(&mut page, result, "To application, bytes", END_TO_END);
    line(&mut page, result, "end_to_end");
    page.finish_with_doubts(result)
}

fn table(page: &mut Page, result: &RunResult, title: &str, columns: &Columns) {
    let header: Vec<&str> =
        std::iter::once(title).chain(columns.iter().map(|(heading, _)| *heading)).collect();
    let rows: Vec<(bool, Vec<String>)> = result
        .rows
        .iter()
        .flatten()
        .map(|row| {
            let size = row.get("size_bytes").and_then(Value::as_u64).map_or("?".into(), count);
            let cells = columns.iter().map(|(_, name)| cell(row, name));
            (false, std::iter::once(size).chain(cells).collect())
        })
        .collect();
    page.table(&header, &rows);
}

fn cell(row: &Map<String, Value>, name: &str) -> String {
    row.get(name).and_then(Value::as_f64).map_or(String::new(), time)
}

fn line(page: &mut Page, result: &RunResult, name: &str) {
    let figure = |part: &str| result.figures.get(&format!("{name}_{part}")).and_then(Value::as_f64);
    let parts = (figure("fixed_ns"), figure("ns_per_byte"), figure("r_squared"));
    if let (Some(fixed), Some(per_byte), Some(r_squared)) = parts {
        let text = format!("{} and {per_byte:.4} ns a byte (R² {r_squared:.4})", time(fixed));
        page.paragraph(" line: ", &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use warikomi_measure::{Machine, TimeBase};

    #[test]
    fn measured_and_published_stand_side_by_side_and_what_is_not_known_is_empty() {
        let mut result = RunResult::new("cost", TimeBase::Real, Machine::default());
        let row = json!({"size_bytes": 1_500, "send_ns": 250.0, "send_p50_ns": 241.0,
            "send_p99_ns": 1_300.0, "published_send_ns": 205.0, "receive_ns": 640.0,
            "copy_ns": 300.0, "protocol_ns": 340.0, "published_copy_ns": 272.0});
        result.rows = Some(vec![row.as_object().unwrap().clone()]);
        let figures = json!({"receive_fixed_ns": 340.0, "receive_ns_per_byte": 0.2,
            "receive_r_squared": 0.9987});
        result.figures = figures.as_object().unwrap().clone();
        let text = cost(&result, Style::default());
        for expected in [
            "1,500",
            "250 ns",
            "241 ns",
            "1.3 µs",
            "205 ns",
            "640 ns",
            "272 ns",
            "340 ns and 0.2000 ns a byte (R² 0.9987)",
        ] {
            assert!(text.contains(expected), "{expected} is not in:\n{text}");
        }
        assert_eq!(text.matches("line:").count(), 1, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

//! What `warikomi explore` prints.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

fn result(bad: impl Iterator<Item = u64>) -> RunResult {
    let mut result = RunResult::new("explore", TimeBase::Real, Machine::default());
    let line = |(at, bad): (usize, u64)| {
        let class = if bad > 0 { "bad" } else { "good" };
        json!({"file": "net/a.c", "line": at + 1, "text": "\tnapi_schedule(napi);", "class": class,
            "value": 1.0, "places": 9, "reached": 8, "bad": bad, "worst": "stuck"})
    };
    let lines: Vec<_> = bad.enumerate().map(line).collect();
    result.figures.insert("lines".to_owned(), lines.into());
    let row = json!({"function": "poll", "places": 9, "reached": 8, "bad": 1});
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    result
}

#[test]
fn the_ten_worst_lines_come_first_and_no_others() {
    let text = shown(&result((0..=14).rev()), Style { width: 120, ..Style::default() });
    assert!(text.contains("the 10 worst of 14 lines"), "{text}");
    let places: Vec<&str> = text.lines().filter_map(|line| line.split("net/a.c:").nth(1)).collect();
    let numbers: Vec<u64> =
        places.iter().map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>(), "{text}");
    assert!(text.contains("napi_schedule(napi);"), "{text}");
}

#[test]
fn where_nothing_is_wrong_no_line_is_shown() {
    let text = shown(&result(std::iter::once(0)), Style::default());
    assert!(!text.contains("net/a.c"), "{text}");
}

//! What `warikomi sweep` says of dips.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

fn example(dips: &[serde_json::Value]) -> String {
    let mut result = RunResult::new("sweep", TimeBase::Real, Machine::default());
    let row = json!({"size_bytes": 1_500, "shortest_loss_free_ns": 500.0, "loss_free_bps": 24e9});
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    result.figures.insert("dips".to_owned(), json!(dips));
    let text = shown(&result, Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // Sentences are broken where a line ends.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_dip_is_shown_with_what_changed_with_it_and_the_test_that_found_it() {
    let dip = json!({"size_bytes": 1_500, "from_ns": 520.0, "until_ns": 640.0,
        "before_share": 0.8, "end_to_end_share": 0.4125, "behind_share": 0.9, "driver_share": 0.95,
        "driver_dips": true, "p": 0.0002, "counters": "socket overflow: 812 a cycle, 0 beside it"});
    let text = example(&[dip]);
    for expected in [
        "dips of the end-to-end curve",
        "41.25%",
        "80.00%",
        "1,500 bytes, 520 ns to 640 ns",
        "socket overflow: 812 a cycle, 0 beside it; the driver takes less there, too",
        "exact rank sum tests",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn that_there_is_no_dip_is_said_where_one_was_looked_for() {
    assert!(example(&[]).contains("none (optimal partitioning"));
}

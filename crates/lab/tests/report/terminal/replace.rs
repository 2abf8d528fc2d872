//! What `warikomi replace` prints.

use serde_json::{Map, Value, json};
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

type Row = Map<String, Value>;

fn row(value: Value) -> Row {
    value.as_object().unwrap().clone()
}

fn spread(max: f64) -> Value {
    json!({"min": max / 4.0, "mean": max / 2.0, "p50": max / 2.0, "p99": max, "max": max})
}

fn example() -> RunResult {
    let mut result = RunResult::new("replace", TimeBase::Real, Machine::default());
    result.rows = Some(vec![
        row(json!({"way": "shared-state", "load": "busy", "kind": "planned", "spare": "none",
            "replacements": 5, "replace_us": spread(4_000.0), "create_us": spread(3_900.0),
            "swap_us": spread(20.0)})),
        row(json!({"way": "shared-state", "load": "busy", "kind": "planned", "spare": "kept",
            "replacements": 5, "replace_us": spread(2_000.0), "swap_us": spread(20.0),
            "outage_us": spread(16.0), "send_us": spread(12.0),
            "send_with_us": spread(14.0), "longest_send_gap_us": 1_040.0, "lost": 0})),
        row(json!({"way": "shared-state", "load": "heavy", "kind": "kill", "replacements": 1_000,
            "swap_us": spread(80.0), "outage_us": spread(90.0), "free_descriptors": 900,
            "interval_ns": 5_000.0, "bridged_us": 4_500.0, "longest_receive_gap_us": 95.0,
            "received": 400_000, "sent": 800_000, "lost": 0, "no_descriptor": 3})),
        row(json!({"way": "kernel-module", "load": "idle", "kind": "planned",
            "not_available": "there is no kernel"})),
    ]);
    result.figures.insert(
        "edges".into(),
        json!([{"way": "shared-state", "interval_ns": 5_000.0, "longest_receive_gap_us": 42.0,
            "predicted_descriptors": 9, "most_with_loss": 8, "least_without_loss": 9,
            "tried": [{"buffers": 8, "free_descriptors": 8, "bridged_us": 40.0, "no_descriptor": 2}]}]),
    );
    result.figures.insert(
        "growth".into(),
        json!([{"row": "shared-state, heavy, planned", "usage": [
            {"replacements": 20, "support_descriptors": 31},
            {"replacements": 10_000, "support_descriptors": 31}]}]),
    );
    result
}

#[test]
fn the_page_has_times_frames_the_arithmetic_and_what_was_published() {
    for width in [80, 120] {
        let page = shown(&example(), Style { width, ..Style::default() });
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "1,000",
            "900 free descriptors x 5 µs between frames bridge 4.5 ms, more than the longest gap on receive, 95 µs",
            "predicted: 9 descriptors for a gap of 42 µs",
            "after 10,000",
            "kernel-module, idle, planned is not available: there is no kernel",
            "MINIX 3",
            "MINIX 3 (data-store): replace, busy, max 336 µs",
            "AnT (shared-state): replace, busy, max 10.33 ms 4 ms 2 ms",
            "AnT (shared-state): replace, busy, mean 10.14 ms 2 ms 1 ms",
        ] {
            assert!(words.contains(expected), "{expected} is not in:\n{page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= usize::from(width)), "{page}");
    }
}

#[test]
fn a_gap_that_is_not_bridged_is_said() {
    let mut result = example();
    for row in result.rows.iter_mut().flatten() {
        row.insert("bridged_us".into(), json!(50.0));
    }
    let page = shown(&result, Style::default());
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("not more than the longest gap"), "{page}");
}

#[test]
fn an_empty_result_is_no_trouble() {
    let result = RunResult::new("replace", TimeBase::Real, Machine::default());
    assert!(shown(&result, Style::default()).contains("AnT"));
}

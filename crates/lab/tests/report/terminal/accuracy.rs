//! What `warikomi accuracy` prints.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

fn example() -> RunResult {
    let mut result = RunResult::new("accuracy", TimeBase::Real, Machine::default());
    let row = json!({"place": "injected", "count": 999, "exact_share": 0.991,
        "within_1_share": 0.996, "within_6_25_share": 1.0, "worst_error_ns": 2_000.0,
        "worst_error_share": 0.0526, "drift_ns": -3.0, "quiet_count": 990,
        "quiet_exact_share": 1.0, "quiet_worst_error_ns": 70.0});
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    let figures = json!({"requested_ns": 38_000.0, "resolution_ns": 64.0,
        "smallest_interval_ns": 912.0, "smallest_kept_limit_share": 0.99,
        "published_requested_ns": 38_000.0, "published_exact_share": 0.996,
        "published_worst_error_share": 0.0625, "published_smallest_interval_ns": 200.0});
    result.figures = figures.as_object().unwrap().clone();
    result
}

#[test]
fn measured_and_published_stand_side_by_side() {
    let mut result = example();
    let bin = |error: &str, injected: u64| json!({"error": error, "injected": injected});
    let errors = [
        bin("more than 38 µs short", 1),
        bin("exact", 2),
        bin("up to 380 ns long", 1),
        bin("up to 9.5 µs long", 1),
    ];
    result.figures.insert("errors".to_owned(), json!(errors));
    let text = shown(&result, Style::default());
    for expected in [
        "99.10%",
        "99.60%",
        "5.26%",
        "6.25%",
        "912 ns",
        "200 ns",
        "-3 ns",
        "quiet",
        "(9)",
        "off by at most 64 ns",
        "exact",
        "up to 380 ns long",
        "more than 38 µs short",
        "up to 9.5 µs long",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn interrupts_without_packets_are_shown_where_there_are_any() {
    let mut result = example();
    let said = |result: &RunResult| shown(result, Style::default());
    assert!(!said(&result).contains("alone"));
    result.figures.insert("alone_200_sent".into(), 100_000.into());
    result.figures.insert("alone_200_handled".into(), 99_998.into());
    result.figures.insert("alone_200_lag_p50_ns".into(), 170.0.into());
    let text = said(&result);
    for expected in ["Interrupts alone", "100,000", "99,998", "170 ns"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn fitted_intervals_say_so_and_stand_beside_what_they_are_fitted_to_alone() {
    let mut result = example();
    for of_a_system in
        ["published_requested_ns", "published_exact_share", "published_worst_error_share"]
    {
        result.figures.remove(of_a_system);
    }
    let fitted = json!({"fitted": ["arrival: fitted-real-nic"], "published_jitter_ns": 2_000.0,
        "published_worst_error_ns": 4e9, "interval_error_p99_ns": 83.0});
    result.figures.extend(fitted.as_object().unwrap().clone());
    let text = shown(&result, Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // Sentences are broken where a line ends.
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["Fitted interval", "worst error, fitted", "4 s", "off by 2 µs", "83 ns"] {
        assert!(said.contains(expected), "{expected} is not in:\n{text}");
    }
    assert!(!said.contains("exact 99.10%"), "of exact intervals:\n{text}");
}

#[test]
fn a_result_without_figures_does_not_panic() {
    let empty = RunResult::new("accuracy", TimeBase::Real, Machine::default());
    assert!(shown(&empty, Style::default()).contains("Beside published"));
}

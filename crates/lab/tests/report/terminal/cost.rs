//! What `warikomi cost` prints.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

#[test]
fn measured_and_published_stand_side_by_side_and_what_is_not_known_is_empty() {
    let mut result = RunResult::new("cost", TimeBase::Real, Machine::default());
    let row = json!({"size_bytes": 1_500, "send_ns": 250.0, "send_p50_ns": 241.0,
        "send_p99_ns": 1_300.0, "published_send_ns": 205.0, "receive_ns": 640.0,
        "copy_ns": 300.0, "rest_ns": 340.0, "published_copy_ns": 272.0,
        "send_signalled_ns": 2_250.0, "telling_ns": 2_000.0, "interrupts_per_send": 1.0,
        "path_copy_ns": 310.0, "path_protocol_ns": 1_110.0, "published_protocol_ns": 1_230.0});
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    let figures = json!({"receive_fixed_ns": 340.0, "receive_ns_per_byte": 0.2,
        "receive_r_squared": 0.9987});
    result.figures = figures.as_object().unwrap().clone();
    let text = shown(&result, Style::default());
    for expected in [
        "1,500",
        "250 ns",
        "241 ns",
        "1.3 µs",
        "205 ns",
        "640 ns",
        "272 ns",
        "Send and tell",
        "2.25 µs",
        "1.11 µs",
        "1.23 µs",
        "340 ns and 0.2000 ns a byte (R² 0.9987)",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    assert_eq!(text.matches("line:").count(), 1, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

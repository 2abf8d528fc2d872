//! What `warikomi receive` prints.

use serde_json::{Value, json};
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

#[test]
fn each_way_is_a_line_beside_the_published_and_what_cannot_be_had_says_why() {
    let mut result = RunResult::new("receive", TimeBase::Real, Machine::default());
    let row = |value: Value| value.as_object().unwrap().clone();
    let why = "the kernel does not know it: Operation not supported (os error 95)";
    result.plan = row(json!({"line_rate_bps": 800_000_000, "loads": [0.25],
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
    let text = shown(&result, Style::default());
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

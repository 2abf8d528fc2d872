//! What `warikomi transmit --target kernel` prints.

use serde_json::{Value, json};
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

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
        let text = shown(&result, Style { width, ..Style::default() });
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "pktgen, napi",
            "tcp, coalesce:100us/32",
            "64 32 250 488,281 2.048 µs 0.0312 0.0040 1.00 1.00",
            "65,507 TSO 18.50",
            why,
        ] {
            assert!(words.contains(expected), "{expected} is not in:\n{text}");
        }
        assert_eq!(text.matches("is not available").count(), 1, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
    }
}

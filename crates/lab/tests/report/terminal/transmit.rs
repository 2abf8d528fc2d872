//! What `warikomi transmit` prints.

use serde_json::{Map, Value, json};
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

fn row(size_bytes: u64, way: [&str; 3], bps: Option<f64>) -> Map<String, Value> {
    let [buffers, completion, bounce] = way;
    let value = json!({
        "size_bytes": size_bytes, "buffers": buffers, "completion": completion, "bounce": bounce,
        "bps": bps, "pps": bps.map(|bps| bps / 8.0 / size_bytes as f64), "dead_locked": bps.is_none(),
        "cpu_share": 0.75, "interrupts_per_packet": 0.25, "transfers_per_packet": 2.0,
        "copied_bytes_per_packet": 106.0, "socket_drop_share": 0.0, "wait_p50_us": 12.5,
        "wait_p99_us": 1_250.0,
    });
    value.as_object().unwrap().clone()
}

fn result() -> RunResult {
    let mut result = RunResult::new("transmit", TimeBase::Real, Machine::default());
    let plain = ["mbuf-2k", "interrupt", "none"];
    let free = ["mbuf-2k", "interrupt-free", "none"];
    let adaptive = ["mbuf-2k", "adaptive", "none"];
    let mut published = row(65_507, adaptive, Some(1.85e9));
    published.insert("published_bps".to_owned(), json!(1.9e9));
    result.rows = Some(vec![
        row(64, plain, Some(100e6)),
        row(64, free, Some(168e6)),
        row(64, adaptive, Some(169e6)),
        row(4_096, adaptive, Some(1.5e9)),
        row(4_096, ["mbuf-2k", "adaptive", "auto"], Some(1.65e9)),
        row(65_507, plain, Some(1.8e9)),
        row(65_507, free, None),
        published,
    ]);
    let at = json!({"share": 0.013, "size_bytes": 65_507});
    let ahead = json!({"share": 0.69, "size_bytes": 64});
    result.figures.insert(
        "advice".to_owned(),
        json!([{"buffers": "mbuf-2k", "completion": "adaptive", "bounce": "none",
            "behind_mean_share": 0.002, "behind_most": at, "ahead_mean_share": 0.21,
            "ahead_most": ahead, "cpu_share": 0.625, "fastest_buffers": true}]),
    );
    result.figures.insert(
        "shares".to_owned(),
        json!([{"size_bytes": 65_507, "buffers": "mbuf-2k", "dma_gain_share": 0.155, "chain_share": 0.021}]),
    );
    result
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn sizes_are_lines_and_ways_columns_with_what_the_advised_one_took_and_why() {
    let text = shown(&result(), Style::default());
    for expected in [
        "64 100 168 169",
        "65,507 1,800 dead-lock 1,850",
        "mbuf-2k, adaptive",
        "64 330,078 75.00% 0.25 2.00 106 0% 12.5 µs 1.25 ms",
        "short packets, mbuf-2k +70.0% +69.0%",
        "one transfer ahead of scattered DMA, 64 KB, mbuf-2k +17.0% +15.5%",
        "bounce buffer, 4 KB, mbuf-2k +10.0% +10.0%",
        "throughput, 64 KB, mbuf-2k 1.9 Gbit/s 1.85 Gbit/s",
        "bytes buffers one transfer gains chains cost",
        "65,507 mbuf-2k +15.5% +2.1%",
        "advice: with mbuf-2k use completion adaptive, bounce none: 0.20% behind",
        "1.30% where it is most (65,507 bytes)",
        "+69.0% at most (64 bytes)",
        "no gain, or a loss",
    ] {
        assert!(words(&text).contains(expected), "{expected} is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn real_and_virtual_time_stand_side_by_side_only_where_there_are_both() {
    let mut result = result();
    assert!(!shown(&result, Style::default()).contains("virtual"));
    let row = &mut result.rows.as_mut().unwrap()[0];
    row.insert("virtual_bps".to_owned(), json!(95e6));
    row.insert("virtual_difference_share".to_owned(), json!(-0.05));
    result.figures.insert("virtual_difference_median_share".to_owned(), json!(0.05));
    let text = words(&shown(&result, Style::default()));
    assert!(text.contains("64 mbuf-2k interrupt 100 95.00 -5.0%"), "{text}");
    assert!(text.contains("half of the rows differ by no more than 5.00%"), "{text}");
}

#[test]
fn rows_of_anything_do_no_harm() {
    let mut result = result();
    for row in result.rows.iter_mut().flatten() {
        for name in ["bps", "size_bytes", "mixture"] {
            row.insert(name.to_owned(), json!("?"));
        }
    }
    result.figures.insert("advice".to_owned(), json!([1, {"behind_most": []}]));
    result.figures.insert("shares".to_owned(), json!({"a": 1}));
    assert!(shown(&result, Style::default()).contains("published"));
}

//! What `warikomi bench` prints, and any result whose rows are columns.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::{Style, page};

fn shown(result: &RunResult, style: Style) -> String {
    let mut result = result.clone();
    warikomi_bench::describe(&mut result);
    page(&result, style)
}

#[test]
fn every_figure_has_its_unit() {
    let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
    let row = json!({"size_bytes": 1500, "inject_ns": 250.0, "ratio": 1.25,
                     "saturated_bps": 16.5e9, "lost_share": 0.5});
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    let text = shown(&result, Style::default());
    for expected in ["1,500", "250 ns", "1.25", "16.5 Gbit/s", "50.00%", "saturated"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn what_adapting_costs_a_sender_has_a_table_of_its_own() {
    let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
    let rows = json!([{"size_bytes": 64, "model": "oc48", "adaptive_over_interrupt_free": 1.03,
        "adaptive_ns": 412.5}]);
    result.figures.insert("sending".into(), rows);
    let text = shown(&result, Style::default());
    for expected in ["what a sender does", "oc48", "1.03", "412.5 ns"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn memory_stands_beside_what_was_published_of_it() {
    let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
    let row = |stream: &str, cores: u64, gigabytes: f64| {
        json!({"stream": stream, "cores": cores, "gigabytes_per_s": gigabytes,
            "moved_bps": gigabytes * 8e9, "published_bps": 130e9})
    };
    let rows = [row("copy", 1, 10.5), row("copy", 2, 20.0), row("read", 1, 12.25)];
    result.figures.insert("memory".into(), json!(rows));
    result.figures.insert("memory_buffer_bytes".into(), json!(128 << 20));
    let text = shown(&result, Style::default());
    for expected in
        ["copy", "10.50", "84 Gbit/s", "160 Gbit/s", "130 Gbit/s", "98 Gbit/s", "128 MB"]
    {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    warikomi_bench::describe(&mut result);
    let [ceiling] = &result.layout.headline[..] else { panic!("{:?}", result.layout.headline) };
    assert_eq!((ceiling.value, ceiling.published), (160e9, Some(130e9)));
    assert_eq!(ceiling.of, "2 cores at a time");
}

#[test]
fn a_comparison_stands_alone_or_below_the_rows() {
    let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
    let figures = json!({
        "comparison": [{"size_bytes": 64, "ring_bps": 5.5e9, "ring_over_memif": 2.5},
                       {"size_bytes": 1500, "ring_bps": 121e9}],
        "comparison_ways": {"ring": "copies twice"},
        "comparison_stolen_share": 0.01,
    });
    result.figures = figures.as_object().unwrap().clone();
    let alone = shown(&result, Style::default());
    for expected in ["1,500", "121 Gbit/s", "2.50", "ring: copies twice", "1.00%"] {
        assert!(alone.contains(expected), "{expected} is not in:\n{alone}");
    }
    assert!(!alone.contains("bench:"), "{alone}");
    result.rows = Some(vec![]);
    assert!(shown(&result, Style::default()).ends_with(&alone));
}

//! Runs with numbers that are none, or make no sense: a report is made, or an error names the line.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use warikomi_measure::RunDirectory;
use warikomi_report::html::{Section, page};
use warikomi_report::plot::charts;
use warikomi_report::read::{ReadError, Run};

use crate::fixtures;

fn made(path: &Path) -> Result<String, ReadError> {
    let run = Run::load(path)?;
    let charts = charts(&run, &mut |_| true)?;
    Ok(page(&[Section { run, charts }]))
}

/// A field of a table that expects a number.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<f64>().prop_map(|number| number.to_string()),
        2 => (-1e6..1e6f64).prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["", "NaN", "inf", "-inf", "0", "-0", "1e308", "5e-324"])
            .prop_map(str::to_owned),
    ]
}

const EXPERIMENTS: [&str; 14] = [
    "accuracy",
    "bench",
    "cost",
    "explore",
    "histories",
    "inject",
    "receive",
    "replace",
    "round-trip",
    "selftest",
    "soak",
    "sweep",
    "transmit",
    "unknown",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_numbers_make_a_report(
        rows in prop::collection::vec([number(), number(), number()], 0..12),
        experiment in prop::sample::select(EXPERIMENTS.to_vec()),
        size in any::<u64>(), figures in prop::collection::vec(any::<f64>(), 8),
    ) {
        let runs = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(runs.path(), 0, "any").unwrap();
        let table = |header: &str, line: &dyn Fn(&[String; 3]) -> String| {
            let lines: String = rows.iter().map(|row| line(row) + "\n").collect();
            format!("{header}\n{lines}")
        };
        for (name, text) in [
            ("cycles", table("size_bytes,interval_ns,driver_share,end_to_end_share", &|[a, b, c]| format!("{size},{a},{b},{c}"))),
            ("samples", table("fate,injected_ns,accepted_ns,delivered_ns", &|[a, b, c]| format!("delivered,{a},{b},{c}"))),
            ("intervals", table("place,at_ns,interval_ns,error_ns,in_hiccup", &|[a, b, c]| format!("raised,{a},{b},{c},1"))),
            ("smallest", table("interval_ns,kept_share", &|[a, b, _]| format!("{a},{b}"))),
            ("calls", table("size_bytes,send_ns", &|[a, _, _]| format!("{size},{a}"))),
        ] {
            fs::write(run.path().join(name).with_extension("csv"), text).unwrap();
        }
        let mut result = fixtures::result(experiment);
        let f = &figures;
        let row = json!({
            "size_bytes": f[0], "send_ns": f[1], "loss_free_bps": f[2], "saturated_bps": f[3],
            "copy_ns": f[4], "path_protocol_ns": f[5], "within_1_share": f[6], "line_rate_bps": null,
            "strategy": "any", "poll_us": f[7].abs() as u64, "buffer_bytes": f[0],
            "burst_bytes": f[1], "lost_share": f[2], "cpu_share": f[3],
            "delay_us": {"p99": f[4], "p50": "none"},
        });
        let sent = json!({
            "size_bytes": size, "buffers": "mbuf-2k", "completion": "adaptive", "bounce": "none",
            "bps": f[1], "pps": f[2], "published_bps": f[3], "virtual_bps": f[4], "cpu_share": f[5],
        });
        let plain = json!({
            "size_bytes": size, "buffers": "mbuf-2k", "completion": "interrupt", "bounce": "none",
            "bps": f[6],
        });
        result.rows = Some([row, sent, plain].map(|row| row.as_object().unwrap().clone()).into());
        result.figures = json!({
            "shares": [{"size_bytes": size, "buffers": "x", "dma_gain_share": f[4], "chain_share": f[5]}],
            "send_fixed_ns": f[7], "send_ns_per_byte": f[0], "requested_ns": f[1],
            "resolution_ns": f[2], "smallest_interval_ns": f[3],
            "lines": [{"file": "a.c", "line": size, "class": "bad", "value": f[4], "bad": f[5]},
                {"file": f[6], "line": f[7], "class": size, "text": size, "bad": "none"}],
        }).as_object().unwrap().clone();
        fixtures::keep(&run, result);
        prop_assert!(made(run.path()).unwrap().contains("An invented processor"));
    }
}

#[test]
fn empty_tables_and_empty_results_make_a_report() {
    let runs = tempfile::tempdir().unwrap();
    for experiment in EXPERIMENTS {
        let run = RunDirectory::create(runs.path(), 0, "empty").unwrap();
        for name in ["cycles", "samples", "intervals", "smallest", "calls", "repeats", "timeline"] {
            fs::write(run.path().join(name).with_extension("csv"), "").unwrap();
        }
        fixtures::keep(&run, fixtures::result(experiment));
        assert!(!made(run.path()).unwrap().contains("<figure"), "{experiment}");
    }
}

#[test]
fn a_damaged_line_is_named_with_its_file() {
    let runs = tempfile::tempdir().unwrap();
    for (experiment, table, broken) in [
        (
            "sweep",
            "cycles",
            "size_bytes,interval_ns,driver_share,end_to_end_share\n1500,1,1,1\n1500,x,1,1\n",
        ),
        (
            "inject",
            "samples",
            "fate,injected_ns,accepted_ns,delivered_ns\ndelivered,1,1,1\nvanished,1,1,1\n",
        ),
        (
            "accuracy",
            "intervals",
            "place,at_ns,interval_ns,error_ns,in_hiccup\nraised,1,1,1,1\nraised,1,1,1,maybe\n",
        ),
        ("accuracy", "smallest", "interval_ns,kept_share\n1,1\n1,1,1\n"),
        ("cost", "calls", "size_bytes,send_ns\n1500,1\n1500,\u{fe}x\n"),
    ] {
        let run = RunDirectory::create(runs.path(), 0, table).unwrap();
        fs::write(run.path().join(table).with_extension("csv"), broken).unwrap();
        fixtures::keep(&run, fixtures::result(experiment));
        let message = made(run.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("{table}.csv, line 3")), "{message}");
    }
}

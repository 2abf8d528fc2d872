//! `warikomi receive` as a user meets it: rows follow from the bursts beside them, and what cannot be is
//! refused before a kernel is started.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn lines(directory: &Path, header: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(directory.join("bursts.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(header));
    lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn rows_follow_from_the_bursts_beside_them_and_a_report_draws_them() {
    let runs = tempfile::tempdir().unwrap();
    let kept = runs.path().to_str().unwrap();
    let asked = [
        "receive",
        "--strategies",
        "interrupt,busy-poll,irq-suspend",
        "--polls",
        "120",
        "--buffers",
        "1MB",
        "--bursts",
        "3KB,20KB",
        "--duration",
        "200ms",
        "--load",
        "0.1",
        "--calibration",
        "60ms",
        "--json",
        "--runs",
        kept,
    ];
    let output = run(&asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["experiment"], "receive");
    assert_eq!(result["plan"]["loads"], serde_json::json!([0.1]));
    let directory = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let header = "row,strategy,poll_us,buffer_bytes,burst_bytes,at_ns,delay_ns,lost";
    let bursts = lines(&directory, header);
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for (number, row) in rows.iter().enumerate() {
        if row.get("not_available").is_some() {
            assert_eq!(row["strategy"], "irq-suspend");
            continue;
        }
        let of_row: Vec<_> = bursts.iter().filter(|line| line[0] == number.to_string()).collect();
        let delays = of_row.iter().filter_map(|line| line[6].parse::<f64>().ok());
        let longest = delays.fold(0.0, f64::max) / 1e3;
        let max = row["delay_us"]["max"].as_f64().unwrap();
        assert!((longest - max).abs() < 1e-3 * max, "{longest} {row}");
        let lost: u64 = of_row.iter().map(|line| line[7].parse::<u64>().unwrap()).sum();
        assert_eq!(row["lost"], lost);
        let frames = if row["burst_bytes"] == 3_000 { 2 } else { 14 };
        assert_eq!(row["planned"], frames * of_row.len() as u64);
    }
    let page = runs.path().join("report.html");
    let output = run(&["report", directory.to_str().unwrap(), "--output", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("CPU share by burst size, T = 120 µs"));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (arguments, said) in [
        (&["--strategies", "poll"][..], "choose of: interrupt, napi-defer"),
        (&["--load", "1.5"], "at most 1"),
        (&["--bursts", "0"], "such as 50000"),
        (&["--buffers", "7GB"], "MB of 1,000,000"),
        (&["--calibration", "1ms"], "--calibration"),
        (&["--line-rate", "5"], "is too long: choose 0"),
        (&["--target", "vm"], "--target vm is for inject"),
        (&["--quota", "50%"], "--target process"),
        (&["--target", "process", "--virtual", "--quota", "50%"], "give --stall"),
        (&["--target", "process", "--quota", "50"], "50"),
        (&["--own-compute"], "--application"),
    ] {
        let output = run(&[&["receive"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn a_quota_keeps_what_receives_from_running_or_it_is_said_why_there_is_none() {
    let runs = tempfile::tempdir().unwrap();
    let target = ["receive", "--target", "process", "--strategies", "poll", "--buffers", "1MB"];
    let more = ["--no-compute", "--quota", "20%", "--duration", "500ms", "--json", "--runs"];
    let output = run(&[&target[..], &more[..], &[runs.path().to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(said.contains("--quota needs a control group (cgroup)"), "{said}");
        return;
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &result["rows"][0];
    // It polls all the time, and so wants all of each period: either the quota keeps it from running, or something else
    // on a machine that is busy. The run may end in the middle of a period.
    let (stalled, had) = (row["stalled_ms"].as_f64().unwrap(), row["cpu_share"].as_f64().unwrap());
    assert!(stalled > 0.0 || had < 0.2, "{row}");
    assert!(had < 0.3, "{row}");
    assert_eq!(row["stalled_by"], "a quota of 20%");
}

//! `record`, `replay` and `export` as a user meets them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn warikomi(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must fail, and returns its message.
fn refused(arguments: &[&str]) -> String {
    let output = warikomi(arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("panicked at"), "{message}");
    message
}

/// Runs what must succeed, and returns what it printed.
fn done(arguments: &[&str]) -> String {
    let output = warikomi(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The one directory of a run of `experiment`.
fn run_of(runs: &Path, experiment: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(runs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| text(path).contains(experiment))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_file_that_cannot_be_replayed_is_refused_with_its_first_bad_byte() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    for (bytes, expected) in [
        (&b"GIF89a"[..], "byte 0"),
        (b"\x89WKT\n\n", "byte 4"),
        (b"\x89WKT\r\n\x1a\n\x01\0", "byte 10"),
        (b"\x89WKT\r\n\x1a\n\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "damaged from byte 8"),
        (b"\xd4\xc3\xb2\xa1\x02\0", "byte 6"),
        (b"", "byte 0"),
    ] {
        fs::write(&file, bytes).unwrap();
        let message = refused(&["replay", text(&file)]);
        assert!(message.contains(expected) && message.contains(text(&file)), "{message}");
    }
    assert!(refused(&["replay", "/nonexistent"]).contains("/nonexistent"));
    assert!(refused(&["export", "/nonexistent", "--to", "pcapng"]).contains("/nonexistent"));
    assert!(refused(&["export", text(&file)]).contains("--to"));
}

#[test]
fn a_capture_without_frames_or_with_an_odd_speed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.pcap");
    let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 0xffff, 1].map(u32::to_le_bytes).concat();
    fs::write(&file, header).unwrap();
    assert!(refused(&["replay", text(&file)]).contains("nothing to replay"));
    assert!(refused(&["replay", text(&file), "--speed", "0"]).contains("0.001 to 1000"));
}

#[test]
fn a_run_is_recorded_replayed_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path();
    let common = ["--runs", text(runs), "--json"];
    let record = ["record", "--count", "300", "--interval", "50us", "--export", "pcapng"];
    let printed = done(&[&record[..], &common[..]].concat());
    let result: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&result["experiment"], &result["ledger"]["unaccounted"]),
        (&"record".into(), &0.into())
    );
    let events = result["figures"]["trace_events"].as_u64().unwrap();
    assert!(events >= 300 && result["figures"]["trace_bytes_per_event"].as_f64().unwrap() < 24.0);
    let recorded = run_of(runs, "record");
    assert!(recorded.join("trace.pcapng").exists() && recorded.join("plan.toml").exists());

    let trace = recorded.join("trace.wkt");
    let printed = done(&[&["replay", text(&trace)], &common[..]].concat());
    let result: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(result["figures"]["arrivals_replayed"], 300);
    assert_eq!(result["figures"]["arrivals_different"], 0);
    assert_eq!(result["plan"]["arrival"], "trace");
    assert_eq!(result["ledger"]["unaccounted"], 0);
    assert!(run_of(runs, "replay").join("trace.wkt").exists());

    done(&["export", text(&trace), "--to", "perfetto"]);
    let timeline = fs::read(recorded.join("trace.json")).unwrap();
    let timeline: Value = serde_json::from_slice(&timeline).unwrap();
    assert!(timeline["traceEvents"].as_array().unwrap().len() > 300);

    // The frames again, as real traffic.
    let capture = recorded.join("trace.pcapng");
    let printed = done(&["replay", text(&capture), "--runs", text(&runs.join("more"))]);
    assert!(printed.contains("300 packets of 1,500 bytes"), "{printed}");
    assert!(refused(&["replay", text(&capture), "--expect-same"]).contains("needs a trace"));
}

#[test]
fn what_was_recorded_for_an_application_is_replayed_to_a_driver_that_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path();
    let process = ["--target", "process", "--driver", "rtl8168", "--runs", text(runs)];
    let plan = ["--count", "100", "--interval", "50us"];
    done(&[&["record"][..], &process, &plan].concat());
    let trace = run_of(runs, "record").join("trace.wkt");
    let alone = ["replay", text(&trace), "--path", "driver", "--json"];
    let printed = done(&[&alone[..], &process].concat());
    let result: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&result["plan"]["receiver"], &result["target"]["kind"]),
        (&"driver".into(), &"process".into())
    );
    assert_eq!(
        (&result["ledger"]["injected"], &result["ledger"]["unaccounted"]),
        (&100.into(), &0.into())
    );
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("meant for an application, and this target has none"), "{warnings}");
}

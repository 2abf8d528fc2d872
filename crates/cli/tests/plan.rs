//! `warikomi run`: each experiment can be repeated from the plan.toml that it left.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must succeed; returns its result and the directory that it kept.
fn measured(arguments: &[&str]) -> (Value, tempfile::TempDir) {
    let runs = tempfile::tempdir().unwrap();
    let kept = ["--json", "--runs", runs.path().to_str().unwrap()];
    let output = run(&[arguments, &kept].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    (serde_json::from_slice(&output.stdout).unwrap(), runs)
}

fn kept(runs: &Path, name: &str) -> PathBuf {
    std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path().join(name)
}

/// Runs an experiment, then its plan; returns both results.
fn repeated(arguments: &[&str]) -> [Value; 2] {
    let (first, runs) = measured(arguments);
    let plan = kept(runs.path(), "plan.toml");
    let (again, second) = measured(&["run", plan.to_str().unwrap()]);
    assert!(!first["plan"].as_object().unwrap().is_empty(), "{arguments:?}");
    for name in ["experiment", "plan", "time_base"] {
        assert_eq!(again[name], first[name], "{arguments:?}");
    }
    for name in ["kind", "driver", "model", "kernel", "settings"] {
        assert_eq!(again["target"][name], first["target"][name], "{arguments:?}");
    }
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&kept(second.path(), "plan.toml")), text(&plan), "{arguments:?}");
    [first, again]
}

#[test]
fn every_experiment_is_repeated_by_its_plan() {
    let process = ["--target", "process", "--path", "driver"];
    for arguments in [
        &["inject", "--count", "300", "--strategy", "poll"][..],
        &["sweep", "--sizes", "600", "--count", "200", "--repeat", "1"],
        &["accuracy", "--interval", "100us", "--count", "200", "--no-smallest"],
        &["cost", "--sizes", "1500", "--repeat", "1", "--no-sampling"],
        &[
            "receive",
            "--polls",
            "100",
            "--bursts",
            "20KB",
            "--buffers",
            "7MB",
            "--duration",
            "60ms",
        ],
        &["record", "--count", "200"],
    ] {
        repeated(&[arguments, &process].concat());
    }
    repeated(&["round-trip", "--strategies", "poll", "--count", "200", "--warmup", "10"]);
    let sizes = ["--sizes", "64", "--systems", "mbuf-2k", "--bounces", "none", "--count", "300"];
    repeated(&[&["transmit", "--repeat", "1"], &sizes[..]].concat());
    let trials = ["--load", "idle", "--trials", "1", "--trial", "50ms"];
    repeated(&[&["replace", "--way", "shared-state"], &trials[..]].concat());
}

#[test]
fn in_virtual_time_a_plan_repeats_the_very_figures() {
    let traffic = ["--polls", "100", "--bursts", "20KB", "--buffers", "7MB", "--duration", "20ms"];
    let receive = ["receive", "--target", "process", "--virtual", "--poisson"];
    let [first, again] = repeated(&[&receive, &traffic[..]].concat());
    assert_eq!(first["rows"], again["rows"]);
    let sent = ["--sizes", "64", "--systems", "mbuf-2k", "--bounces", "none", "--count", "300"];
    let [first, again] = repeated(&[&["transmit", "--virtual"], &sent[..]].concat());
    assert_eq!(first["rows"], again["rows"]);
    let sent = ["--cards", "ge10", "--senders", "tcp", "--sizes", "65507", "--count", "300"];
    let [first, again] = repeated(&[&["transmit", "--virtual"], &sent[..]].concat());
    assert_eq!(first["rows"], again["rows"]);
    let mixed = ["--mixed", "--phase", "64", "--phase", "4096/compute=20us", "--duration", "1ms"];
    let systems = ["--systems", "mbuf-2k", "--bounces", "none,all"];
    let [first, again] = repeated(&[&["transmit", "--virtual"], &mixed[..], &systems].concat());
    assert_eq!((&first["rows"], &first["figures"]), (&again["rows"], &again["figures"]));
    let waits = ["--strategies", "interrupt,hybrid", "--delay", "20us", "--count", "200"];
    let [first, again] = repeated(&[&["round-trip", "--virtual"], &waits[..]].concat());
    assert_eq!(first["rows"], again["rows"]);
    let [first, again] = repeated(&["histories", "--count", "150", "--faults"]);
    assert_eq!(first["rows"], again["rows"]);
}

#[test]
fn a_recording_is_replayed_again_from_anywhere() {
    let process = ["--target", "process", "--path", "driver"];
    let (_, runs) = measured(&[&["record", "--count", "200"], &process[..]].concat());
    let trace = kept(runs.path(), "trace.wkt");
    let (first, replays) = measured(&[&["replay", trace.to_str().unwrap()], &process[..]].concat());
    let plan = kept(replays.path(), "plan.toml");
    let (again, _) = measured(&["run", plan.to_str().unwrap()]);
    assert_eq!(again["ledger"]["planned"], first["ledger"]["planned"]);
    assert_eq!(again["experiment"], first["experiment"]);
}

#[test]
fn flags_behind_a_plan_take_the_place_of_its_own() {
    let process = ["--target", "process", "--path", "driver"];
    let (_, runs) = measured(&[&["inject", "--count", "300"], &process[..]].concat());
    let plan = kept(runs.path(), "plan.toml");
    let (again, _) = measured(&["run", plan.to_str().unwrap(), "--count", "100"]);
    assert_eq!(
        (&again["plan"]["count"], &again["plan"]["size_bytes"]),
        (&100.into(), &1500.into())
    );
}

#[test]
fn a_plan_by_hand_is_run_and_a_wrong_one_says_what_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.toml");
    let wrote = |text: &str| std::fs::write(&path, text).unwrap();
    wrote(
        "experiment = \"inject\"\n[flags]\ntarget = \"process\"\npath = \"driver\"\ncount = 200\n\
         interval = \"50us\"\nfault = [\"interrupt-spurious:at=2ms\"]\n",
    );
    let (result, _) = measured(&["run", path.to_str().unwrap()]);
    assert_eq!(
        (&result["plan"]["count"], &result["ledger"]["injected"]),
        (&200.into(), &200.into())
    );
    let refused = |plan: &Path| {
        let output = run(&["run", plan.to_str().unwrap()]);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(Path::new("/nonexistent/p.toml")).contains("cannot read the plan"));
    wrote("experiment = \"inject\"\n[flags]\ncount = 0\n");
    assert!(refused(&path).contains("choose 1 to"));
    wrote("experiment = \"inject\"\n[flags]\ncuont = 1\n");
    let message = refused(&path);
    assert!(message.contains("mine.toml") && message.contains("no flag 'cuont'"), "{message}");
}

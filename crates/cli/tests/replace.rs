//! `warikomi replace` as a user meets it: a result with rows and tables, a plan that runs again, a report, and
//! refusals that say what can be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must succeed; returns its result and the directory that it kept.
fn measured(arguments: &[&str], runs: &Path) -> (Value, PathBuf) {
    let kept = ["--json", "--runs", runs.to_str().unwrap()];
    let output = run(&[arguments, &kept].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = serde_json::from_slice(&output.stdout).unwrap();
    let directory = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    (result, directory)
}

#[test]
fn a_run_is_kept_drawn_and_carried_out_again_from_its_plan() {
    let (first, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let idle =
        ["replace", "--way", "shared-state", "--load", "idle", "--trials", "2", "--trial", "50ms"];
    let (result, directory) = measured(&idle, first.path());
    let row = &result["rows"][0];
    assert_eq!((&row["way"], &row["replacements"]), (&"shared-state".into(), &2.into()));
    assert!(row["swap_us"]["max"].as_f64().unwrap() > 0.0, "{row}");
    let plan = directory.join("plan.toml");
    let (repeated, _) = measured(&["run", plan.to_str().unwrap()], again.path());
    assert_eq!(repeated["plan"], result["plan"]);
    assert_eq!(repeated["rows"][0]["replacements"], 2);
    assert!(run(&["report", directory.to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("step by step") && page.contains("MINIX 3"));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let refused = |arguments: &[&str]| {
        let output = run(&[&["replace"], arguments].concat());
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--way", "magic"]).contains("shared-state"));
    assert!(refused(&["--path", "driver"]).contains("leave --path out"));
    assert!(refused(&["--target", "kernel", "--kill"]).contains("--target process only"));
    assert!(refused(&["--to", "no-such-driver"]).contains("rtl8168"));
}

//! `warikomi replace` as a user meets it: a result with rows and tables, a plan that runs again, a report, and
//! refusals that say what can be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
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
    let idle = "replace --way shared-state --load idle --trials 2 --trial 50ms --spare kept";
    let idle: Vec<&str> = idle.split_whitespace().collect();
    let (result, directory) = measured(&idle, first.path());
    let row = &result["rows"][0];
    assert_eq!((&row["way"], &row["replacements"]), (&"shared-state".into(), &2.into()));
    let mean = |figure: &str| row[figure]["mean"].as_f64().unwrap();
    assert!(mean("replace_us") > mean("swap_us") && mean("swap_us") > 0.0, "{row}");
    let plan = directory.join("plan.toml");
    let (repeated, _) = measured(&["run", plan.to_str().unwrap()], again.path());
    assert_eq!(repeated["plan"], result["plan"]);
    assert_eq!(repeated["rows"][0]["replacements"], 2);
    assert!(run(&["report", directory.to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("step by step") && page.contains("MINIX 3"));
}

const THREE_ROWS: [&str; 9] =
    ["replace", "--load", "idle", "--trials", "5", "--trial", "50ms", "--spare", "none"];

fn three_rows(runs: &Path) -> Command {
    let mut command = command(&[&THREE_ROWS[..], &["--runs", runs.to_str().unwrap()]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The directory of the only run, once it has made its first row, and that row.
fn wait_for_row(runs: &Path) -> (PathBuf, Value) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "no row after a minute");
        let run = std::fs::read_dir(runs).ok().and_then(|mut runs| runs.next()?.ok());
        if let Some(run) = run.map(|entry| entry.path()) {
            let steps = std::fs::read_to_string(run.join("steps.jsonl")).unwrap_or_default();
            if let Some((step, _)) = steps.split_once('\n') {
                let step: Value = serde_json::from_str(step).unwrap();
                return (run, step["made"]["row"].clone());
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kept(run: &Path) -> Value {
    assert!(!run.join("steps.jsonl").exists());
    serde_json::from_slice(&std::fs::read(run.join("result.json")).unwrap()).unwrap()
}

#[test]
fn a_run_that_was_killed_goes_on_behind_the_rows_that_it_has_made() {
    let runs = tempfile::tempdir().unwrap();
    let mut child = three_rows(runs.path()).spawn().unwrap();
    let (run_directory, made) = wait_for_row(runs.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let resume = ["replace", "--resume", run_directory.to_str().unwrap()];
    let resumed = run(&resume);
    let message = String::from_utf8(resumed.stderr).unwrap();
    assert!(resumed.status.success(), "{message}");
    assert!(message.contains("going on after 1 steps"), "{message}");
    let result = kept(&run_directory);
    let rows = result["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]), (3, &made));
    assert!(rows.iter().all(|row| row["replacements"] == 5), "{result}");
    let lines = std::fs::read_to_string(run_directory.join("replacements.csv")).unwrap();
    assert_eq!(lines.lines().count(), 1 + 3 * 5);
    assert!(!run(&resume).status.success(), "a finished run is not written to");
}

#[test]
fn ctrl_c_ends_it_with_the_figures_that_there_are() {
    let runs = tempfile::tempdir().unwrap();
    let child = three_rows(runs.path()).spawn().unwrap();
    let (run_directory, made) = wait_for_row(runs.path());
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130));
    let result = kept(&run_directory);
    let rows = result["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]), (2, &made));
    assert!((1..5).contains(&rows[1]["replacements"].as_u64().unwrap()), "{result}");
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
    assert!(refused(&["--way", "reload", "--spare", "kept"]).contains("by reload"));
    assert!(refused(&["--priority", "requester=5"]).contains("--one-core"));
    assert!(refused(&["--way", "reload", "--store-load", "2"]).contains("--way data-store alone"));
    assert!(refused(&["--way", "reload", "--state-io", "first"]).contains("name data-store"));
    assert!(refused(&["--load", "heavy", "--line-rate", "100M"]).contains("a longer --interval"));
    for flag in [
        "--priority=drivers=1",
        "--one-core",
        "--creation-io=10",
        "--store-load=2",
        "--state-io=first",
    ] {
        assert!(refused(&["--target", "kernel", flag]).contains("--target process only"), "{flag}");
    }
    let often = ["--target", "kernel", "--store-load=2", "--store-interval=1ms"];
    assert!(refused(&often).contains("--target process only"));
    assert!(refused(&["--store-interval=1ms"]).contains("--store-load <N>"));
    // Virtual time has neither processes nor a core that they share.
    assert!(refused(&["--virtual", "--one-core"]).contains("--virtual"));
    assert!(refused(&["--target", "kernel", "--spare", "none"]).contains("--target process only"));
    assert!(refused(&["--target", "kernel", "--kill"]).contains("--target process only"));
    assert!(refused(&["--to", "no-such-driver"]).contains("rtl8168"));
}

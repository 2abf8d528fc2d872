//! An experiment that is one file has all that the others have: a table, a page with its plot, CSV and JSON, a
//! plan that runs again, `--resume`, and a comparison.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn command(arguments: &[&str], runs: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_experiment-example"));
    command.args(arguments).current_dir(runs).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn succeed(arguments: &[&str], runs: &Path) -> (String, String) {
    let Output { status, stdout, stderr } = command(arguments, runs).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{arguments:?}: {stdout}{stderr}");
    (stdout, stderr)
}

/// The directories of runs, in order.
fn runs_in(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(place.join("runs")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

const REACH: [&str; 7] =
    ["reach", "--target", "process", "--sizes", "60,600,1500", "--count", "200"];

#[test]
fn it_has_a_table_a_page_files_a_plan_and_a_comparison() {
    let place = tempfile::tempdir().unwrap();
    let (table, _) = succeed(&REACH, place.path());
    assert!(table.contains("accepted") && table.contains("600"), "{table}");
    let first = runs_in(place.path())[0].clone();
    let csv = std::fs::read_to_string(first.join("rows.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3, "{csv}");
    assert!(!first.join("steps.jsonl").exists());

    let plan = first.join("plan.toml");
    let (json, _) = succeed(&["run", plan.to_str().unwrap(), "--json"], place.path());
    let again: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(again["experiment"], "reach");
    let rows = again["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["accepted_share"].as_f64() > Some(0.0)), "{json}");

    let runs = runs_in(place.path());
    let [first, second] = [&runs[0], &runs[1]].map(|run| run.to_str().unwrap());
    let compared = command(&["compare", first, second], place.path()).output().unwrap();
    let text = String::from_utf8(compared.stdout).unwrap();
    assert!(text.contains("delay p99"), "{text}");
    succeed(&["report", first, "--output", "page.html"], place.path());
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("Delay against frame length") && page.contains("<svg"));
}

#[test]
fn a_run_that_was_stopped_goes_on() {
    let place = tempfile::tempdir().unwrap();
    // Each length takes five seconds, so there is time to stop it in the second.
    let long = [&REACH[..5], &["--count", "50", "--interval", "100ms"]].concat();
    let child = command(&long, place.path()).spawn().unwrap();
    let begun = Instant::now();
    let run = loop {
        assert!(begun.elapsed() < Duration::from_secs(120), "no step was made");
        let run = runs_in(place.path()).into_iter().find(|run| run.join("steps.jsonl").exists());
        if let Some(run) = run {
            break run;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    let said = String::from_utf8(stopped.stderr).unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{said}");
    assert!(said.contains("go on with: warikomi reach --resume"), "{said}");

    // What is left is made at another pace, so that this test ends soon.
    let plan = std::fs::read_to_string(run.join("plan.toml")).unwrap();
    let faster = plan.replace("100ms", "38us");
    assert_ne!(plan, faster);
    std::fs::write(run.join("plan.toml"), faster).unwrap();
    let (_, said) = succeed(&["reach", "--resume", run.to_str().unwrap()], place.path());
    assert!(said.contains("going on after 1 step"), "{said}");
    let result = std::fs::read_to_string(run.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["rows"].as_array().unwrap().len(), 3);
    assert!(!run.join("steps.jsonl").exists());
    let refused = command(&["reach", "--resume", run.to_str().unwrap()], place.path());
    let refused = { refused }.output().unwrap();
    assert!(!refused.status.success(), "a finished run is not written to");
}

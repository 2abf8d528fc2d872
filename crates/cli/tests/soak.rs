//! `warikomi soak`, as a user types it, without a kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn warikomi(arguments: &[&str], runs: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).arg("--runs").arg(runs).stdin(Stdio::null()).output().unwrap()
}

/// Soaks driver processes, which must succeed; the directory that was kept.
fn soak(arguments: &[&str], runs: &Path) -> PathBuf {
    kept(&[&["soak", "--target", "process"], arguments].concat(), runs)
}

fn kept(arguments: &[&str], runs: &Path) -> PathBuf {
    let output = warikomi(arguments, runs);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said.trim_end().rsplit_once("kept in ").expect("it says where").1.into()
}

fn result(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("result.json")).unwrap()).unwrap()
}

/// What is the same for the same seeds, on any machine.
fn fixed(run: &Path) -> Value {
    let mut result = result(run);
    let figures = result["figures"].as_object_mut().unwrap();
    assert!(figures.remove("histories_per_s").is_some());
    serde_json::json!([result["rows"], result["figures"], result["plan"], result["target"]])
}

#[test]
fn the_same_seeds_are_the_same_histories_behind_bugs_that_were_found() {
    let runs = tempfile::tempdir().unwrap();
    let [first, again, other] =
        ["1..250", "1..250", "2..251"].map(|seeds| soak(&["--seeds", seeds], runs.path()));
    assert_eq!(fixed(&first), fixed(&again));
    let (first, other) = (result(&first), result(&other));
    assert_ne!(first["rows"][0]["digest"], other["rows"][0]["digest"]);
    let row = &first["rows"][0];
    assert_eq!((&row["histories"], &row["wrong"]), (&250.into(), &0.into()));
    assert!(row["delivered"].as_u64().unwrap() > 5_000 && row["twice"].as_u64().unwrap() > 0);
    assert_eq!(first["figures"]["canaries"].as_array().unwrap().len(), 15);
    let drawn = first["figures"]["drawn"].as_array().unwrap();
    let dies = drawn.iter().find(|drawn| drawn["what"] == "a part dies").unwrap();
    assert!(dies["histories"].as_u64().unwrap() > 20, "{dies}");
}

#[test]
fn shards_make_the_very_result_of_the_whole_run() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    let seeds = ["--seeds", "1..350,1000"];
    let whole = soak(&seeds, runs);
    let shards =
        ["1/2", "2/2"].map(|shard| soak(&[&seeds[..], &["--shard", shard]].concat(), runs));
    let [first, second] = shards.each_ref().map(|path| path.to_str().unwrap());
    let merged = kept(&["merge", second, first], runs);
    assert_eq!(fixed(&merged), fixed(&whole));
    let cases = result(&merged)["shards"].as_array().unwrap().len();
    assert_eq!(cases, 2);
}

#[test]
fn a_soak_ends_when_its_time_is_over() {
    let runs = tempfile::tempdir().unwrap();
    let run = soak(&["--for", "500ms", "--seeds", "77.."], runs.path());
    let histories = result(&run)["rows"][0]["histories"].as_u64().unwrap();
    assert!(histories >= 100 && histories.is_multiple_of(100), "{histories}");
}

#[test]
fn what_has_no_end_or_cannot_be_divided_is_refused() {
    let runs = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = warikomi(&[&["soak"], arguments].concat(), runs.path());
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--seeds", "5.."]).contains("there is no end to the seeds 5.."));
    let divided = said(&["--for", "1h", "--shard", "1/2"]);
    assert!(divided.contains("cannot be divided into shards; say which: --seeds"), "{divided}");
    assert!(said(&["--seeds", "9..3"]).contains("ends before it begins"));
    let process = said(&["--target", "process", "--kernel-version", "6.1"]);
    assert!(process.contains("are for histories of a kernel"), "{process}");
    assert!(said(&["--target", "kernel", "--kernel", "/nowhere"]).contains("/nowhere"));
    assert!(fs::read_dir(runs.path()).unwrap().next().is_none(), "nothing is left behind");
}

#[test]
fn a_history_that_is_cut_short_is_another_and_the_same_again() {
    let runs = tempfile::tempdir().unwrap();
    let digest = |cut: &[&str]| {
        let seed = ["histories", "--count", "1", "--seed", "4", "--faults"];
        let run = kept(&[&seed, cut].concat(), runs.path());
        result(&run)["rows"][0]["digest"].as_str().unwrap().to_owned()
    };
    let cut = ["--bursts", "1", "--without", "fault:0", "--without", "compute"];
    assert_ne!(digest(&[]), digest(&cut));
    assert_eq!(digest(&cut), digest(&cut));
}

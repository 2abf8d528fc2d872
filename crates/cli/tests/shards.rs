//! `--shard` and `warikomi merge`, as a user meets them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::stopped_after;
use serde_json::Value;

/// Seven cases.
const HISTORIES: [&str; 6] = ["histories", "--faults", "--count", "650", "--seed", "7"];

fn warikomi(arguments: &[&str], runs: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).arg("--runs").arg(runs).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must succeed; the directory that it has kept.
fn kept(arguments: &[&str], runs: &Path) -> PathBuf {
    let output = warikomi(arguments, runs);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said.trim_end().rsplit_once("kept in ").expect("it says where").1.into()
}

/// Runs what must fail; its message.
fn refused(arguments: &[&str], runs: &Path) -> String {
    let output = warikomi(arguments, runs);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("panicked at"), "{message}");
    message
}

fn shard(experiment: &[&str], shard: &str, runs: &Path) -> PathBuf {
    kept(&[experiment, &["--shard", shard]].concat(), runs)
}

/// The command that merges these.
fn merge<'a>(shards: &[&'a Path]) -> Vec<&'a str> {
    let paths = shards.iter().map(|path| path.to_str().unwrap());
    std::iter::once("merge").chain(paths).collect()
}

fn result(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("result.json")).unwrap()).unwrap()
}

fn text(run: &Path, name: &str) -> String {
    fs::read_to_string(run.join(name)).unwrap()
}

#[test]
fn three_shards_make_the_very_result_of_the_whole_run() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    let whole = kept(&HISTORIES, runs);
    let shards = ["2/3", "3/3", "1/3"].map(|number| shard(&HISTORIES, number, runs));

    let alone = result(&shards[0]);
    assert_eq!((&alone["shard"]["shard"], &alone["shard"]["cases"]), (&"2/3".into(), &2.into()));
    assert!(alone["rows"].is_null() && alone["figures"].is_null(), "{alone}");
    assert!(alone["shard"]["machine"]["kernel"].is_string(), "{alone}");
    assert!(!shards[0].join("cases.csv").exists() && shards[0].join("steps.jsonl").exists());

    let merged = kept(&merge(&shards.each_ref().map(PathBuf::as_path)), runs);
    for name in ["cases.csv", "plan.toml"] {
        assert_eq!(text(&merged, name), text(&whole, name), "{name}");
    }
    let (merged_result, whole) = (result(&merged), result(&whole));
    for name in ["experiment", "plan", "rows", "target", "time_base", "machine", "asked"] {
        assert_eq!(merged_result[name], whole[name], "{name}");
    }
    let made = merged_result["shards"].as_array().unwrap();
    let numbers: Vec<_> = made.iter().map(|made| made["shard"].as_str().unwrap()).collect();
    assert_eq!(numbers, ["1/3", "2/3", "3/3"]);
    assert!(made.iter().all(|made| made["machine"] == alone["shard"]["machine"]));
    assert!(!merged.join("steps.jsonl").exists());
}

#[test]
fn shards_of_a_sweep_have_lengths_of_their_own() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    let sweep = ["sweep", "--target", "process", "--path", "driver", "--sizes", "60,600,1500"];
    let sweep = [&sweep[..], &["--count", "200", "--repeat", "1"]].concat();
    let shards = ["1/2", "2/2"].map(|number| shard(&sweep, number, runs));
    let merged = kept(&merge(&shards.each_ref().map(PathBuf::as_path)), runs);
    let merged_result = result(&merged);
    let rows = merged_result["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows.iter().map(|row| row["size_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [60, 600, 1_500]);
    assert_eq!(merged_result["target"]["kind"], "process");
    let cycles = text(&merged, "cycles.csv").lines().count() - 1;
    let steps = shards.iter().map(|shard| text(shard, "steps.jsonl").lines().count());
    assert_eq!(cycles, steps.sum::<usize>());
}

#[test]
fn what_is_no_whole_run_is_not_merged_and_the_directory_is_named() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    let make = |number| shard(&HISTORIES, number, runs);
    let (first, second, again) = (make("1/2"), make("2/2"), make("1/2"));
    let said = |shards: &[&Path]| refused(&merge(shards), runs);
    let named = |path: &Path| path.display().to_string();
    assert!(said(&[&first]).contains("missing: shard 2 of 2"));
    let twice = said(&[&first, &second, &again]);
    assert!(twice.contains(&named(&again)) && twice.contains("so is"), "{twice}");
    let twice = said(&[&first, &first]);
    assert!(twice.contains("so is"), "{twice}");

    let other = [&HISTORIES[..5], &["8"]].concat();
    let foreign = said(&[&first, &shard(&other, "2/2", runs)]);
    assert!(foreign.contains("--seed is 8, not 7"), "{foreign}");
    let whole = kept(&HISTORIES, runs);
    assert!(said(&[&first, &whole]).contains("a whole run"));
    assert!(said(&[&first, runs]).contains("cannot read the plan"));
    assert!(refused(&["merge"], runs).contains("<DIR>"));

    let plan = second.join("plan.toml");
    let old = text(&second, "plan.toml").replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    fs::write(&plan, old).unwrap();
    let version = said(&[&first, &second]);
    assert!(version.contains("0.0.1") && version.contains(&named(&second)), "{version}");
}

#[test]
fn a_shard_that_was_stopped_goes_on_and_is_merged_then() {
    let runs = tempfile::tempdir().unwrap();
    let long = ["histories", "--count", "6000"];
    let stopped = stopped_after(2, &[&long[..], &["--shard", "1/2"]].concat(), runs.path());
    let second = shard(&long, "2/2", runs.path());
    let early = refused(&merge(&[&stopped, &second]), runs.path());
    let how = format!("go on with: warikomi histories --resume {}", stopped.display());
    assert!(early.contains("shard 1/2 is not finished") && early.contains(&how), "{early}");

    let mut resume = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    resume.args(["histories", "--resume"]).arg(&stopped);
    assert!(resume.stdin(Stdio::null()).output().unwrap().status.success());
    let merged = kept(&merge(&[&stopped, &second]), runs.path());
    assert_eq!(result(&merged)["rows"][0]["histories"], 6_000);
}

#[test]
fn shards_that_cannot_be_are_refused_with_what_can() {
    let runs = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| refused(arguments, runs.path());
    assert!(said(&["histories", "--shard", "3/2"]).contains("such as 2/4"));
    let many = said(&[&HISTORIES[..], &["--shard", "1/8"]].concat());
    assert!(many.contains("7 cases") && many.contains("at most"), "{many}");
    let whole = ["inject", "accuracy", "cost", "receive", "round-trip", "transmit", "replace"];
    for experiment in whole.into_iter().chain(["record"]) {
        let alone = said(&[experiment, "--shard", "1/2"]);
        assert!(alone.contains("cannot be made in shards"), "{alone}");
    }
    assert!(fs::read_dir(runs.path()).unwrap().next().is_none(), "nothing is left behind");
}

#[test]
fn a_shard_says_what_it_is_and_is_compared_with_nothing() {
    let runs = tempfile::tempdir().unwrap();
    let output = warikomi(&[&HISTORIES[..], &["--shard", "2/2"]].concat(), runs.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("shard: 2/2, with 3 of 7 cases"), "{said}");
    let run = fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    let compared = command.arg("compare").arg(&run).arg(&run).output().unwrap();
    let message = String::from_utf8(compared.stderr).unwrap();
    assert!(compared.status.code() == Some(2) && message.contains("merge the shards"), "{message}");
}

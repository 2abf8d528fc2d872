//! `warikomi accuracy` and `warikomi cost` as a user meets them: every number in the result follows from
//! the files beside it.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::stopped_after;
use serde_json::Value;

fn run(arguments: &[&str], path: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must succeed; returns its result and the directory that it kept.
fn measured(arguments: &[&str], runs: &Path, path: Option<&str>) -> (Value, PathBuf) {
    let kept = ["--json", "--runs", runs.to_str().unwrap()];
    let output = run(&[arguments, &kept].concat(), path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let directory = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(directory.join("result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result);
    (result, directory)
}

/// The lines of a table without quotes, by the names in its header.
fn table(directory: &Path, name: &str, header: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(header));
    lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn accuracy_keeps_every_interval_behind_its_figures() {
    let runs = tempfile::tempdir().unwrap();
    let asked = ["accuracy", "--interval", "200us", "--count", "300", "--no-smallest"];
    let (result, directory) = measured(&asked, runs.path(), None);
    assert_eq!(result["experiment"], "accuracy");
    assert_eq!(result["ledger"]["unaccounted"], 0);
    assert_eq!(result["figures"]["requested_ns"], 200_000.0);
    assert_eq!(result["figures"]["published_exact_share"], 0.996);
    let header = "place,index,at_ns,interval_ns,error_ns,in_hiccup,not_running";
    let intervals = table(&directory, "intervals.csv", header);
    for row in result["rows"].as_array().unwrap() {
        let of_place: Vec<_> = intervals.iter().filter(|line| row["place"] == line[0]).collect();
        let number = |line: &[String], at: usize| line[at].parse::<f64>().unwrap();
        let errors: Vec<f64> = of_place.iter().map(|line| number(line, 4).abs()).collect();
        assert!(of_place.iter().all(|line| {
            (number(line, 3) - 200_000.0 - number(line, 4)).abs() < 1e-3 && number(line, 2) > 0.0
        }));
        let within = errors.iter().filter(|error| **error <= 12_500.0).count() as f64;
        assert_eq!(row["count"], errors.len());
        assert_eq!(row["within_6_25_share"], within / errors.len() as f64);
        assert_eq!(row["worst_error_ns"], errors.iter().copied().fold(0.0, f64::max));
        let marked = of_place.iter().filter(|line| line[5] == "true").count();
        assert_eq!(row["quiet_count"], errors.len() - marked);
    }
    assert!(!directory.join("smallest.csv").exists());
    let repeats = table(&directory, "repeats.csv", "figure,size_bytes,repeat,value");
    assert_eq!(repeats.len(), 12);
    let plan = directory.join("plan.toml");
    let again = ["run", plan.to_str().unwrap()];
    let elsewhere = tempfile::tempdir().unwrap();
    let (again, _) = measured(&again, elsewhere.path(), None);
    assert_eq!(again["plan"], result["plan"]);
}

#[test]
fn cost_keeps_every_call_behind_its_figures_and_samples_or_says_why_not() {
    let runs = tempfile::tempdir().unwrap();
    let asked = ["cost", "--sizes", "4096,1500", "--repeat", "1"];
    let (result, directory) = measured(&asked, runs.path(), None);
    let rows = result["rows"].as_array().unwrap();
    let sizes: Vec<&Value> = rows.iter().map(|row| &row["size_bytes"]).collect();
    assert_eq!(sizes, [1_500, 4_096]);
    let calls = table(&directory, "calls.csv", "size_bytes,call,send_ns");
    for row in rows {
        let counted: Vec<f64> = calls
            .iter()
            .filter(|line| line[0].parse().ok() == row["size_bytes"].as_u64())
            .filter(|line| (1_000..=2_000).contains(&line[1].parse::<u64>().unwrap()))
            .map(|line| line[2].parse().unwrap())
            .collect();
        let mean = counted.iter().sum::<f64>() / counted.len() as f64;
        assert!((row["send_ns"].as_f64().unwrap() - mean).abs() < 1e-3, "{row} {mean}");
    }
    let sampled = rows.iter().all(|row| row["sampled_copy_ns"].is_number());
    assert!(sampled || warned(&result, "not sampled") || warned(&result, "not saturated"));
}

/// Stops an experiment after some steps and goes on with it. Returns what the steps before it was stopped have
/// made, the result, and where it is kept.
fn resumed(steps: usize, asked: &[&str], runs: &Path) -> (Vec<Value>, Value, PathBuf) {
    let directory = stopped_after(steps, asked, runs);
    let kept = std::fs::read_to_string(directory.join("steps.jsonl")).unwrap();
    let step = |line: &str| serde_json::from_str::<Value>(line).unwrap()["made"].clone();
    let made: Vec<Value> = kept.lines().map(step).collect();
    let output = run(&[asked[0], "--json", "--resume", directory.to_str().unwrap()], None);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(message.contains(&format!("going on after {} steps", made.len())), "{message}");
    assert!(directory.join("result.json").exists() && !directory.join("steps.jsonl").exists());
    (made, serde_json::from_slice(&output.stdout).unwrap(), directory)
}

/// The values of a figure in `repeats.csv`.
fn repeats(directory: &Path, figure: &str) -> Vec<f64> {
    let lines = table(directory, "repeats.csv", "figure,size_bytes,repeat,value");
    let of_figure = lines.iter().filter(|line| line[0] == figure);
    of_figure.map(|line| line[3].parse().unwrap()).collect()
}

#[test]
fn an_accuracy_that_was_stopped_goes_on_with_what_it_has() {
    let runs = tempfile::tempdir().unwrap();
    let process = ["accuracy", "--target", "process", "--no-smallest"];
    let asked = ["--interval", "500us", "--count", "500", "--repeat", "5"];
    let (made, result, directory) = resumed(2, &[&process[..], &asked].concat(), runs.path());
    // The first step tells the resolution, the second is a repetition.
    let resolution_ns = made[0][0]["pass"].as_f64().unwrap() / 1e3;
    assert_eq!(result["figures"]["resolution_ns"], resolution_ns);
    let injected = &made[1]["series"][0];
    let lengths: Vec<f64> = serde_json::from_value(injected["lengths"].clone()).unwrap();
    let errors = lengths.iter().map(|ps| (ps / 1e3 - 500_000.0).abs());
    let worst = repeats(&directory, "injected_worst_error_ns");
    assert_eq!((lengths.len(), worst.len()), (499, 5));
    assert!((worst[0] - errors.fold(0.0, f64::max)).abs() < 1e-3, "{worst:?}");
}

#[test]
fn costs_that_were_stopped_go_on_with_what_they_have() {
    let runs = tempfile::tempdir().unwrap();
    let process = ["cost", "--target", "process", "--path", "driver", "--no-sampling"];
    let asked = ["--sizes", "1500,4096", "--repeat", "3"];
    let (made, result, directory) = resumed(2, &[&process[..], &asked].concat(), runs.path());
    let signalled = repeats(&directory, "send_signalled_ns");
    assert_eq!((signalled.len(), result["rows"].as_array().unwrap().len()), (6, 2));
    for (made, signalled_ns) in made.iter().zip(&signalled) {
        assert_eq!(made["signalled"]["counted"]["mean"], *signalled_ns);
    }
}

fn warned(result: &Value, of: &str) -> bool {
    let says = |warning: &Value| warning["what"].as_str().unwrap().contains(of);
    result["warnings"].as_array().unwrap().iter().any(says)
}

#[test]
fn without_perf_there_are_no_samples_and_the_reason() {
    let empty = tempfile::tempdir().unwrap();
    let runs = tempfile::tempdir().unwrap();
    let asked = ["cost", "--sizes", "1024,1500", "--repeat", "1"];
    let (result, _) = measured(&asked, runs.path(), Some(empty.path().to_str().unwrap()));
    assert!(warned(&result, "there is no program 'perf'"), "{}", result["warnings"]);
    assert!(result["rows"][0].get("sampled_copy_ns").is_none());
    assert!(result["rows"][0]["send_ns"].is_number());
}

#[test]
fn what_makes_no_sense_is_refused_with_what_is_possible() {
    for (arguments, expected) in [
        (&["accuracy", "--interval", "0"][..], "such as 38us"),
        (&["accuracy", "--count", "1"], "2.."),
        (&["accuracy", "--size", "59"], "60 to 16379"),
        (&["accuracy", "--repeat", "0"], "1.."),
        (&["accuracy", "--seed", "3"], "add --arrival fitted-real-nic"),
        (&["accuracy", "--arrival", "fitted-real-nic", "--interval", "1us"], "2 µs or more"),
        (&["cost", "--sizes", "1500,16380"], "60 to 16379"),
        (&["cost", "--sizes", ""], "bytes"),
    ] {
        let runs = tempfile::tempdir().unwrap();
        let kept = ["--runs", runs.path().to_str().unwrap()];
        let output = run(&[arguments, &kept].concat(), None);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
        // Before anything was measured.
        assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

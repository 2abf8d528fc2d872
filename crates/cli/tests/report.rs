//! `warikomi report` and `warikomi compare` as a user meets them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warikomi_measure::{Machine, Repeat, RunDirectory, RunResult, TimeBase};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warikomi")).args(arguments).output().unwrap()
}

fn message(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A run of `accuracy` with these repetitions of one figure, and one plot.
fn accuracy(runs: &Path, repeats: &[f64]) -> PathBuf {
    let run = RunDirectory::create(runs, 0, "accuracy").unwrap();
    run.write("smallest.csv", |file| file.write_all(b"interval_ns,kept_share\n200,0.5\n500,1\n"))
        .unwrap();
    let repeat = |(at, &value): (usize, &f64)| Repeat {
        figure: "send_fixed_ns".to_owned(),
        size_bytes: None,
        repeat: at as u32 + 1,
        value,
    };
    if !repeats.is_empty() {
        run.write_table("repeats", repeats.iter().enumerate().map(repeat)).unwrap();
    }
    let mut result = RunResult::new("accuracy", TimeBase::Real, Machine::default());
    result.figures.insert("send_fixed_ns".to_owned(), 205.5.into());
    run.write_result(&result).unwrap();
    run.path().to_owned()
}

#[test]
fn a_report_is_one_file_and_plots_are_files_if_asked_for() {
    let runs = tempfile::tempdir().unwrap();
    let (one, two) = (accuracy(runs.path(), &[]), accuracy(runs.path(), &[]));
    let output = run(&["report", text(&one)]);
    assert!(output.status.success(), "{}", message(&output));
    let html = fs::read_to_string(one.join("report.html")).unwrap();
    assert!(html.contains("<data value=\"205.5\"") && html.contains("<svg"));
    assert!(String::from_utf8(output.stdout).unwrap().contains("report.html"));

    let (file, plots) = (runs.path().join("both.html"), runs.path().join("a/plots"));
    let arguments =
        ["report", text(&one), text(&two), "--output", text(&file), "--plots", text(&plots)];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", message(&output));
    assert!(fs::read_to_string(&file).unwrap().contains("id=\"run-2\""));
    let csv = fs::read_to_string(plots.join("accuracy-smallest.csv")).unwrap();
    assert_eq!(csv, "series,interval_ns,kept_share\nkept,200,0.5\nkept,500,1\n");
    assert!(fs::read_to_string(plots.join("accuracy-2-smallest.svg")).unwrap().starts_with("<svg"));
    assert!(run(&arguments).status.success(), "an older report is replaced");
}

#[test]
fn a_report_that_cannot_be_made_says_why_and_leaves_nothing() {
    let runs = tempfile::tempdir().unwrap();
    let output = run(&["report", text(runs.path())]);
    assert!(message(&output).contains("result.json"), "{}", message(&output));
    let one = accuracy(runs.path(), &[]);
    fs::write(one.join("smallest.csv"), "interval_ns,kept_share\n200,much\n").unwrap();
    let output = run(&["report", text(&one)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(message(&output).contains("smallest.csv, line 2"), "{}", message(&output));
    assert!(!one.join("report.html").exists());
    fs::remove_file(one.join("smallest.csv")).unwrap();
    let output = run(&["report", text(&one), "--output", "/nonexistent/report.html"]);
    assert!(message(&output).contains("choose another place"), "{}", message(&output));
}

#[test]
fn the_status_of_a_comparison_is_for_a_ci_job() {
    const BASE: [f64; 5] = [100.0, 101.0, 102.0, 103.0, 104.0];
    let runs = tempfile::tempdir().unwrap();
    let make = |factor: f64| accuracy(runs.path(), &BASE.map(|value| value * factor));
    let (base, same, slow, fast) = (make(1.0), make(1.005), make(1.2), make(0.8));
    let bare = accuracy(runs.path(), &[]);
    for (b, status, words) in [
        (&same, 0, "not worse"),
        (&slow, 1, "WORSE"),
        (&fast, 0, "better"),
        (&bare, 2, "nothing can be told"),
    ] {
        let output = run(&["compare", text(&base), text(b)]);
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{shown}{}", message(&output));
        assert!(shown.contains(words) && shown.contains("Wilcoxon"), "{words}: {shown}");
    }
    let output = run(&["compare", text(&base), text(&slow), "--threshold", "50%"]);
    assert_eq!(output.status.code(), Some(0));
    let output = run(&["compare", text(&base), text(&slow), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["figures"][0]["verdict"], "worse");
    assert!((json["figures"][0]["p"].as_f64().unwrap() - 2.0 / 252.0).abs() < 1e-9);
    assert_eq!(json["figures"][0]["a"], 102.0);
}

#[test]
fn help_teaches() {
    for (command, words) in [
        ("report", &["cycles.csv", "no network", "--plots", "Examples"][..]),
        ("compare", &["Wilcoxon", "Exit status", "worse when longer", "0.0079"]),
    ] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        for word in words {
            assert!(help.contains(word), "{word} is not in the help of {command}:\n{help}");
        }
    }
}

#[test]
fn what_cannot_be_compared_has_status_2() {
    let runs = tempfile::tempdir().unwrap();
    let base = accuracy(runs.path(), &[1.0]);
    for (arguments, words) in [
        (&["compare", text(&base), "/nonexistent"][..], "/nonexistent"),
        (&["compare", text(&base), text(&base), "--alpha", "2"], "below 1"),
        (&["compare", text(&base), text(&base), "--threshold", "5"], "percent"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", message(&output));
        assert!(message(&output).contains(words), "{words}: {}", message(&output));
    }
}

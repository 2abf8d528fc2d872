//! `warikomi sweep` as a user meets it.

mod common;

use std::process::{Command, Stdio};

use common::stopped_after;

fn warikomi(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn ctrl_c_keeps_the_cycles_and_resume_goes_on_with_them() {
    let runs = tempfile::tempdir().unwrap();
    let sweep = ["sweep", "--sizes", "600", "--count", "300", "--repeat", "3", "--curve", "1"];
    let run = stopped_after(4, &sweep, runs.path());
    let steps = || std::fs::read_to_string(run.join("steps.jsonl")).unwrap();
    let before = steps();
    assert!(!run.join("cycles.csv").exists());

    let resume = ["sweep", "--resume", run.to_str().unwrap()];
    let other = warikomi(&[&resume[..], &["--count", "5"]].concat()).output().unwrap();
    let message = String::from_utf8(other.stderr).unwrap();
    assert!(
        !other.status.success() && message.contains("--count <N> cannot be given"),
        "{message}"
    );
    assert_eq!(steps(), before);

    let resumed = warikomi(&resume).output().unwrap();
    let message = String::from_utf8(resumed.stderr).unwrap();
    assert!(resumed.status.success(), "{message}");
    assert!(message.contains(&format!("going on after {} steps", before.lines().count())));
    let cycles = std::fs::read_to_string(run.join("cycles.csv")).unwrap();
    let mut lines = cycles.lines().skip(1);
    for step in before.lines() {
        let step: serde_json::Value = serde_json::from_str(step).unwrap();
        let line: Vec<_> = lines.next().unwrap().split(',').collect();
        let number = |column: usize| line[column].parse::<f64>().ok();
        assert_eq!(line[2], step["made"]["phase"]);
        assert_eq!(number(4), step["made"]["interval_ns"].as_f64());
        assert_eq!(number(10), step["made"]["throughput_bps"].as_f64(), "{line:?} {step}");
    }
    assert!(lines.next().is_some());
    let table = String::from_utf8(resumed.stdout).unwrap();
    assert!(table.contains("loss free") && table.contains("600"), "{table}");
    assert!(run.join("result.json").exists() && run.join("repeats.csv").exists());
    assert!(!run.join("steps.jsonl").exists());

    let again = warikomi(&resume).output().unwrap();
    assert!(!again.status.success(), "a finished run is not written to");
}

#[test]
fn each_bad_plan_gets_a_sentence_that_says_what_is_possible() {
    for (arguments, expected) in [
        (&["--sizes", "59"][..], "60 to 16379"),
        (&["--sizes", "100,100"], "twice"),
        (&["--repeat", "0"], "1 to 100"),
        (&["--curve", "101"], "0 (dips are not looked for) to 100"),
        (&["--curve", "3", "--receiver", "driver"], "no end-to-end curve"),
        (&["--count", "0"], "choose 1 to"),
        (&["--line-rate", "fast"], "line rate"),
        (&["--resume", "/nonexistent"], "cannot read the plan"),
    ] {
        let output = warikomi(&[&["sweep"], arguments].concat()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
    }
}

//! `warikomi sweep` as a user meets it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn warikomi(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The directory of the only run, once it has this many cycles.
fn wait_for_cycles(runs: &Path, count: usize) -> PathBuf {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "no cycles after a minute");
        let run = std::fs::read_dir(runs).ok().and_then(|mut runs| runs.next()?.ok());
        if let Some(run) = run.map(|entry| entry.path()) {
            let cycles = std::fs::read_to_string(run.join("cycles.csv")).unwrap_or_default();
            if cycles.lines().count() > count {
                return run;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ctrl_c_keeps_the_cycles_and_resume_goes_on_with_them() {
    let runs = tempfile::tempdir().unwrap();
    let sweep = ["sweep", "--sizes", "600", "--count", "300", "--repeat", "3", "--runs"];
    let child = warikomi(&[&sweep[..], &[runs.path().to_str().unwrap()]].concat()).spawn().unwrap();
    let run = wait_for_cycles(runs.path(), 4);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130));
    let message = String::from_utf8(stopped.stderr).unwrap();
    assert!(message.contains("go on with: warikomi sweep --resume"), "{message}");
    let before = std::fs::read_to_string(run.join("cycles.csv")).unwrap();

    let resumed = warikomi(&["sweep", "--resume", run.to_str().unwrap()]).output().unwrap();
    let message = String::from_utf8(resumed.stderr).unwrap();
    assert!(resumed.status.success(), "{message}");
    assert!(message.contains(&format!("going on after {} cycles", before.lines().count() - 1)));
    let after = std::fs::read_to_string(run.join("cycles.csv")).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    let table = String::from_utf8(resumed.stdout).unwrap();
    assert!(table.contains("loss free") && table.contains("600"), "{table}");
    assert!(run.join("result.json").exists() && run.join("repeats.csv").exists());

    let again = warikomi(&["sweep", "--resume", run.to_str().unwrap()]).output().unwrap();
    assert!(!again.status.success(), "a finished run is not written to");
}

#[test]
fn each_bad_plan_gets_a_sentence_that_says_what_is_possible() {
    for (arguments, expected) in [
        (&["--sizes", "59"][..], "60 to 16379"),
        (&["--sizes", "100,100"], "twice"),
        (&["--repeat", "0"], "1 to 100"),
        (&["--count", "0"], "choose 1 to"),
        (&["--line-rate", "fast"], "line rate"),
        (&["--resume", "/nonexistent"], "cannot read the plan"),
    ] {
        let output = warikomi(&[&["sweep"], arguments].concat()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
    }
}

//! Places in the driver's code: what strikes there, and replays that come there, the same each time.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use warikomi_lab::Conclusion;
use warikomi_lab::at::At;
use warikomi_lab::explore::Explore;
use warikomi_lab::record::{Record, TRACE};
use warikomi_lab::replay::Replay;
use warikomi_measure::{RunDirectory, TimeBase};

use crate::{digest, try_run};

fn at(flags: &[&str]) -> Conclusion {
    let conclusion = try_run::<At>(flags).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(conclusion.result.time_base, TimeBase::Virtual);
    conclusion
}

/// The only outcome of a strike.
fn outcome<'a>(conclusion: &'a Conclusion, key: &str) -> &'a Value {
    let rows = conclusion.result.rows.as_ref().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    &rows[0][key]
}

#[test]
fn an_interrupt_strikes_where_the_driver_stands_though_its_time_stands_still() {
    let struck = || at(&["rtl8169_poll", "--deliver", "interrupt", "--count", "5"]);
    let (first, again) = (struck(), struck());
    assert_eq!(outcome(&first, "verdict"), "accounted");
    assert_eq!(outcome(&first, "deferred"), &Value::Bool(false));
    assert_eq!(outcome(&first, "place"), outcome(&first, "handler"));
    assert_eq!(first.result.rows, again.result.rows);
    assert_eq!(first.result.figures, again.result.figures);
}

#[test]
fn where_interrupts_are_off_it_strikes_where_they_are_let_in_again() {
    let struck = at(&["rtl8169_interrupt", "--deliver", "interrupt"]);
    assert_eq!(outcome(&struck, "verdict"), "accounted");
    assert_eq!(outcome(&struck, "deferred"), &Value::Bool(true));
    assert!(outcome(&struck, "handler").is_string(), "the handler ran");
}

#[test]
fn every_place_has_the_same_verdict_each_time() {
    let explored = || {
        let flags = ["--function", "rtl8169_interrupt", "--operation", "ping"];
        try_run::<Explore>(&flags).unwrap_or_else(|error| panic!("{error}"))
    };
    let (first, again) = (explored(), explored());
    assert!(first.failed.is_none());
    assert_eq!(first.result.rows, again.result.rows);
    let rows = first.result.rows.as_ref().unwrap();
    assert!(rows[0]["reached"].as_u64().unwrap() > 20, "{rows:?}");
}

#[test]
fn recordings_of_one_seed_are_the_same_to_the_last_address() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = || fs::read(recorded(&folder)).unwrap();
    let first = recorded();
    assert!(first.len() > 1_000);
    // Where a program's stack lay was another in every second kernel, and with it what the kernel allocated.
    for number in 2..=6 {
        assert!(recorded() == first, "recording {number} is another");
    }
}

/// Records a run into a file.
fn recorded(folder: &TempDir) -> PathBuf {
    let flags = ["--count", "120", "--arrival", "poisson", "--interval", "30us", "--seed", "11"];
    let recording = try_run::<Record>(&flags).unwrap_or_else(|error| panic!("{error}"));
    let directory = RunDirectory::create(folder.path(), 1, "record").unwrap();
    recording.keep(&directory).unwrap();
    directory.path().join(TRACE)
}

fn replayed(trace: &Path, flags: &[&str]) -> Conclusion {
    let flags = [&[trace.to_str().unwrap()], flags].concat();
    try_run::<Replay>(&flags).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_replay_comes_to_a_place_at_the_same_time_each_time_and_gdb_finds_the_driver_there() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder);
    let until = ["--until", "rtl8169_poll", "--nth", "60"];
    let (first, again) = (replayed(&trace, &until), replayed(&trace, &until));
    let figure = |conclusion: &Conclusion, name: &str| conclusion.result.figures[name].clone();
    assert_eq!(figure(&first, "until_reached"), 60);
    assert!(figure(&first, "until_at_ns").as_f64().unwrap() > 0.0);
    for name in ["until_at_ns", "until_place", "stack"] {
        assert_eq!(figure(&first, name), figure(&again, name), "{name}");
    }

    // What gdb sees, it writes into a file; then it lets the kernel go, and the replay goes on.
    let seen = folder.path().join("seen");
    let dump = format!(
        "dump value {} (unsigned long) $pc == (unsigned long) &rtl8169_poll",
        seen.display()
    );
    let commands =
        ["--gdb", "--gdb-command", &dump, "--gdb-command", "detach", "--gdb-command", "quit"];
    let held = replayed(&trace, &[&until[..], &commands].concat());
    assert_eq!(fs::read(&seen).unwrap(), 1i32.to_ne_bytes());
    assert_eq!(figure(&held, "until_at_ns"), figure(&first, "until_at_ns"));
    assert_eq!(digest(&held), digest(&first), "that it was held has changed nothing");
}

#[test]
fn a_place_that_is_not_reached_so_often_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder);
    let replayed = replayed(&trace, &["--until", "rtl8169_close"]);
    assert_eq!(replayed.result.figures["until_reached"], 0);
    assert_eq!(replayed.result.figures["until_place"], Value::Null);
}

//! Directories of runs, which come from other machines as well.

use std::fs;
use std::path::Path;

use arbitrary::Unstructured;
use serde_json::{Value, json};
use warikomi_clock::{Span, Time};
use warikomi_lab::{ShardDirectory, Watch, describe};
use warikomi_measure::{Fate, Machine, Repeat, Row, RunDirectory, RunResult, TimeBase, Warning};
use warikomi_report::compare::{Limits, compare};
use warikomi_report::html::{Section, page};
use warikomi_report::plot::charts;
use warikomi_report::read::{ReadError, Run};
use warikomi_report::terminal::{self, Style};
use warikomi_target::Interrupted;

use crate::harness::{self, Seeds, bounded};

const RESULT: &str = "result.json";
const RUNS: &str = "\"><script>alert(1)</script>";
const WORDS: &[&str] = &[
    "\n",
    ",",
    "\"",
    "NaN",
    "1e308",
    "<script>alert(1)</script>",
    RUNS,
    "[[[[",
    "\u{1b}[31m",
    "\"shard\":{\"shard\":\"1/1\",\"cases\":1,\"of_cases\":1,\"machine\":{}},",
];
/// The result of another run, which stands in its place if it is what is changed.
const OTHER_RESULT: &str = "other-result.json";
const STEPS: &str = "steps.jsonl";

fn result(experiment: &str, row: &Value) -> RunResult {
    let mut result = RunResult::new(experiment, TimeBase::Real, Machine::default());
    result.version = Some("0.1.0".to_owned());
    result.target.driver = "r8169".to_owned();
    let warning = Warning { what: "slow".to_owned(), hint: "wait".to_owned() };
    result.warnings.push(warning);
    result.rows = Some(vec![row.as_object().expect("a row").clone()]);
    describe(&mut result);
    result
}

/// A whole run: name and bytes of each of its files.
fn made() -> Vec<(&'static str, Vec<u8>)> {
    let runs = tempfile::tempdir().expect("a directory");
    let run = RunDirectory::create(runs.path(), 0, "sweep").expect("a directory");
    let at = |ns: u64| Some(Time::from_ps(ns * 1_000));
    let row = |sequence| Row {
        sequence,
        fate: Fate::Delivered,
        queue: Some(0),
        planned: at(1_000 + sequence),
        injected: at(1_100 + sequence),
        took: Some(Span::from_ps(205_500)),
        accepted: at(5_000),
        delivered: at(9_000),
    };
    run.write_samples(Time::ZERO, (0..4).map(row)).expect("a file");
    let repeat =
        |repeat| Repeat { figure: "send_ns".into(), size_bytes: Some(1_500), repeat, value: 240.5 };
    run.write_table("repeats", (1..4).map(repeat)).expect("a file");
    let swept = json!({
        "size_bytes": 1_500, "send_ns": 240.5, "loss_free_bps": 9e8, "line_rate_bps": null,
    });
    run.write_result(&result("sweep", &swept)).expect("a file");
    let sent = json!({
        "size_bytes": 64, "buffers": "mbuf-2k", "completion": "adaptive", "bounce": "none", "bps": 9e8,
        "pps": 1e6, "published_bps": null, "virtual_bps": 8e8, "cpu_share": 0.5,
    });
    let other = result("transmit", &sent).to_json().into_bytes();
    let file = |name: &str| fs::read(run.path().join(name)).expect("a file");
    let cycles = b"size_bytes,line_rate_bps,phase,interval_ns,driver_share,end_to_end_share\n\
        1500,,search,400.5,0.9,0.8\n1500,,search,800,1,1\n";
    let steps = br#"{"step":"a","case":0,"made":{"x":1.5},"seen":null}
{"step":"b","case":1,"made":[1,2],"seen":{"target":{"kind":"process","driver":"d","model":"m"},"time_base":"virtual"}}
"#;
    vec![
        ("cycles.csv", cycles.to_vec()),
        ("repeats.csv", file("repeats.csv")),
        (RESULT, file(RESULT)),
        ("samples.csv", file("samples.csv")),
        (STEPS, steps.to_vec()),
        (OTHER_RESULT, other),
    ]
}

/// Makes everything of a run that is made of one.
fn shown(path: &Path) -> Result<(), ReadError> {
    let run = Run::load(path)?;
    let again = RunResult::from_json(&run.result.to_json());
    assert_eq!(again.ok().as_ref(), Some(&run.result));
    let mut described = run.clone();
    describe(&mut described.result);
    let _ = terminal::page(&run.result, Style { colour: true, width: 1 });
    let repeats = run.repeats()?;
    let limits = Limits { alpha: 0.05, threshold_share: 0.01 };
    let _ = compare((&run, &repeats), (&described, &repeats), limits);
    for run in [run, described] {
        let charts = charts(&run, &mut |_| true)?;
        for chart in &charts {
            let _ = (chart.svg(), chart.csv());
        }
        let page = page(&[Section { run, charts }]);
        assert_eq!(page.matches("<script").count(), 1, "a page runs our script and no other");
    }
    Ok(())
}

/// What is made of the seeds themselves: with each of the results.
fn as_they_are(files: &[(&str, Vec<u8>)]) {
    for result in [RESULT, OTHER_RESULT] {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        for (name, bytes) in files {
            let name = if *name == result { RESULT } else { name };
            fs::write(directory.path().join(name), bytes).expect("a file");
        }
        shown(directory.path()).expect("a run that we wrote");
    }
}

/// Each text of a result in turn is one that a page must not run.
fn with_texts_that_run(files: &[(&str, Vec<u8>)]) {
    for (_, result) in files.iter().filter(|(name, _)| name.ends_with(RESULT)) {
        let value: Value = serde_json::from_slice(result).expect("a seed is JSON");
        let leaf_count = |mut value: Value| {
            let mut all = Vec::new();
            leaves(&mut value, &mut all);
            all.len()
        };
        for leaf in 0..leaf_count(value.clone()) {
            let mut changed = value.clone();
            let mut all = Vec::new();
            leaves(&mut changed, &mut all);
            if !all[leaf].is_string() {
                continue;
            }
            *all[leaf] = RUNS.into();
            let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
            fs::write(directory.path().join(RESULT), changed.to_string()).expect("a file");
            // Some must be a word of ours, or a number.
            let _ = shown(directory.path());
        }
    }
}

/// Goes on with what is there, as `--resume` and `merge` do.
fn gone_on_with(path: &Path, before: &[u8]) {
    if let Ok(run) = Run::load(path)
        && let Some(made) = run.result.shard
    {
        let run = warikomi_lab::NewRun {
            runs: path.to_owned(),
            name: "sweep".to_owned(),
            now_s: 0,
            plan: String::new(),
        };
        let shards = vec![ShardDirectory { path: path.to_owned(), made }];
        let _ = Watch::of_merged_run(Interrupted::default(), Box::new(|_| ()), run, shards);
    }
    fs::remove_file(path.join(RESULT)).expect("it was written");
    let resumed = Watch::of_resumed_run(Interrupted::default(), Box::new(|_| ()), path);
    let after = fs::read(path.join(STEPS)).expect("it was written");
    match resumed {
        Ok(watch) => {
            let lines = after.iter().filter(|byte| **byte == b'\n').count();
            assert!(before.starts_with(&after) && watch.earlier_steps() == lines);
        }
        Err(_) => assert_eq!(after, before, "nothing is cut from what cannot be gone on with"),
    }
}

/// Values of a JSON document that have no others in them.
fn leaves<'a>(value: &'a mut Value, into: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| leaves(one, into)),
        Value::Object(all) => all.values_mut().for_each(|one| leaves(one, into)),
        leaf => into.push(leaf),
    }
}

/// A document that is still one, with other values.
fn with_other_values(json: &[u8], from: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(json).expect("a seed is JSON");
    for _ in 0..from.int_in_range(1..=3u8)? {
        let mut all = Vec::new();
        leaves(&mut value, &mut all);
        let leaf = from.int_in_range(0..=all.len() - 1)?;
        *all[leaf] = match from.int_in_range(0..=4u8)? {
            0 => Value::Null,
            1 => harness::number(from)?.into(),
            2 => f64::from_bits(from.arbitrary()?).into(),
            _ => (*from.choose(WORDS)?).into(),
        };
    }
    Ok(value.to_string().into_bytes())
}

#[test]
fn results() {
    let files = made();
    let seeds = Seeds::of("results", &files, WORDS);
    as_they_are(&files);
    with_texts_that_run(&files);
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        let changed = from.int_in_range(0..=seeds.len() - 1).unwrap_or_default();
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let mut steps = Vec::new();
        for (number, (name, _)) in files.iter().enumerate() {
            let whole = number != changed;
            let json = name.ends_with(RESULT) && from.int_in_range(0..=1u8) == Ok(1);
            let bytes = match whole {
                true => seeds.whole(number).to_vec(),
                false if json => with_other_values(seeds.whole(number), &mut from)
                    .unwrap_or_else(|_| seeds.whole(number).to_vec()),
                false => seeds.edited(number, &mut from),
            };
            if whole && *name == OTHER_RESULT {
                continue;
            }
            let name = if *name == OTHER_RESULT { RESULT } else { name };
            fs::write(directory.path().join(name), &bytes).expect("a file");
            if name == STEPS {
                steps = bytes;
            }
        }
        bounded(|| {
            let _ = shown(directory.path());
            gone_on_with(directory.path(), &steps);
        });
    });
}

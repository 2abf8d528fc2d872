//! What a strike at one place shows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Object, Table};

use crate::cells::{list, object, text};
use crate::strike::{Trial, Verdict};

/// What came of trials, but for their stacks.
type Outcome<'a> = (Verdict, &'a str, [Option<&'a str>; 3], bool);

/// Puts what came of the strikes into the result: a row for each outcome that there was, the worst last, and the
/// stacks of one with the worst.
pub(super) fn fill(result: &mut RunResult, trials: &[Trial]) {
    let mut outcomes: BTreeMap<Outcome<'_>, u64> = BTreeMap::new();
    for trial in trials {
        let places = [&trial.first, &trial.place, &trial.handler].map(Option::as_deref);
        // How long an answer took differs each time.
        let evidence = if trial.verdict == Verdict::Late { "" } else { trial.evidence.as_str() };
        let outcome = (trial.verdict, evidence, places, trial.deferred);
        *outcomes.entry(outcome).or_default() += 1;
    }
    let row = |((verdict, evidence, places, deferred), times): (&Outcome<'_>, &u64)| {
        let [first, place, handler] = places.map(|place| place.map_or(Value::Null, Into::into));
        object([
            ("verdict", verdict.to_string().into()),
            ("times", (*times).into()),
            ("first", first),
            ("place", place),
            ("handler", handler),
            ("deferred", (*deferred).into()),
            ("evidence", (*evidence).into()),
        ])
    };
    result.rows = Some(outcomes.iter().map(row).collect());
    let Some(last) = trials.iter().max_by_key(|trial| trial.verdict) else { return };
    let stack = |frames: &[String]| -> Vec<Value> {
        frames.iter().map(|frame| json!({ "frame": frame })).collect()
    };
    let lines: Vec<Value> = last.printed.iter().map(|line| json!({ "line": line })).collect();
    for (key, rows) in [
        ("stack", stack(&last.stack)),
        ("handler_stack", stack(&last.handler_stack)),
        ("printed", lines),
    ] {
        if !rows.is_empty() {
            result.figures.insert(key.to_owned(), rows.into());
        }
    }
}

pub(super) fn describe(result: &mut RunResult) {
    let column = |key: &str, title: &str| Column::figure(key, title);
    let mut layout = Layout {
        columns: vec![
            Column::parameter("verdict", "verdict"),
            column("times", "times"),
            column("first", "struck first at"),
            column("place", "struck at"),
            column("handler", "handler ran at"),
            column("deferred", "deferred"),
            column("evidence", "evidence"),
        ],
        ..Layout::default()
    };
    for (name, title, key) in [
        ("stack", "Stack at the place", "frame"),
        ("handler_stack", "Stack of the handler", "frame"),
        ("printed", "What the kernel printed meanwhile", "line"),
    ] {
        if list(&result.figures, name).next().is_some() {
            let columns = vec![Column::parameter(key, key)];
            layout.tables.push(Table::of_figures(&name.replace('_', "-"), title, name, columns));
        }
    }
    let rows = result.rows.as_deref().unwrap_or_default();
    let of =
        |verdict: &str| rows.iter().filter(|row: &&Object| text(row, "verdict") == verdict).count();
    if of("not reached") == rows.len() {
        layout.say(
            "not reached",
            "The place was not reached by this operation; another --operation may.",
        );
    }
    result.layout = layout;
}

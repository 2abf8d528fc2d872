//! What an exploration shows: a row for each function, and what was found.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Object, Table};

use super::counted::Counted;
use super::lines;
use super::row::{Explored, PlaceRow};
use crate::cells::{list, object};
use crate::strike::Trial;

/// Findings of which the whole is kept; all of them are in places.csv.
const KEPT_FINDINGS: usize = 500;

/// Where in the figures the lines of the map are.
const LINES: &str = "lines";

/// The row of a function, or of all.
fn row(function: &str, counted: &Counted<'_>) -> Object {
    let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
    object([
        ("function", function.into()),
        ("places", counted.places.into()),
        ("reached", counted.reached.into()),
        ("reached_share", share(counted.reached, counted.places).into()),
        ("at_once", counted.at_once.into()),
        ("handler_places", counted.handlers.len().into()),
        ("bad", counted.bad.into()),
        ("worst", counted.worst().into()),
    ])
}

/// Puts what was explored into the result.
pub(super) fn fill(result: &mut RunResult, explored: Vec<Explored>, lines: Vec<Object>) {
    let mut functions: BTreeMap<&str, Counted<'_>> = BTreeMap::new();
    let mut all = Counted::default();
    for place in &explored {
        let name = match place.row.function.as_str() {
            "" => &place.row.operation,
            function => function,
        };
        functions.entry(name).or_default().add(&place.row);
        all.add(&place.row);
    }
    let total = row("all", &all);
    let struck: Vec<&Explored> = explored.iter().filter(|place| place.row.tries > 0).collect();
    let trials: u32 = struck.iter().map(|place| place.row.tries).sum();
    let seconds: f64 = struck.iter().map(|place| place.seconds).sum();
    result.figures.insert("trials".to_owned(), trials.into());
    if seconds > 0.0 {
        let per_second = f64::from(trials) / seconds;
        result.figures.insert("trials_per_second".to_owned(), per_second.into());
    }
    let rows = functions.iter().map(|(name, counted)| row(name, counted));
    result.rows = Some(rows.chain((functions.len() > 1).then_some(total.clone())).collect());
    for key in ["places", "reached", "reached_share", "handler_places", "bad"] {
        if let Some(value) = total.get(key) {
            result.figures.insert(key.to_owned(), value.clone());
        }
    }
    let findings: Vec<Value> = explored
        .iter()
        .filter_map(|place| Some(finding(&place.row, place.trial.as_ref()?)))
        .take(KEPT_FINDINGS)
        .collect();
    let lines: Vec<Value> = lines.into_iter().map(Value::Object).collect();
    for (key, list) in [("findings", findings), (LINES, lines)] {
        if !list.is_empty() {
            result.figures.insert(key.to_owned(), list.into());
        }
    }
}

fn finding(row: &PlaceRow, trial: &Trial) -> Value {
    json!({
        "place": row.place,
        "then": row.then,
        "line": if row.line > 0 { format!("{}:{}", row.file, row.line) } else { String::new() },
        "verdict": row.verdict.to_string(),
        "confirmed": format!("{} of {}", row.confirmed, row.struck),
        "evidence": row.evidence,
        "handler": row.handler,
        "stack": trial.stack,
        "handler_stack": trial.handler_stack,
        "printed": trial.printed,
        "command": row.command,
    })
}

pub(super) fn describe(result: &mut RunResult) {
    let mut layout = Layout {
        columns: vec![
            Column::parameter("function", "function"),
            Column::figure("places", "places"),
            Column::figure("reached", "reached"),
            Column::figure("reached_share", "reached, share"),
            Column::figure("at_once", "struck at once"),
            Column::figure("handler_places", "places of the handler"),
            Column::figure("bad", "something wrong"),
            Column::figure("worst", "worst verdict"),
        ],
        figure_columns: vec![
            Column::figure("trials", "trials"),
            Column::figure("trials_per_second", "trials a second"),
        ],
        ..Layout::default()
    };
    if list(&result.figures, "findings").next().is_some() {
        let columns = [
            ("place", "place"),
            ("then", "then"),
            ("line", "line"),
            ("verdict", "verdict"),
            ("confirmed", "seen"),
            ("evidence", "evidence"),
            ("handler", "handler ran at"),
            ("command", "again by"),
        ];
        let columns = columns.map(|(key, title)| Column::figure(key, title)).into();
        layout.tables.push(Table::of_figures("findings", "What is wrong", "findings", columns));
    }
    if list(&result.figures, LINES).next().is_some() {
        layout.maps.push(lines::map(LINES));
    }
    result.layout = layout;
}

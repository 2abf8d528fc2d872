//! What an exploration shows: a row for each function, and what was found.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Table};

use super::row::{Explored, PlaceRow};
use crate::cells::{list, object};
use crate::strike::{Trial, Verdict};

/// Findings of which the whole is kept; all of them are in places.csv.
const KEPT_FINDINGS: usize = 500;

/// What is counted of one function.
#[derive(Default)]
struct OfFunction<'a> {
    places: u64,
    reached: u64,
    /// Struck at the place itself, not later.
    at_once: u64,
    bad: u64,
    handlers: BTreeSet<&'a str>,
    worst: Option<Verdict>,
}

impl<'a> OfFunction<'a> {
    fn add(&mut self, row: &'a PlaceRow) {
        self.places += 1;
        if row.verdict <= Verdict::NotReached {
            return;
        }
        self.reached += 1;
        self.at_once += u64::from(!row.deferred && !row.handler.is_empty());
        self.bad += u64::from(row.verdict.is_bad());
        if !row.handler.is_empty() {
            self.handlers.insert(&row.handler);
        }
        self.worst = self.worst.max(Some(row.verdict));
    }

    fn row(&self, function: &str) -> serde_json::Map<String, Value> {
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        object([
            ("function", function.into()),
            ("places", self.places.into()),
            ("reached", self.reached.into()),
            ("reached_share", share(self.reached, self.places).into()),
            ("at_once", self.at_once.into()),
            ("handler_places", self.handlers.len().into()),
            ("bad", self.bad.into()),
            ("worst", self.worst.map_or(Value::Null, |worst| worst.to_string().into())),
        ])
    }
}

/// Puts what was explored into the result.
pub(super) fn fill(result: &mut RunResult, explored: Vec<Explored>) {
    let mut functions: BTreeMap<&str, OfFunction<'_>> = BTreeMap::new();
    let mut all = OfFunction::default();
    for place in &explored {
        let name = match place.row.function.as_str() {
            "" => &place.row.operation,
            function => function,
        };
        functions.entry(name).or_default().add(&place.row);
        all.add(&place.row);
    }
    let total = all.row("all");
    let struck: Vec<&Explored> = explored.iter().filter(|place| place.row.tries > 0).collect();
    let trials: u32 = struck.iter().map(|place| place.row.tries).sum();
    let seconds: f64 = struck.iter().map(|place| place.seconds).sum();
    result.figures.insert("trials".to_owned(), trials.into());
    if seconds > 0.0 {
        let per_second = f64::from(trials) / seconds;
        result.figures.insert("trials_per_second".to_owned(), per_second.into());
    }
    let rows = functions.iter().map(|(name, counted)| counted.row(name));
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
    if !findings.is_empty() {
        result.figures.insert("findings".to_owned(), findings.into());
    }
}

fn finding(row: &PlaceRow, trial: &Trial) -> Value {
    json!({
        "place": row.place,
        "line": if row.line > 0 { format!("{}:{}", row.file, row.line) } else { String::new() },
        "verdict": row.verdict.to_string(),
        "confirmed": format!("{} of {}", row.confirmed, row.tries),
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
    result.layout = layout;
}

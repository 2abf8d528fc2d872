//! What a soak shows: a row for each target, what was drawn, the planted bugs, and what was found.

use serde_json::{Value, json};
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Object, Table, Unit};

use super::canary::Canary;
use super::row::{Counts, Finding, Made, all};
use crate::cells::{list, object, text};

/// Findings that are kept.
const KEPT_FINDINGS: usize = 500;

/// Findings that are shown in full.
const SAID_FINDINGS: usize = 10;

/// Puts what was made into the result.
pub(super) fn fill(result: &mut RunResult, canaries: &[Canary], made: &[Made]) {
    let all = all(made);
    let row = |(target, counts): (&&str, &Counts)| {
        object([
            ("target", (*target).into()),
            ("histories", counts.histories.into()),
            ("packets", counts.packets.into()),
            ("delivered", counts.delivered.into()),
            ("twice", counts.twice.into()),
            ("wrong", counts.wrong.into()),
            ("digest", counts.digest.as_str().into()),
        ])
    };
    let rows: Vec<Object> = all.iter().map(row).collect();
    result.rows = Some(rows);
    let drawn: Vec<Value> = all
        .iter()
        .flat_map(|(target, counts)| counts.drawn.iter().map(move |drawn| (target, counts, drawn)))
        .map(|(target, counts, (what, count))| {
            let share = *count as f64 / counts.histories.max(1) as f64;
            json!({ "target": target, "what": what, "histories": count, "share": share })
        })
        .collect();
    let findings: Vec<Value> =
        findings(made).take(KEPT_FINDINGS).map(|finding| json!(finding)).collect();
    let canaries: Vec<Value> = canaries.iter().map(|canary| json!(canary)).collect();
    for (key, list) in [("drawn", drawn), ("findings", findings), ("canaries", canaries)] {
        if !list.is_empty() {
            result.figures.insert(key.to_owned(), list.into());
        }
    }
    let histories: u64 = all.values().map(|counts| counts.histories).sum();
    let took_s: f64 = made.iter().map(|case| case.took_s).sum();
    if took_s > 0.0 {
        result.figures.insert("histories_per_s".to_owned(), (histories as f64 / took_s).into());
    }
}

/// Everything that was found.
pub(super) fn findings(made: &[Made]) -> impl Iterator<Item = &Finding> {
    made.iter().flat_map(|case| &case.findings)
}

pub(super) fn describe(result: &mut RunResult) {
    let counted = |key: &str, title: &str| Column::figure(key, title).unit(Unit::Count);
    let mut layout = Layout {
        columns: vec![
            Column::parameter("target", "target"),
            counted("histories", "histories"),
            counted("wrong", "wrong"),
            counted("packets", "packets"),
            counted("delivered", "delivered"),
            counted("twice", "made twice"),
            Column::figure("digest", "digest").wide(),
        ],
        figure_columns: vec![Column::figure("histories_per_s", "histories a second")],
        ..Layout::default()
    };
    let said = |key: &str, title: &str| Column::figure(key, title);
    let tables = [
        (
            "findings",
            "What is wrong",
            vec![
                Column::parameter("seed", "seed"),
                said("target", "target"),
                said("checkers", "found by"),
                said("command", "again by"),
                said("history", "the history itself").wide(),
            ],
        ),
        (
            "canaries",
            "Planted bugs, all found",
            vec![
                Column::parameter("target", "target"),
                Column::parameter("bug", "bug"),
                counted("histories", "histories until then"),
                said("checkers", "found by"),
            ],
        ),
        (
            "drawn",
            "What was drawn",
            vec![
                Column::parameter("target", "target"),
                Column::parameter("what", "what"),
                counted("histories", "histories"),
                said("share", "share").unit(Unit::Share),
            ],
        ),
    ];
    for (key, title, columns) in tables {
        if list(&result.figures, key).next().is_some() {
            layout.tables.push(Table::of_figures(key, title, key, columns));
        }
    }
    for finding in list(&result.figures, "findings").take(SAID_FINDINGS) {
        let said =
            format!("{}; the history itself: {}", text(finding, "what"), text(finding, "history"));
        let seed = finding.get("seed").map_or(String::new(), Value::to_string);
        layout.say(format!("seed {seed} of {}", text(finding, "target")), said);
    }
    result.layout = layout;
}

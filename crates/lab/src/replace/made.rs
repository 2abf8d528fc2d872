//! What came of a plan, and of each of its rows.

use serde::{Deserialize, Serialize};
use serde_json::json;
use warikomi_measure::{RunResult, Thresholds, TimeBase, Warning, table, warnings};

use super::edge::Edge;
use super::growth::Growth;
use super::plan::Plan;
use super::row::Row;
use super::tally::{Line, Moment};
use crate::watch::Watch;

/// What came of a plan.
pub struct Replaced {
    /// The figures; a row for each way with each load.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
    /// Each replacement.
    pub lines: Vec<Line>,
    /// One replacement of each row, step by step.
    pub timeline: Vec<Moment>,
    /// What was lost although it was promised not to be; a run with anything here has failed.
    pub broken: Vec<String>,
}

/// What came of one row.
#[derive(Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) row: Row,
    pub(super) lines: Vec<Line>,
    pub(super) timeline: Vec<Moment>,
    /// Of a soak.
    pub(super) growth: Option<Growth>,
    pub(super) warnings: Vec<Warning>,
}

impl Replaced {
    /// All rows together, and the edges that were looked for.
    pub(super) fn of(
        plan: &Plan,
        made: impl Iterator<Item = Made>,
        edges: Vec<Edge>,
        watch: &Watch,
    ) -> Replaced {
        let (mut rows, mut lines, mut timeline) = (Vec::new(), Vec::new(), Vec::new());
        let (mut growth, mut doubts) = (Vec::new(), Vec::new());
        for of_row in made {
            rows.push(of_row.row);
            lines.extend(of_row.lines);
            timeline.extend(of_row.timeline);
            growth.extend(of_row.growth);
            doubts.extend(of_row.warnings);
        }
        let (target, machine) = watch.seen();
        let mut result = table("replace", TimeBase::Real, machine, target, plan, &rows);
        if !growth.is_empty() {
            result.figures.insert("growth".into(), json!(growth));
        }
        if !edges.is_empty() {
            result.figures.insert("edges".into(), json!(edges));
        }
        result.warnings = warnings(&result, &Thresholds::default());
        result.warnings.extend(doubts);
        let broken = rows.iter().filter_map(Row::broken).collect();
        Replaced { result, rows, lines, timeline, broken }
    }
}

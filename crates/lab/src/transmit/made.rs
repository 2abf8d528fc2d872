//! What came of a comparison.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TargetInfo, TimeBase, table};

use super::advice::advise;
use super::fitted;
use super::options::Options;
use super::row::{Repetition, Row};
use super::shares::shares;

/// What came of a comparison.
pub struct Transmitted {
    /// The figures; a row for each traffic with each way to send it.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
    /// Each repetition of each row.
    pub repetitions: Vec<Repetition>,
}

impl Transmitted {
    /// All rows together, but for what is to be said against them.
    pub(super) fn of(
        options: &Options,
        time_base: TimeBase,
        (target, machine): (TargetInfo, Machine),
        (rows, repetitions): (Vec<Row>, Vec<Repetition>),
    ) -> Transmitted {
        let plan = options.plan_of_result();
        let mut result = table("transmit", time_base, machine, target, &plan, &rows);
        let shares = shares(&rows);
        if !shares.is_empty() {
            result.figures.insert("shares".into(), json!(shares));
        }
        result.figures.insert("advice".into(), json!(advise(&rows)));
        fitted::note(&mut result, options.nic.bus.as_ref(), None);
        Transmitted { result, rows, repetitions }
    }
}

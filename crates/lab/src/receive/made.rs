//! What came of a comparison, and of each of its rows.

use serde::{Deserialize, Serialize};
use serde_json::json;
use warikomi_driver::strategy::CpuBudget;
use warikomi_measure::RunResult;

use super::advice::advise;
use super::claim::judge;
use super::doubts::Doubts;
use super::losses::losses;
use super::process::Options;
use super::row::{Burst, Row};

/// What came of a comparison.
pub struct Received {
    /// The figures; a row for each strategy with each of its parameters.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
    /// Each burst of each row.
    pub bursts: Vec<Burst>,
}

/// What came of one row.
#[derive(Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) row: Row,
    pub(super) bursts: Vec<Burst>,
    pub(super) doubts: Doubts,
}

impl Received {
    /// Adds which way the rows recommend within this budget.
    pub(super) fn advise(&mut self, budget: CpuBudget) {
        let said = match advise(&self.rows, budget.share()) {
            Ok(advice) => serde_json::to_value(advice).unwrap_or_default(),
            Err(none) => json!({"cpu_budget_share": budget.share(), "none": none.to_string()}),
        };
        self.result.figures.insert("advice".to_owned(), said);
    }

    /// With what the rows say of the claim that was asked about, or else of where losses begin.
    pub(super) fn judged(mut self, options: &Options) -> Received {
        if let Some(claim) = options.claim {
            self.result.figures.insert("verdict".to_owned(), json!(judge(claim, &self.rows)));
        }
        // Rows of a search are of buffers that were found.
        let losses = if options.find_smallest_buffer { Vec::new() } else { losses(&self.rows) };
        if !losses.is_empty() {
            self.result.figures.insert("losses".to_owned(), json!(losses));
        }
        self
    }

    /// All rows together. `describe` makes a result of them.
    pub(super) fn of(made: Vec<Made>, describe: impl FnOnce(&[Row]) -> RunResult) -> Received {
        let (mut rows, mut bursts, mut doubts) = (Vec::new(), Vec::new(), Doubts::default());
        for of_row in made {
            rows.push(of_row.row);
            bursts.extend(of_row.bursts);
            doubts.add(&of_row.doubts);
        }
        let mut result = describe(&rows);
        result.warnings = doubts.warnings(&result);
        Received { result, rows, bursts }
    }
}

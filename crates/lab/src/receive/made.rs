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
        // Rows that an earlier run, or another shard, has made have their numbers among all, too.
        for (row, of_row) in made.into_iter().enumerate() {
            rows.push(of_row.row);
            bursts.extend(of_row.bursts.into_iter().map(|burst| Burst { row, ..burst }));
            doubts.add(&of_row.doubts);
        }
        let mut result = describe(&rows);
        result.warnings = doubts.warnings(&result);
        Received { result, rows, bursts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_measure::{Machine, TimeBase};

    #[test]
    fn bursts_have_the_number_of_their_row_wherever_it_was_made() {
        // What each says by itself, because a run that was resumed has counted from its own first.
        let made = |strategy: &str, rows: [usize; 2]| {
            let row = Row::new(strategy, None, 7_000_000, 50_000);
            let burst = |row| Burst {
                row,
                strategy: strategy.to_owned(),
                poll_us: None,
                buffer_bytes: 7_000_000,
                burst_bytes: 50_000,
                at_ns: 0.0,
                delay_ns: None,
                lost: 0,
            };
            Made { row, bursts: rows.map(burst).to_vec(), doubts: Doubts::default() }
        };
        let all = vec![made("poll", [0, 0]), made("interrupt", [1, 1]), made("hybrid", [0, 0])];
        let describe = |_: &[Row]| RunResult::new("receive", TimeBase::Real, Machine::default());
        let received = Received::of(all, describe);
        let rows: Vec<usize> = received.bursts.iter().map(|burst| burst.row).collect();
        assert_eq!(rows, [0, 0, 1, 1, 2, 2]);
        for burst in &received.bursts {
            assert_eq!(burst.strategy, received.rows[burst.row].strategy);
        }
    }
}

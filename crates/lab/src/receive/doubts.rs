//! What is to be said against the rows of a comparison.

use serde::{Deserialize, Serialize};
use warikomi_inject::Plan;
use warikomi_measure::{RunResult, Thresholds, Warning, warnings};

use crate::inject::Injected;

/// More missed deadlines than this share of the packets are no longer the traffic that was asked for.
const MISSED_SHARE: f64 = 0.01;

/// What was seen in one row, or in all rows together.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Doubts {
    packets: u64,
    missed_deadlines: u64,
    /// Rows whose compute job was not as fast after the run as before it.
    pub(super) drifted: usize,
}

impl Doubts {
    /// Rates before and after a run that differ by more than this share are no calibration.
    pub(super) const DRIFT_SHARE: f64 = 0.05;

    /// Takes a run into account.
    pub(super) fn add_run(&mut self, plan: &Plan, run: &Injected) {
        self.packets += plan.count;
        self.missed_deadlines += run.result.pacing.map_or(0, |pacing| pacing.missed_deadlines);
    }

    /// Takes another row into account.
    pub(super) fn add(&mut self, other: &Doubts) {
        self.packets += other.packets;
        self.missed_deadlines += other.missed_deadlines;
        self.drifted += other.drifted;
    }

    /// What is to be said against `result`, and against its rows.
    pub(super) fn warnings(&self, result: &RunResult) -> Vec<Warning> {
        let mut warnings = warnings(result, &Thresholds::default());
        warnings.extend(self.about_rows());
        warnings
    }

    fn about_rows(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.missed_deadlines as f64 > MISSED_SHARE * self.packets as f64 {
            warnings.push(Warning {
                what: format!(
                    "{} of {} packets went out later than the line would have brought them",
                    self.missed_deadlines, self.packets
                ),
                hint: "repeat when nothing else runs on these cores".to_owned(),
            });
        }
        if self.drifted > 0 {
            warnings.push(Warning {
                what: format!(
                    "in {} rows the compute job was more than {}% faster before the run than after \
                     it, or slower: cpu_share is uncertain by as much there",
                    self.drifted,
                    100.0 * Self::DRIFT_SHARE
                ),
                hint:
                    "repeat when nothing else runs on these cores, or give a longer --calibration"
                        .to_owned(),
            });
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_doubtful_is_said() {
        assert!(Doubts { packets: 100, missed_deadlines: 1, drifted: 0 }.about_rows().is_empty());
        let said = Doubts { packets: 100, missed_deadlines: 2, drifted: 1 }.about_rows();
        assert_eq!(said.len(), 2, "{said:?}");
    }
}

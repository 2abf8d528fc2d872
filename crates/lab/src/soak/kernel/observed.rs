//! What was seen of a history of the kernel target: plain data, for checkers that know nothing else.

use warikomi_inject::Plan;
use warikomi_measure::{FaultReport, Row, Totals};
use warikomi_protocol::answers::ReceiveTotals;

/// What was asked for and what was seen.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// What was asked for; faults that are not in it were not.
    pub(super) plan: Plan,
    /// Whether work takes declared time.
    pub(super) has_costs: bool,
    /// What the ledger says of all packets, and of each.
    pub(super) totals: Totals,
    pub(super) rows: Vec<Row>,
    /// What came of the faults.
    pub(super) faults: Option<FaultReport>,
    /// What the application counted.
    pub(super) received: ReceiveTotals,
    /// The last lines that the kernel has printed.
    pub(super) console: Vec<String>,
    /// Marks of harm that the kernel has set since the packets began.
    pub(super) harm: u64,
}

impl Observed {
    /// How often faults of these kinds, that were asked for, have struck.
    pub(super) fn struck(&self, names: &[&str]) -> u64 {
        let asked: Vec<String> = self.plan.faults.iter().map(ToString::to_string).collect();
        let findings = self.faults.iter().flat_map(|report| &report.findings);
        findings
            .filter(|found| asked.contains(&found.fault))
            .filter(|found| names.contains(&found.fault.split(':').next().unwrap_or_default()))
            .map(|found| found.injected)
            .sum()
    }

    /// Whether the run was cut short, because the guest answers no longer.
    pub(super) fn was_cut_short(&self) -> bool {
        self.faults.as_ref().is_some_and(|report| report.evidence.ended.is_some())
    }
}

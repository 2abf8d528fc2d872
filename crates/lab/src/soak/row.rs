//! What came of histories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warikomi_sim::history::digest_of;

use super::history::{History, Judged};

/// What came of the seeds of a case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) seeds: String,
    pub(super) targets: BTreeMap<String, Counts>,
    pub(super) findings: Vec<Finding>,
    /// Real time that it took, in seconds.
    pub(super) took_s: f64,
}

/// What is counted of the histories of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) histories: u64,
    pub(super) packets: u64,
    /// To an application, or to the driver if they were meant for it.
    pub(super) delivered: u64,
    /// Histories that were made twice, to see whether they are the same.
    pub(super) twice: u64,
    pub(super) wrong: u64,
    /// Of the histories' digests; of all, of the cases' digests.
    pub(super) digest: String,
    /// How many histories had what.
    pub(super) drawn: BTreeMap<String, u64>,
}

/// A history that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) seed: u64,
    pub(super) target: String,
    /// The checkers that found something, and what each says.
    pub(super) checkers: String,
    pub(super) what: String,
    /// The command that tries the seed again, with all checkers.
    pub(super) command: String,
    /// The command that repeats the history; a shorter one, if one was looked for.
    pub(super) history: String,
}

impl Counts {
    /// Counts a history.
    pub(super) fn add<H: History>(&mut self, history: &H, judged: &Judged, twice: bool) {
        self.histories += 1;
        self.packets += judged.packets;
        self.delivered += judged.delivered;
        self.twice += u64::from(twice);
        self.wrong += u64::from(!judged.violations.is_empty());
        self.digest = digest_of([self.digest.as_str(), judged.digest.as_str()]);
        for feature in history.features() {
            *self.drawn.entry(feature).or_default() += 1;
        }
    }

    /// Counts those of a case. They may come from a file.
    fn add_all(&mut self, case: &Counts) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.histories, case.histories);
        add(&mut self.packets, case.packets);
        add(&mut self.delivered, case.delivered);
        add(&mut self.twice, case.twice);
        add(&mut self.wrong, case.wrong);
        self.digest = digest_of([self.digest.as_str(), case.digest.as_str()]);
        for (what, count) in &case.drawn {
            add(self.drawn.entry(what.clone()).or_default(), *count);
        }
    }
}

/// The sums of all cases, by target.
pub(super) fn all(made: &[Made]) -> BTreeMap<&str, Counts> {
    let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
    for (target, counts) in made.iter().flat_map(|case| &case.targets) {
        all.entry(target).or_default().add_all(counts);
    }
    all
}

//! Bugs that are planted before anything else is tried: checkers that do not find them would find nothing else either.

use serde::{Deserialize, Serialize};
use warikomi_clock::Seed;
use warikomi_sim::planted;

use super::history::{END, History, Judged, Violation};
use super::kernel::{self, KernelArguments, KernelHistory};
use super::process::ProcessHistory;
use crate::error::Error;
use crate::watch::Watch;

/// A planted bug that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Canary {
    pub(super) target: String,
    pub(super) bug: String,
    /// How many histories it took.
    pub(super) histories: u64,
    /// The checkers that found it.
    pub(super) checkers: String,
}

/// Histories with a bug that are tried until it is found. Most bugs show within ten; one that needs the death of a
/// driver in the middle of something may take a hundred times as many.
const MOST: u64 = 5_000;

/// Judges a history.
pub(super) type Judge<'a, H> = &'a mut dyn FnMut(&H) -> Result<Judged, Error>;

/// Plants every bug of the process target.
pub(super) fn of_process(judge: Judge<'_, ProcessHistory>) -> Result<Vec<Canary>, Error> {
    let canary = |bug: planted::Bug| {
        let histories = (1..=MOST).map(|seed| {
            let mut dice = Seed(seed).dice();
            ProcessHistory::draw(seed, &mut dice).with(bug)
        });
        find(bug.to_string(), histories, judge)
    };
    planted::Bug::ALL.into_iter().map(canary).collect()
}

/// Plants every bug of the kernel target.
pub(super) fn of_kernel(
    kernel: &KernelArguments,
    judge: Judge<'_, KernelHistory>,
) -> Result<Vec<Canary>, Error> {
    let canary = |bug: kernel::Bug| {
        find(bug.to_string(), KernelHistory::with(bug, kernel)?.into_iter(), judge)
    };
    kernel::Bug::ALL.into_iter().map(canary).collect()
}

/// Tries histories until the bug is found. That one could not be run to its end is no finding.
fn find<H: History>(
    bug: String,
    histories: impl Iterator<Item = H>,
    judge: Judge<'_, H>,
) -> Result<Canary, Error> {
    let mut no_end = None;
    for (number, history) in (1..).zip(histories) {
        let judged = judge(&history)?;
        no_end = judged.violations.iter().find(|found| found.checker == END).cloned().or(no_end);
        let found = judged.violations.iter().map(|found| found.checker);
        let checkers: Vec<&str> = found.filter(|checker| *checker != END).collect();
        if !checkers.is_empty() {
            let (target, checkers) = (H::TARGET.to_owned(), checkers.join(", "));
            return Ok(Canary { target, bug, histories: number, checkers });
        }
    }
    Err(match no_end {
        None => Error::Blind { bug, target: H::TARGET },
        Some(Violation { what, .. }) => Error::impossible(format!(
            "{bug} (--target {}) cannot be planted, because no history comes to its end: {what}",
            H::TARGET
        )),
    })
}

/// As it is: run, and judged by its checkers.
pub(super) fn as_it_is<H: History>(watch: &mut Watch) -> impl FnMut(&H) -> Result<Judged, Error> {
    |history| history.run(watch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_found() {
        let mut watch = Watch::unobserved();
        let found = of_process(&mut as_it_is(&mut watch)).unwrap();
        assert_eq!(found.len(), planted::Bug::ALL.len());
        assert!(found.iter().all(|canary| !canary.checkers.is_empty()), "{found:?}");
    }

    #[test]
    fn checkers_that_find_nothing_fail_the_soak() {
        let mut blind = |history: &ProcessHistory| {
            let judged = history.run(&mut Watch::unobserved())?;
            Ok(Judged { violations: Vec::new(), ..judged })
        };
        let error = of_process(&mut blind).unwrap_err().to_string();
        assert!(error.contains("do not find a driver that sleeps without a last look"), "{error}");
        let error = of_kernel(&KernelArguments::default(), &mut |_| Ok(Judged::default()));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a card that loses a packet (--target kernel)"), "{error}");
    }
}

//! Random histories: a seed decides what arrives, who receives it how, what everything takes, and what
//! goes wrong; checkers that know none of it judge what happened.

mod draw;
mod drawn;

use std::fmt;

use warikomi_clock::Seed;

use super::checkers::Violation;
use super::{Outcome, Pair, VirtualError};

pub use drawn::{Drawn, Omission, ParseOmissionError};

/// Histories to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histories {
    /// The first; the next have the seeds behind it.
    pub first: Drawn,
    /// Number of histories.
    pub count: u64,
}

/// What came of many histories, none of which was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Histories.
    pub histories: u64,
    /// Frames that arrived.
    pub packets: u64,
    /// Packets that the application had.
    pub delivered: u64,
    /// Events that were judged.
    pub events: u64,
    /// Parts that died, and were started again.
    pub restarts: u64,
    /// Of these, drivers that gave up by themselves, because of what the device reported.
    pub failures: u64,
    /// A digest of all histories.
    pub digest: String,
}

/// Why it ended before all histories were tried.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A checker has found something.
    #[error("{0}")]
    Wrong(Box<Failure>),
    /// One could not be run to its end.
    #[error("history {seed} came to no end: {why}; to repeat it: {command}")]
    Run {
        /// Its seed.
        seed: u64,
        /// The command that repeats it.
        command: String,
        /// Why it could not be run.
        why: VirtualError,
    },
}

/// A history that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The history.
    pub drawn: Drawn,
    /// The command that repeats it.
    pub command: String,
    /// What is wrong, by one line of each checker that found something.
    pub violations: Vec<Violation>,
    /// The whole of it.
    pub outcome: Outcome,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "history {} is wrong", self.drawn.seed.0)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        write!(f, "to repeat it: {}", self.command)
    }
}

/// Tries histories of a card and its driver until one is wrong; `tried` is told how many have been.
pub fn histories(
    wanted: &Histories,
    pair: &Pair,
    tried: &mut dyn FnMut(u64),
) -> Result<Summary, HistoryError> {
    let (mut summary, mut digests) = (Summary::default(), Vec::new());
    for number in 0..wanted.count {
        let seed = Seed(wanted.first.seed.0.wrapping_add(number));
        let drawn = Drawn { seed, ..wanted.first.clone() };
        let judged = drawn.judged(pair);
        let command = drawn.command(pair.driver().info().name);
        let (outcome, violations) = match judged {
            Ok(judged) => judged,
            Err(why) => return Err(HistoryError::Run { seed: seed.0, command, why }),
        };
        if !violations.is_empty() {
            let failure = Failure { drawn, command, violations, outcome };
            return Err(HistoryError::Wrong(Box::new(failure)));
        }
        digests.push(outcome.digest);
        summary.histories += 1;
        summary.packets += outcome.counts.injected;
        summary.delivered += outcome.counts.delivered;
        summary.events += outcome.events;
        summary.restarts += u64::from(outcome.counts.restarts);
        summary.failures += outcome.counts.failures;
        tried(number + 1);
    }
    summary.digest = digest_of(digests.iter().map(String::as_str));
    Ok(summary)
}

/// A digest of many histories, or of parts of them, from their own.
pub fn digest_of<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut all = blake3::Hasher::new();
    for digest in digests {
        all.update(digest.as_bytes());
    }
    all.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests;

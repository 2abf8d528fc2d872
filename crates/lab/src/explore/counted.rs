//! What is counted of places that belong together: those of a function, of a line, of all.

use std::collections::BTreeSet;

use super::row::PlaceRow;
use crate::strike::Verdict;

/// What is counted of some places.
#[derive(Default)]
pub(super) struct Counted<'a> {
    pub(super) places: u64,
    pub(super) reached: u64,
    /// Struck at the place itself, not later.
    pub(super) at_once: u64,
    pub(super) bad: u64,
    pub(super) handlers: BTreeSet<&'a str>,
    pub(super) worst: Option<Verdict>,
}

impl<'a> Counted<'a> {
    pub(super) fn add(&mut self, row: &'a PlaceRow) {
        self.places += 1;
        if row.verdict <= Verdict::NotReached {
            return;
        }
        self.reached += 1;
        self.at_once += u64::from(!row.deferred && !row.handler.is_empty());
        self.bad += u64::from(row.verdict.is_bad());
        if !row.handler.is_empty() {
            self.handlers.insert(&row.handler);
        }
        self.worst = self.worst.max(Some(row.verdict));
    }

    /// The worst verdict as a person reads it.
    pub(super) fn worst(&self) -> Option<String> {
        self.worst.map(|worst| worst.to_string())
    }
}

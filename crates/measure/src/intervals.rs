//! How far apart events came, against how far apart they were meant to come.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};

use crate::{Distribution, Samples};

/// What is said about the intervals between events of one kind, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalStats {
    /// The intervals.
    #[serde(flatten)]
    pub all: Distribution,
    /// The share (0 to 1) within 1% of the requested interval; absent where none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_1_percent: Option<f64>,
    /// The share (0 to 1) within 6.25% of the requested interval; absent where none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_6_25_percent: Option<f64>,
    /// Intervals in which the loop that measures was itself not running.
    #[serde(default)]
    pub in_hiccups: u64,
    /// The same figures without these; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_hiccups: Option<Box<IntervalStats>>,
}

/// Takes the times of events and keeps the intervals between them, in fixed memory.
#[derive(Clone, Debug)]
pub struct IntervalRecorder {
    last: Option<Time>,
    all: Judged,
    clean: Judged,
}

/// Intervals, and how many are near enough to the requested one. Counted one by one, because the
/// histogram's buckets are too coarse to judge by.
#[derive(Clone, Debug)]
struct Judged {
    requested: Option<Span>,
    samples: Samples,
    within_1_percent: u64,
    within_6_25_percent: u64,
}

impl IntervalRecorder {
    /// `requested` is what the intervals are judged by: `None` if nothing was requested (as fast
    /// as possible) or no single interval was (a random arrival).
    pub fn new(requested: Option<Span>) -> IntervalRecorder {
        IntervalRecorder { last: None, all: Judged::new(requested), clean: Judged::new(requested) }
    }

    /// An event happened at `at`; `in_hiccup` if the loop was not running for part of the time
    /// since the one before.
    #[inline]
    pub fn seen(&mut self, at: Time, in_hiccup: bool) {
        if let Some(last) = self.last.replace(at) {
            let interval = at.since(last);
            self.all.record(interval);
            if !in_hiccup {
                self.clean.record(interval);
            }
        }
    }

    /// The next event has no interval: what lies between is not to be judged.
    pub fn interrupt(&mut self) {
        self.last = None;
    }

    /// The figures; `None` of fewer than two events.
    pub fn stats(&self) -> Option<IntervalStats> {
        let mut stats = self.all.stats()?;
        stats.in_hiccups = self.all.samples.count() - self.clean.samples.count();
        if stats.in_hiccups > 0 {
            stats.without_hiccups = self.clean.stats().map(Box::new);
        }
        Some(stats)
    }
}

impl Judged {
    fn new(requested: Option<Span>) -> Judged {
        let samples = Samples::new();
        Judged { requested, samples, within_1_percent: 0, within_6_25_percent: 0 }
    }

    #[inline]
    fn record(&mut self, interval: Span) {
        self.samples.record(interval);
        if let Some(requested) = self.requested {
            let off = interval.as_ps().abs_diff(requested.as_ps());
            self.within_1_percent += u64::from(off.saturating_mul(100) <= requested.as_ps());
            self.within_6_25_percent += u64::from(off.saturating_mul(16) <= requested.as_ps());
        }
    }

    fn stats(&self) -> Option<IntervalStats> {
        let all = self.samples.summary()?;
        let share = |near: u64| self.requested.map(|_| near as f64 / all.count as f64);
        Some(IntervalStats {
            all,
            within_1_percent: share(self.within_1_percent),
            within_6_25_percent: share(self.within_6_25_percent),
            in_hiccups: 0,
            without_hiccups: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(requested_ns: Option<u64>, times_ns: &[(u64, bool)]) -> Option<IntervalStats> {
        let mut recorder = IntervalRecorder::new(requested_ns.map(Span::from_ns));
        for &(ns, in_hiccup) in times_ns {
            recorder.seen(Time::from_ps(ns * 1_000), in_hiccup);
        }
        recorder.stats()
    }

    #[test]
    fn shares_are_of_the_requested_interval_and_include_the_edge() {
        let times = [(0, false), (1_000, false), (2_010, false), (3_072, false), (4_135, false)];
        let stats = recorded(Some(1_000), &times).unwrap();
        assert_eq!(stats.within_1_percent, Some(0.5), "1,000 and 1,010 of 1,000");
        assert_eq!(stats.within_6_25_percent, Some(0.75), "also 1,062, not 1,063");
        assert_eq!((stats.all.count, stats.all.min, stats.all.max), (4, 1_000.0, 1_063.0));
        assert_eq!((stats.in_hiccups, stats.without_hiccups), (0, None));
    }

    #[test]
    fn hiccups_are_marked_and_never_removed() {
        let stats = recorded(Some(100), &[(0, false), (100, false), (900, true), (1_000, false)]);
        let stats = stats.unwrap();
        assert_eq!((stats.all.count, stats.all.max, stats.in_hiccups), (3, 800.0, 1));
        let clean = stats.without_hiccups.unwrap();
        assert_eq!((clean.all.count, clean.all.max, clean.within_1_percent), (2, 100.0, Some(1.0)));
    }

    #[test]
    fn nothing_is_judged_where_nothing_was_requested() {
        let stats = recorded(None, &[(0, false), (5, false)]).unwrap();
        assert_eq!((stats.within_1_percent, stats.within_6_25_percent), (None, None));
        assert_eq!(recorded(None, &[(0, false)]), None);
    }

    #[test]
    fn a_flat_form_comes_back_from_json() {
        let stats = recorded(Some(100), &[(0, false), (100, false), (900, true)]).unwrap();
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["p50"], serde_json::json!(100.0));
        assert_eq!(serde_json::from_value::<IntervalStats>(json).unwrap(), stats);
    }
}

//! When a loop that should never stop did.
//!
//! A loop that spins reads the clock in every pass. If two passes are further apart than any pass
//! takes, something else had the processor: the host of a virtual machine, an interrupt, another
//! process. What was measured meanwhile says little about the driver under test.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};

/// A time at which the loop was not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hiccup {
    /// The last pass before.
    pub from: Time,
    /// The first pass after.
    pub until: Time,
}

/// What a pass had to do, which decides how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// Nothing.
    Idle,
    /// Register accesses, or a frame to inject.
    Worked,
    /// To signal a target that sleeps.
    Signalled,
    /// To look after the target, and to tell how far the run is.
    KeptHouse,
}

impl Meanwhile {
    /// What takes longest counts.
    pub fn of(signalled: bool, worked: bool) -> Meanwhile {
        match (signalled, worked) {
            (true, _) => Meanwhile::Signalled,
            (false, true) => Meanwhile::Worked,
            (false, false) => Meanwhile::Idle,
        }
    }
}

/// Hiccups of one loop, in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HiccupSummary {
    /// Passes further apart than this count, in nanoseconds.
    pub threshold_ns: f64,
    /// Number of hiccups.
    pub count: u64,
    /// Time lost in all, in nanoseconds.
    pub total_ns: f64,
    /// The longest, in nanoseconds.
    pub longest_ns: f64,
    /// Hiccups whose times are not kept any more, so that nothing could be marked by them.
    #[serde(default)]
    pub not_kept: u64,
}

/// Notices hiccups.
#[derive(Clone, Debug)]
pub struct Hiccups {
    threshold: Span,
    last: Option<Time>,
    count: u64,
    total: Span,
    longest: Span,
    kept: Vec<Hiccup>,
}

impl Default for Hiccups {
    fn default() -> Self {
        Hiccups::new(Hiccups::DEFAULT_THRESHOLD)
    }
}

impl Hiccups {
    /// What no pass takes by itself, unless it injects frames of many kilobytes.
    pub const DEFAULT_THRESHOLD: Span = Span::from_us(2);

    /// What no pass takes that carried register accesses out, or injected.
    pub const WORKING_THRESHOLD: Span = Span::from_us(5);

    /// What no pass takes that signalled a sleeping target: to a process on another core of a virtual machine
    /// that is 5 µs and more.
    pub const SIGNALLING_THRESHOLD: Span = Span::from_us(20);

    /// What no pass takes that kept house: a few microseconds are usual.
    pub const HOUSEKEEPING_THRESHOLD: Span = Span::from_us(20);

    /// How many hiccups are kept with their times: the first so many, 1 MB of them.
    pub const KEPT: usize = 65_536;

    /// Counts passes further apart than `threshold`.
    pub fn new(threshold: Span) -> Hiccups {
        let kept = Vec::with_capacity(Self::KEPT);
        Hiccups { threshold, last: None, count: 0, total: Span::ZERO, longest: Span::ZERO, kept }
    }

    /// The loop comes by at `now`. Returns whether it has just hiccupped.
    #[inline]
    pub fn pass(&mut self, now: Time) -> bool {
        self.pass_within(now, self.threshold)
    }

    /// The same after a pass that had this to do.
    #[inline]
    pub fn pass_after(&mut self, now: Time, meanwhile: Meanwhile) -> bool {
        let threshold = match meanwhile {
            Meanwhile::Idle => Span::ZERO,
            Meanwhile::Worked => Self::WORKING_THRESHOLD,
            Meanwhile::Signalled => Self::SIGNALLING_THRESHOLD,
            Meanwhile::KeptHouse => Self::HOUSEKEEPING_THRESHOLD,
        };
        self.pass_within(now, self.threshold.max(threshold))
    }

    #[inline]
    fn pass_within(&mut self, now: Time, threshold: Span) -> bool {
        let Some(last) = self.last.replace(now) else { return false };
        if now.since(last) <= threshold {
            return false;
        }
        self.note(Hiccup { from: last, until: now });
        true
    }

    /// Takes a hiccup that was noticed elsewhere; to be told in order.
    pub fn seen(&mut self, from: Time, until: Time) {
        self.note(Hiccup { from, until });
    }

    #[cold]
    fn note(&mut self, hiccup: Hiccup) {
        let length = hiccup.until.since(hiccup.from);
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
        if self.kept.len() < Self::KEPT {
            self.kept.push(hiccup);
        }
    }

    /// Hiccups so far. If it has grown between two events, the interval between them is touched.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a kept hiccup overlaps the time from `from` to `until`.
    pub fn touch(&self, from: Time, until: Time) -> bool {
        let after = self.kept.partition_point(|hiccup| hiccup.until <= from);
        self.kept.get(after).is_some_and(|hiccup| hiccup.from < until)
    }

    /// The hiccups with their times, in order: the first [`Hiccups::KEPT`].
    pub fn kept(&self) -> &[Hiccup] {
        &self.kept
    }

    /// The figures.
    pub fn summary(&self) -> HiccupSummary {
        HiccupSummary {
            threshold_ns: self.threshold.as_ns(),
            count: self.count,
            total_ns: self.total.as_ns(),
            longest_ns: self.longest.as_ns(),
            not_kept: self.count - self.kept.len() as u64,
        }
    }
}

/// Which sides were not running for part of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotRunning {
    /// The loop that injects.
    pub support: bool,
    /// The target; never, of one that does not watch itself.
    pub target: bool,
}

impl NotRunning {
    /// Whether it falls into a hiccup of either side.
    pub fn any(self) -> bool {
        self.support || self.target
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match (self.support, self.target) {
            (false, false) => "",
            (true, false) => "support",
            (false, true) => "target",
            (true, true) => "both",
        }
    }
}

/// Hiccups of the loops on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hiccupping {
    /// Of the loop that plays the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub support: Option<HiccupSummary>,
    /// Of the application in the target, if it spins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<HiccupSummary>,
}

/// The hiccups of both sides of a run.
#[derive(Clone, Debug)]
pub struct BothHiccups {
    /// Of the loop that injects.
    pub support: Hiccups,
    /// Of the target, if it watches itself.
    pub target: Option<Hiccups>,
}

impl BothHiccups {
    /// Which sides were not running for part of the time from `from` to `until`.
    pub fn not_running(&self, from: Time, until: Time) -> NotRunning {
        NotRunning {
            support: self.support.touch(from, until),
            target: self.target.as_ref().is_some_and(|hiccups| hiccups.touch(from, until)),
        }
    }

    /// The figures.
    pub fn summary(&self) -> Hiccupping {
        let target = self.target.as_ref().map(Hiccups::summary);
        Hiccupping { support: Some(self.support.summary()), target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Time {
        Time::from_ps(ns * 1_000)
    }

    #[test]
    fn a_gap_beyond_the_threshold_counts() {
        let mut hiccups = Hiccups::default();
        let passes: Vec<bool> =
            [0, 2_000, 4_001, 4_100, 10_000].map(|ns| hiccups.pass(at(ns))).into();
        assert_eq!(passes, [false, false, true, false, true]);
        let summary = hiccups.summary();
        assert_eq!((summary.count, summary.total_ns, summary.longest_ns), (2, 7_901.0, 5_900.0));
    }

    #[test]
    fn work_may_take_longer_but_not_for_ever() {
        let mut hiccups = Hiccups::default();
        hiccups.pass(at(0));
        assert!(!hiccups.pass_after(at(5_000), Meanwhile::Worked));
        assert!(hiccups.pass_after(at(10_001), Meanwhile::Worked));
        assert!(!hiccups.pass_after(at(30_001), Meanwhile::of(true, true)));
        assert!(hiccups.pass_after(at(50_002), Meanwhile::of(true, false)));
        assert!(hiccups.pass(at(52_003)), "an idle pass is judged as before");
        assert!(!hiccups.pass_after(at(72_003), Meanwhile::KeptHouse));
        assert!(hiccups.pass_after(at(92_004), Meanwhile::KeptHouse));
    }

    #[test]
    fn touching_is_overlapping() {
        let mut hiccups = Hiccups::default();
        [0, 10_000, 10_100, 30_000].iter().for_each(|&ns| _ = hiccups.pass(at(ns)));
        assert!(hiccups.touch(at(5_000), at(5_001)));
        assert!(hiccups.touch(at(9_000), at(10_050)));
        assert!(!hiccups.touch(at(10_000), at(10_100)), "only between two");
        assert!(hiccups.touch(at(10_000), at(10_101)));
        assert!(!hiccups.touch(at(30_000), at(90_000)));
    }

    proptest! {
        #[test]
        fn marks_what_a_plain_search_marks(
            gaps in prop::collection::vec(1u64..5_000, 1..100),
            from in 0u64..100_000,
            len in 1u64..10_000,
        ) {
            let mut hiccups = Hiccups::default();
            let mut now = 0;
            for gap in gaps {
                hiccups.pass(at(now));
                now += gap;
            }
            let (from, until) = (at(from), at(from + len));
            let plain = hiccups.kept().iter().any(|h| h.from < until && h.until > from);
            prop_assert_eq!(hiccups.touch(from, until), plain);
        }
    }
}

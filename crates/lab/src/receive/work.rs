//! What a compute job did, and so what was left to it.

use warikomi_clock::{Span, Time};

/// How far a compute job had come at some times.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// In the order of the times.
    samples: Vec<(Time, u64)>,
}

impl Work {
    /// Work as it was noted. What is not in the order of its times is left out.
    pub fn new(samples: impl IntoIterator<Item = (Time, u64)>) -> Work {
        let mut kept: Vec<(Time, u64)> = Vec::new();
        for (at, units) in samples {
            if kept.last().is_none_or(|last| last.0 < at && last.1 <= units) {
                kept.push((at, units));
            }
        }
        Work { samples: kept }
    }

    /// How far it was at a time, in between two notes as if it had gone on evenly; `None` before the
    /// first and after the last.
    fn at(&self, time: Time) -> Option<f64> {
        let after = self.samples.partition_point(|(at, _)| *at < time);
        let (end, done) = *self.samples.get(after)?;
        if end == time {
            return Some(done as f64);
        }
        let (begin, before) = *self.samples.get(after.checked_sub(1)?)?;
        let share = time.since(begin).as_ps() as f64 / end.since(begin).as_ps() as f64;
        Some(before as f64 + share * (done - before) as f64)
    }

    /// Units of work a second between two times; `None` where that is not covered.
    pub fn rate(&self, from: Time, until: Time) -> Option<f64> {
        let units = self.at(until)? - self.at(from)?;
        let seconds = until.since(from).as_secs();
        (seconds > 0.0).then_some(units / seconds)
    }

    /// The time of the first note and of the last.
    pub fn span(&self) -> Option<(Time, Time)> {
        Some((self.samples.first()?.0, self.samples.last()?.0))
    }
}

/// The rates of a job while it was alone, before and after something else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alone {
    before: f64,
    after: f64,
}

impl Alone {
    /// The rates before `start` and after `end`, each over `calibration`; `None` if there was no work.
    pub(super) fn around(work: &Work, start: Time, end: Time, calibration: Span) -> Option<Alone> {
        let (first, last) = work.span()?;
        let before = work.rate(first, (first + calibration).min(start))?;
        let begin = Time::from_ps(last.as_ps().saturating_sub(calibration.as_ps()));
        let after = work.rate(begin.max(end), last)?;
        (before > 0.0 && after > 0.0).then_some(Alone { before, after })
    }

    /// What others took (0 to 1) of the processor while the job worked at this rate.
    pub(super) fn taken_share(&self, rate: f64) -> f64 {
        (1.0 - rate / f64::midpoint(self.before, self.after)).clamp(0.0, 1.0)
    }

    /// By how much the two rates differ, as a share of the greater.
    pub(super) fn drift_share(&self) -> f64 {
        (self.before - self.after).abs() / self.before.max(self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn what_was_not_done_was_taken() {
        // 10 units a millisecond alone, 4 between 100 and 200 ms.
        let work = Work::new((0..=300u64).map(|at| {
            let units = 10 * at.min(100) + 4 * at.clamp(100, 200) - 400 + 10 * at.max(200) - 2_000;
            (ms(at), units)
        }));
        let alone = Alone::around(&work, ms(100), ms(200), Span::from_ms(50)).unwrap();
        let rate = work.rate(ms(100), ms(200)).unwrap();
        assert!((rate - 4_000.0).abs() < 1e-6, "{rate}");
        assert!((alone.taken_share(rate) - 0.6).abs() < 1e-9);
        assert!(alone.drift_share() < 1e-9);
        assert!(alone.taken_share(20_000.0).abs() < 1e-9, "never less than nothing");
    }

    #[test]
    fn what_is_not_covered_is_not_known() {
        let work = Work::new([(ms(1), 5), (ms(2), 9), (ms(2), 11), (ms(1), 20), (ms(3), 9)]);
        assert_eq!(work.at(ms(3)), Some(9.0), "what goes back in time is left out");
        assert_eq!((work.at(ms(0)), work.at(ms(4))), (None, None));
        assert_eq!(work.rate(ms(2), ms(2)), None);
        assert_eq!(Work::default().span(), None);
        let idle = Work::new([(ms(0), 0), (ms(10), 0)]);
        assert_eq!(Alone::around(&idle, ms(3), ms(6), Span::from_ms(2)), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_samples(
            samples in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            times in any::<(u64, u64, u64)>(),
        ) {
            let work = Work::new(samples.into_iter().map(|(at, units)| (Time::from_ps(at), units)));
            let (from, until) = (Time::from_ps(times.0), Time::from_ps(times.1));
            let _ = work.rate(from, until);
            let _ = Alone::around(&work, from, until, Span::from_ps(times.2 / 4));
        }
    }
}

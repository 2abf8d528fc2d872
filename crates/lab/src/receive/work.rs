//! What a compute job did, and so what was left to it.
//!
//! Work is counted against the processor time that the target had, not against the clock: what other
//! processes of this machine take from the target is nobody's receiving.

use warikomi_clock::Time;

/// A count that only grows, as it was at some times: units of work, or nanoseconds of processor time.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// In the order of the times.
    samples: Vec<(Time, u64)>,
}

impl Course {
    /// A count as it was noted. What is not in the order of its times is left out.
    pub fn new(samples: impl IntoIterator<Item = (Time, u64)>) -> Course {
        let mut kept: Vec<(Time, u64)> = Vec::new();
        for (at, count) in samples {
            if kept.last().is_none_or(|last| last.0 < at && last.1 <= count) {
                kept.push((at, count));
            }
        }
        Course { samples: kept }
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

    /// By how much it grew between two times; `None` where that is not covered.
    pub fn between(&self, from: Time, until: Time) -> Option<f64> {
        (from < until).then_some(())?;
        Some(self.at(until)? - self.at(from)?)
    }
}

/// A compute job, and the processor time of the target in which it ran.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Units that were done.
    pub units: Course,
    /// Nanoseconds that the target had a processor.
    pub cpu_ns: Course,
}

impl Work {
    /// Units of work for each nanosecond that the target had a processor; `None` where that is not
    /// covered.
    pub fn speed(&self, from: Time, until: Time) -> Option<f64> {
        let cpu_ns = self.cpu_ns.between(from, until)?;
        (cpu_ns > 0.0).then_some(self.units.between(from, until)? / cpu_ns)
    }
}

/// The speeds of a job while it was alone, before and after something else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alone {
    before: f64,
    after: f64,
}

impl Alone {
    /// The speeds in two periods of which nothing else took any; `None` if there was no work.
    pub(super) fn in_periods(
        work: &Work,
        before: (Time, Time),
        after: (Time, Time),
    ) -> Option<Alone> {
        let speed = |(from, until)| work.speed(from, until).filter(|speed| *speed > 0.0);
        Some(Alone { before: speed(before)?, after: speed(after)? })
    }

    /// What others took (0 to 1) of the target's processor while the job worked at this speed.
    pub(super) fn taken_share(&self, speed: f64) -> f64 {
        (1.0 - speed / f64::midpoint(self.before, self.after)).clamp(0.0, 1.0)
    }

    /// By how much the two speeds differ, as a share of the greater.
    pub(super) fn drift_share(&self) -> f64 {
        (self.before - self.after).abs() / self.before.max(self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use warikomi_clock::Span;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn what_was_not_done_was_taken_and_what_the_machine_took_was_not() {
        // 10 units a millisecond alone and 4 between 100 and 200 ms; the target has half a processor
        // up to 150 ms, and then all of one.
        let cpu_ms = |at: u64| at.min(150) / 2 + at.max(150) - 150;
        let units = |at: u64| {
            let cpu = |from: u64, until: u64| cpu_ms(at.clamp(from, until)) - cpu_ms(from);
            10 * cpu(0, 100) + 4 * cpu(100, 200) + 10 * cpu(200, 300)
        };
        let even = (0..=150).map(|half| 2 * half);
        let work = Work {
            units: Course::new(even.clone().map(|at| (ms(at), units(at)))),
            cpu_ns: Course::new(even.map(|at| (ms(at), 1_000_000 * cpu_ms(at)))),
        };
        let alone = Alone::in_periods(&work, (ms(10), ms(90)), (ms(210), ms(290))).unwrap();
        let speed = work.speed(ms(100), ms(200)).unwrap();
        assert!((speed * 1e6 - 4.0).abs() < 1e-6, "{speed}");
        assert!((alone.taken_share(speed) - 0.6).abs() < 1e-9);
        assert!(alone.drift_share() < 1e-9);
        assert!(alone.taken_share(1.0).abs() < 1e-9, "never less than nothing");
    }

    #[test]
    fn what_is_not_covered_is_not_known() {
        let course = Course::new([(ms(1), 5), (ms(2), 9), (ms(2), 11), (ms(1), 20), (ms(3), 9)]);
        assert_eq!(course.at(ms(3)), Some(9.0), "what goes back in time is left out");
        assert_eq!((course.at(ms(0)), course.at(ms(4))), (None, None));
        assert_eq!(course.between(ms(2), ms(2)), None);
        let idle = Work {
            units: Course::new([(ms(0), 0), (ms(10), 0)]),
            cpu_ns: Course::new([(ms(0), 0), (ms(10), 10)]),
        };
        assert_eq!(Alone::in_periods(&idle, (ms(1), ms(3)), (ms(6), ms(9))), None);
        assert_eq!(Work { cpu_ns: Course::default(), ..idle }.speed(ms(1), ms(2)), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_samples(
            samples in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            times in any::<(u64, u64)>(),
        ) {
            let course = Course::new(samples.into_iter().map(|(at, n)| (Time::from_ps(at), n)));
            let work = Work { units: course.clone(), cpu_ns: course };
            let (from, until) = (Time::from_ps(times.0), Time::from_ps(times.1));
            let _ = work.speed(from, until);
            let _ = Alone::in_periods(&work, (from, until), (until, from));
        }
    }
}

//! What a compute job did, and so what was left to it.
//!
//! Work is counted against the processor time that the target had, not against the clock: time
//! that other processes of this machine take from the target is not charged to receiving.

use warikomi_clock::Time;
use warikomi_measure::CountOverTime;

/// A compute job, and the processor time of the target in which it ran.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Units that were done.
    pub units: CountOverTime,
    /// Nanoseconds that the target had a processor.
    pub cpu_ns: CountOverTime,
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
            units: CountOverTime::new(even.clone().map(|at| (ms(at), units(at)))),
            cpu_ns: CountOverTime::new(even.map(|at| (ms(at), 1_000_000 * cpu_ms(at)))),
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
        let idle = Work {
            units: CountOverTime::new([(ms(0), 0), (ms(10), 0)]),
            cpu_ns: CountOverTime::new([(ms(0), 0), (ms(10), 10)]),
        };
        assert_eq!(Alone::in_periods(&idle, (ms(1), ms(3)), (ms(6), ms(9))), None);
        assert_eq!(Work { cpu_ns: CountOverTime::default(), ..idle }.speed(ms(1), ms(2)), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_samples(
            samples in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            times in any::<(u64, u64)>(),
        ) {
            let count = CountOverTime::new(samples.into_iter().map(|(at, n)| (Time::from_ps(at), n)));
            let work = Work { units: count.clone(), cpu_ns: count };
            let (from, until) = (Time::from_ps(times.0), Time::from_ps(times.1));
            let _ = work.speed(from, until);
            let _ = Alone::in_periods(&work, (from, until), (until, from));
        }
    }
}

//! Counts over time.

use warikomi_clock::Time;

/// A count that only grows, as it was at some times: units of work, or nanoseconds of processor time.
#[derive(Clone, Debug, Default)]
pub struct CountOverTime {
    /// In the order of the times.
    samples: Vec<(Time, u64)>,
}

impl CountOverTime {
    /// A count as it was noted. What is not in the order of its times is left out.
    pub fn new(samples: impl IntoIterator<Item = (Time, u64)>) -> CountOverTime {
        let mut kept: Vec<(Time, u64)> = Vec::new();
        for (at, count) in samples {
            if kept.last().is_none_or(|last| last.0 < at && last.1 <= count) {
                kept.push((at, count));
            }
        }
        CountOverTime { samples: kept }
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

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::Span;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn what_is_not_covered_is_not_known() {
        let count =
            CountOverTime::new([(ms(1), 5), (ms(2), 9), (ms(2), 11), (ms(1), 20), (ms(3), 9)]);
        assert_eq!(count.at(ms(3)), Some(9.0), "what goes back in time is left out");
        assert_eq!((count.at(ms(0)), count.at(ms(4))), (None, None));
        assert_eq!(count.between(ms(2), ms(2)), None);
    }
}

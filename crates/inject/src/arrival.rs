//! How packets' arrival times are spread.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Arrivals, Jitter, Seed, Span};

/// Distribution of the packets' arrival times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Every interval the same.
    #[default]
    Constant,
    /// Exponentially distributed intervals with `interval` as their mean.
    Poisson,
    /// Bursts of `burst_bytes`, one every `interval`, the frames of each back to back on the line.
    Bursts,
    /// The same, with exponentially distributed intervals between the bursts.
    PoissonBursts,
    /// Intervals as a real NIC gave them, fitted to what was published of it: off by up to [`FITTED_JITTER`], and
    /// seldom by up to [`FITTED_LONGEST_OUTLIER`].
    FittedRealNic,
}

/// What was published of a real NIC's intervals: always about 2 us to either side ...
pub const FITTED_JITTER: Span = Span::from_us(2);
/// ... and at the worst by 4 s.
pub const FITTED_LONGEST_OUTLIER: Span = Span::from_ms(4_000);
/// How rare that is was not published. Seldom in a published run of 1,000, and often enough to be met.
pub const FITTED_OUTLIER_ONE_IN: u64 = 10_000;

impl Arrival {
    /// Whether `interval` is that of bursts.
    pub fn is_bursts(self) -> bool {
        matches!(self, Arrival::Bursts | Arrival::PoissonBursts)
    }

    pub(crate) fn is_random(self) -> bool {
        matches!(self, Arrival::Poisson | Arrival::PoissonBursts)
    }

    /// Whether intervals are fitted to what was published, which is to be said wherever they are used.
    pub fn is_fitted(self) -> bool {
        self == Arrival::FittedRealNic
    }

    /// The gaps between arrivals, of which `interval` is the mean or the rule.
    pub(crate) fn gaps(self, interval: Span, seed: Seed) -> Arrivals {
        match self {
            Arrival::Constant | Arrival::Bursts => Arrivals::Constant(interval),
            Arrival::Poisson | Arrival::PoissonBursts => {
                Arrivals::Poisson { mean: interval, generator: Box::new(seed.generator()) }
            }
            Arrival::FittedRealNic => Arrivals::Jittered(Box::new(Jitter {
                interval,
                most: FITTED_JITTER,
                outlier_one_in: FITTED_OUTLIER_ONE_IN,
                longest_outlier: FITTED_LONGEST_OUTLIER,
                late: Span::ZERO,
                dice: seed.dice(),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn fitted_intervals_are_off_by_the_jitter_and_not_shorter_than_it() {
        let mut gaps = Arrival::FittedRealNic.gaps(Span::from_us(38), Seed(1));
        let gaps: Vec<Span> = (0..1_000).map(|_| gaps.next_gap()).collect();
        let calm =
            |gap: &&Span| gap.as_ps().abs_diff(Span::from_us(38).as_ps()) <= FITTED_JITTER.as_ps();
        assert!(gaps.iter().filter(calm).count() >= 998);
        assert!(gaps.iter().any(|gap| *gap != gaps[0]));
        let plan = |us| Plan {
            arrival: Arrival::FittedRealNic,
            interval: Span::from_us(us),
            ..Plan::default()
        };
        assert!(plan(2).validate().is_ok());
        let error = plan(1).validate().unwrap_err().to_string();
        assert!(error.contains("interval of 2 µs or more"), "{error}");
    }
}

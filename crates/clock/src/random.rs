//! Random numbers that a seed repeats.
//!
//! ChaCha8 rather than the `rand` crate's default generator, because the default may change from
//! one release to the next and a seed in a report must still mean the same in ten years.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use crate::Span;

/// What a run's randomness starts from; printed with every result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub u64);

impl Seed {
    /// A generator that yields the same numbers for the same seed, on every machine.
    pub fn generator(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }

    /// The same for choices.
    pub fn dice(self) -> Dice {
        Dice(self.generator())
    }
}

/// Random numbers for choices.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// From `least` to `most`, both included.
    pub fn number(&mut self, least: u64, most: u64) -> u64 {
        let choices = most - least + 1;
        least + ((u128::from(self.0.next_u64()) * u128::from(choices)) >> 64) as u64
    }

    /// As likely in each factor of two from `least` (1 or more) to `most`.
    pub fn magnitude(&mut self, least: u64, most: u64) -> u64 {
        let doublings = u64::from((most / least).ilog2());
        let low = least << self.number(0, doublings);
        self.number(low, (low * 2 - 1).min(most))
    }

    /// True as often as one time in `most`.
    pub fn one_in(&mut self, most: u64) -> bool {
        self.number(1, most) == 1
    }

    /// One of these, each as likely.
    ///
    /// # Panics
    ///
    /// Of nothing.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.number(0, choices.len() as u64 - 1) as usize]
    }
}

/// The gaps between arrivals.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Every gap the same.
    Constant(Span),
    /// Exponentially distributed gaps with this mean: a Poisson process.
    Poisson {
        /// The mean gap.
        mean: Span,
        /// Where the numbers come from.
        generator: Box<ChaCha8Rng>,
    },
    /// Gaps around a constant one, and now and then a long one.
    Jittered(Box<Jitter>),
}

/// Arrivals at a constant interval of which each is late by up to some time, and after which, seldom, nothing comes
/// for long.
#[derive(Clone, Debug)]
pub struct Jitter {
    /// The constant interval, at least as long as `most`.
    pub interval: Span,
    /// How late an arrival may be: two intervals in a row differ by less than twice that, one from the constant one by
    /// at most that.
    pub most: Span,
    /// One gap in so many is longer, ...
    pub outlier_one_in: u64,
    /// ... by this at most, as likely in each factor of two.
    pub longest_outlier: Span,
    /// How late the last arrival was.
    pub late: Span,
    /// Where the numbers come from.
    pub dice: Dice,
}

impl Jitter {
    fn next_gap(&mut self) -> Span {
        let late = Span::from_ps(self.dice.number(0, self.most.as_ps()));
        let last = std::mem::replace(&mut self.late, late);
        let gap = Span::from_ps((self.interval + late).as_ps().saturating_sub(last.as_ps()));
        if !self.dice.one_in(self.outlier_one_in) {
            return gap;
        }
        gap + Span::from_ps(self.dice.magnitude(self.most.as_ps(), self.longest_outlier.as_ps()))
    }
}

impl Arrivals {
    /// The gap before the next arrival.
    #[inline]
    pub fn next_gap(&mut self) -> Span {
        match self {
            Arrivals::Constant(gap) => *gap,
            Arrivals::Poisson { mean, generator } => {
                let unit: f64 = Exp1.sample(&mut **generator);
                Span::from_ps((unit * mean.as_ps() as f64) as u64)
            }
            Arrivals::Jittered(jitter) => jitter.next_gap(),
        }
    }
}

/// A chance that is taken again and again; one seed and one stream are one history.
#[derive(Clone, Debug)]
pub struct Chance {
    generator: Box<ChaCha8Rng>,
    per_billion: u32,
}

impl Chance {
    /// Happens `per_billion` times in a billion. Streams of one seed are independent of each other.
    pub fn new(seed: Seed, stream: u64, per_billion: u32) -> Chance {
        let mut generator = Box::new(seed.generator());
        generator.set_stream(stream);
        Chance { generator, per_billion }
    }

    /// Takes the chance once.
    pub fn happens(&mut self) -> bool {
        // 2^32 numbers onto a billion: some are likelier than others by a quarter of a billionth.
        let number = (u64::from(self.generator.next_u32()) * 1_000_000_000) >> 32;
        number < u64::from(self.per_billion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "draws too many numbers to be run under Miri")]
    fn jitter_stays_within_its_bounds_and_does_not_add_up_but_for_outliers() {
        let us = Span::from_us;
        let jitter = |one_in| {
            Arrivals::Jittered(Box::new(Jitter {
                interval: us(38),
                most: us(2),
                outlier_one_in: one_in,
                longest_outlier: us(4_000_000),
                late: Span::ZERO,
                dice: Seed(5).dice(),
            }))
        };
        let mut calm = jitter(u64::MAX);
        let gaps: Vec<Span> = (0..100_000).map(|_| calm.next_gap()).collect();
        assert!(gaps.iter().all(|gap| (us(36)..=us(40)).contains(gap)));
        let drift = gaps.iter().map(|gap| gap.as_ps()).sum::<u64>().abs_diff(us(3_800_000).as_ps());
        assert!(drift <= us(2).as_ps(), "{drift} ps");
        let mut wild = jitter(10_000);
        let long: Vec<Span> =
            (0..100_000).map(|_| wild.next_gap()).filter(|gap| *gap > us(40)).collect();
        assert!((2..30).contains(&long.len()), "{} outliers", long.len());
        assert!(long.iter().all(|gap| *gap <= us(4_000_040)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too many numbers to be run under Miri")]
    fn a_chance_happens_as_often_as_it_should_and_the_same_way_again() {
        let history = |stream, per_billion| -> Vec<bool> {
            let mut chance = Chance::new(Seed(3), stream, per_billion);
            (0..100_000).map(|_| chance.happens()).collect()
        };
        let count = |history: &[bool]| history.iter().filter(|happened| **happened).count();
        let rare = history(1, 10_000_000);
        assert!((800..1_200).contains(&count(&rare)), "{} of 100,000 at 1%", count(&rare));
        assert_eq!(rare, history(1, 10_000_000));
        assert_ne!(rare, history(2, 10_000_000));
        assert_eq!(count(&history(1, 0)), 0);
        assert_eq!(count(&history(1, 1_000_000_000)), 100_000);
    }

    fn gaps(seed: u64, count: usize) -> Vec<Span> {
        let generator = Box::new(Seed(seed).generator());
        let mut arrivals = Arrivals::Poisson { mean: Span::from_us(10), generator };
        (0..count).map(|_| arrivals.next_gap()).collect()
    }

    #[test]
    fn one_seed_is_one_history() {
        assert_eq!(gaps(7, 100), gaps(7, 100));
        assert_ne!(gaps(7, 100), gaps(8, 100));
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too many numbers to be run under Miri")]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let sample: Vec<f64> = gaps(1, 100_000).iter().map(|gap| gap.as_us()).collect();
        let mean = sample.iter().sum::<f64>() / sample.len() as f64;
        let variance =
            sample.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / sample.len() as f64;
        assert!((mean - 10.0).abs() < 0.2, "mean {mean}");
        assert!((variance.sqrt() - 10.0).abs() < 0.3, "deviation {}", variance.sqrt());
    }
}

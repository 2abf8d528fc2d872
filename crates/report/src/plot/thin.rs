//! Many samples, few points: in fixed memory, in one pass.

use std::collections::BTreeMap;

/// The most groups that are kept; each gives two points.
const GROUPS: usize = 600;

/// A course over time, thinned so that no peak is lost: groups of equally many neighbours, of which
/// the least and the greatest are kept. As long as there are few, each is a group of its own.
#[derive(Clone, Debug)]
pub(super) struct Thinned {
    groups: Vec<Group>,
    group_size: u64,
    in_last: u64,
}

/// The least and the greatest ordinate of a group, each with its abscissa.
#[derive(Clone, Copy, Debug)]
struct Group {
    least: (f64, f64),
    greatest: (f64, f64),
}

impl Group {
    fn with(self, other: Group) -> Group {
        Group {
            least: if other.least.1 < self.least.1 { other.least } else { self.least },
            greatest: if other.greatest.1 > self.greatest.1 {
                other.greatest
            } else {
                self.greatest
            },
        }
    }
}

impl Default for Thinned {
    fn default() -> Self {
        Thinned { groups: Vec::with_capacity(2 * GROUPS), group_size: 1, in_last: 0 }
    }
}

impl Thinned {
    /// Adds a point. What is not a number is left out.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        if !x.is_finite() || !y.is_finite() {
            return;
        }
        let point = Group { least: (x, y), greatest: (x, y) };
        match self.groups.last_mut() {
            Some(last) if self.in_last < self.group_size => *last = last.with(point),
            _ => {
                if self.groups.len() == 2 * GROUPS {
                    self.halve();
                }
                self.groups.push(point);
                self.in_last = 0;
            }
        }
        self.in_last += 1;
    }

    /// Every group is full when a new one is asked for, so pairs are groups of twice the size.
    fn halve(&mut self) {
        self.groups =
            self.groups.chunks(2).map(|pair| pair[0].with(pair[pair.len() - 1])).collect();
        self.group_size *= 2;
        self.groups.reserve(2 * GROUPS - self.groups.len());
    }

    /// How many samples a group has.
    pub(super) fn group_size(&self) -> u64 {
        self.group_size
    }

    /// The points, by abscissa.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::with_capacity(2 * self.groups.len());
        for Group { least, greatest } in &self.groups {
            points.push(*least);
            if least != greatest {
                points.push(*greatest);
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }
}

/// How many bins a decade has.
const BINS_A_DECADE: f64 = 40.0;

/// How often which length came, by its logarithm.
#[derive(Clone, Debug, Default)]
pub(super) struct LogBins {
    bins: BTreeMap<i32, u64>,
}

impl LogBins {
    /// What is shorter counts as this: less than any clock here tells, in nanoseconds.
    pub(super) const SHORTEST_NS: f64 = 1.0;

    /// How much wider the end of a bin is than its beginning.
    pub(super) fn ratio() -> f64 {
        10f64.powf(1.0 / BINS_A_DECADE)
    }

    /// Adds a length in nanoseconds. What is not a number, or beyond all measure, is left out.
    pub(super) fn add(&mut self, ns: f64) {
        const LONGEST_NS: f64 = 1e18;
        if (0.0..LONGEST_NS).contains(&ns) {
            *self.bins.entry(Self::bin(ns)).or_default() += 1;
        }
    }

    fn bin(ns: f64) -> i32 {
        // The hair makes that a whole decade begins a bin, whatever its logarithm is rounded to.
        (ns.max(Self::SHORTEST_NS).log10() * BINS_A_DECADE + 1e-9).floor() as i32
    }

    /// Beginning and count of each bin, also of the empty ones in between.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let ends = self.bins.first_key_value().zip(self.bins.last_key_value());
        let Some(((&first, _), (&last, _))) = ends else { return Vec::new() };
        (first..=last)
            .map(|bin| {
                let from = 10f64.powf(f64::from(bin) / BINS_A_DECADE);
                (from, self.bins.get(&bin).copied().unwrap_or(0) as f64)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_points_are_kept_as_they_are() {
        let mut thinned = Thinned::default();
        (0..1_000).for_each(|n| thinned.add(f64::from(n), f64::from(n % 7)));
        assert_eq!(thinned.group_size(), 1);
        let expected: Vec<_> = (0..1_000).map(|n| (f64::from(n), f64::from(n % 7))).collect();
        assert_eq!(thinned.points(), expected);
    }

    #[test]
    fn no_length_is_lost_from_the_bins_and_decades_begin_one() {
        let mut bins = LogBins::default();
        [0.0, 0.5, 1.0, 10.0, 1_000.0, 1_050.0, 1_000_000.0]
            .into_iter()
            .for_each(|ns| bins.add(ns));
        [f64::NAN, f64::INFINITY, -1.0].into_iter().for_each(|ns| bins.add(ns));
        let points = bins.points();
        assert_eq!(points.iter().map(|(_, count)| count).sum::<f64>(), 7.0);
        assert_eq!(points[0], (1.0, 3.0));
        let at =
            |ns: f64| points.iter().find(|(from, _)| (from / ns - 1.0).abs() < 1e-9).unwrap().1;
        assert_eq!((at(10.0), at(1_000.0), at(1_000_000.0)), (1.0, 2.0, 1.0));
    }

    proptest! {
        #[test]
        fn thinning_keeps_every_peak_and_few_points(
            samples in prop::collection::vec(any::<u16>(), 1..6_000)
        ) {
            let mut thinned = Thinned::default();
            for (at, y) in samples.iter().enumerate() {
                thinned.add(at as f64, f64::from(*y));
            }
            let points = thinned.points();
            prop_assert!(points.len() <= 4 * GROUPS);
            prop_assert!(points.iter().all(|(x, y)| f64::from(samples[*x as usize]) == *y));
            let ordinates = || points.iter().map(|(_, y)| *y as u16);
            prop_assert_eq!(ordinates().max(), samples.iter().copied().max());
            prop_assert_eq!(ordinates().min(), samples.iter().copied().min());
            prop_assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
    }
}

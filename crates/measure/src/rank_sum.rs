//! Whether two samples differ beyond noise: Wilcoxon's rank sum test (that of Mann and Whitney's U),
//! two-sided and exact.
//!
//! Nothing is assumed of how the values are distributed, and no table or approximation is used: the
//! distribution of the rank sum is counted over all ways to deal the ranks that there are to two
//! samples of these sizes. Values that are equal share the mean of their ranks, and the count is over
//! these, so that ties are exact, too.

/// The most values of a sample that are used: counting takes time with their third power.
pub const MOST: usize = 40;

/// The probability that samples of one distribution are at least so unlike; `None` if one of them is
/// empty. Values must be numbers; of each sample the first [`MOST`] are used.
pub fn p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (&a[..a.len().min(MOST)], &b[..b.len().min(MOST)]);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranks = doubled_ranks(a, b);
    let seen: usize = ranks[..a.len()].iter().sum();
    // The mean of the sum, in doubled ranks: those of all values come to N(N + 1).
    let mean = a.len() * (ranks.len() + 1);
    let ways = ways_to_sum(&ranks, a.len());
    let all: f64 = ways.iter().sum();
    let unlike: f64 = ways
        .iter()
        .enumerate()
        .filter(|(sum, _)| sum.abs_diff(mean) >= seen.abs_diff(mean))
        .map(|(_, ways)| ways)
        .sum();
    Some((unlike / all).min(1.0))
}

/// The least probability that samples of these sizes can have, if no values are equal: that of the
/// two most unlike of all deals.
pub fn least_p(a: usize, b: usize) -> f64 {
    let (a, b) = (a.min(MOST), b.min(MOST));
    let deals: f64 = (1..=a).map(|n| (b + n) as f64 / n as f64).product();
    (2.0 / deals).min(1.0)
}

/// The ranks of all values, those of `a` first, times two: equal values have the mean of their ranks,
/// which may be a half.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let below = |value: f64| all.iter().filter(|&&other| other < value).count();
    let up_to = |value: f64| all.iter().filter(|&&other| other <= value).count();
    // Ranks below+1 to up_to, whose mean is half of this.
    all.iter().map(|&value| below(value) + 1 + up_to(value)).collect()
}

/// In how many ways `take` of these ranks have which sum.
fn ways_to_sum(ranks: &[usize], take: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; take + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        // From the top down, so that no rank is taken twice.
        for taken in (1..=take).rev() {
            let (fewer, these) = ways.split_at_mut(taken);
            let (fewer, these) = (&fewer[taken - 1], &mut these[0]);
            for sum in rank..=most {
                these[sum] += fewer[sum - rank];
            }
        }
    }
    ways.swap_remove(take)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p(a: &[f64], b: &[f64]) -> f64 {
        p_value(a, b).unwrap()
    }

    #[test]
    fn known_values() {
        // Apart, five and five: 2 of 252 deals.
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((p(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        assert!((least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        // R: wilcox.test(c(0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46),
        //                c(1.15, 0.88, 0.90, 0.74, 1.21)), W = 35, p-value = 0.2544
        let a = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let b = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert!((p(&a, &b) - 0.2544).abs() < 5e-5, "{}", p(&a, &b));
        assert_eq!(p(&[1.0, 1.0], &[1.0, 1.0, 1.0]), 1.0);
        assert_eq!(p(&[1.0], &[2.0]), 1.0);
        assert_eq!(p_value(&[], &[1.0]), None);
    }

    /// The same by dealing every hand.
    fn by_dealing(a: &[f64], b: &[f64]) -> f64 {
        let ranks = doubled_ranks(a, b);
        let far = |sum: usize| sum.abs_diff(a.len() * (ranks.len() + 1));
        let seen = far(ranks[..a.len()].iter().sum());
        let hands = (0u32..1 << ranks.len()).filter(|hand| hand.count_ones() as usize == a.len());
        let (mut unlike, mut all) = (0.0, 0.0);
        for hand in hands {
            let sum = (0..ranks.len()).filter(|at| hand >> at & 1 == 1).map(|at| ranks[at]).sum();
            all += 1.0;
            unlike += f64::from(u8::from(far(sum) >= seen));
        }
        unlike / all
    }

    proptest! {
        #[test]
        fn agrees_with_dealing_every_hand(
            a in prop::collection::vec(0u8..8, 1..6), b in prop::collection::vec(0u8..8, 1..6)
        ) {
            let values = |sample: &[u8]| sample.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let (a, b) = (values(&a), values(&b));
            prop_assert!((p(&a, &b) - by_dealing(&a, &b)).abs() < 1e-12);
            prop_assert!((p(&a, &b) - p(&b, &a)).abs() < 1e-12, "the order does not matter");
        }

        #[test]
        fn never_panics_on_any_numbers(
            a in prop::collection::vec(any::<f64>(), 0..50), b in prop::collection::vec(any::<f64>(), 0..50)
        ) {
            prop_assert!(p_value(&a, &b).is_none_or(|p| p <= 1.0));
        }
    }
}

//! Rounds, and the figure that stands for them.

/// Rounds of which the median is taken.
pub const ROUNDS: usize = 5;

/// The middle of `values`, which it sorts; `NaN` of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The mean of the middle half of `values`, which it sorts; `NaN` of none. What interrupts a timed call lies outside,
/// and of times that a clock counts in coarse steps it says more than the median, which is a whole number of them.
pub(crate) fn middle_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let middle = &values[quarter..values.len() - quarter];
    middle.iter().sum::<f64>() / middle.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_middle_half_ignores_what_is_far_off() {
        assert_eq!(middle_mean(&mut [900.0, 20.0, 10.0, 10.0, 20.0, 0.0, 30.0, 20.0]), 17.5);
        assert_eq!(middle_mean(&mut [5.0]), 5.0);
        assert!(middle_mean(&mut []).is_nan());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert!(median(&mut []).is_nan());
    }
}

//! A straight line through points, by least squares.

/// A cost that has a fixed part and one for each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The fixed part, in nanoseconds.
    pub fixed_ns: f64,
    /// Nanoseconds a byte.
    pub ns_per_byte: f64,
    /// The share (0 to 1) of the variance that the line explains (R²).
    pub r_squared: f64,
}

impl Line {
    /// The line nearest to points of (bytes, nanoseconds); `None` unless they have two lengths or
    /// more. Points that are no numbers are left out.
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        let known = |&&(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
        let points: Vec<_> = points.iter().filter(known).collect();
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let sum = |of: fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum()
        };
        let (xx, xy, yy) = (sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y));
        if points.is_empty() || xx == 0.0 {
            return None;
        }
        let ns_per_byte = xy / xx;
        // Points on a level line are explained entirely.
        let r_squared = if yy == 0.0 { 1.0 } else { (xy * xy / (xx * yy)).clamp(0.0, 1.0) };
        Some(Line { fixed_ns: mean_y - ns_per_byte * mean_x, ns_per_byte, r_squared })
    }

    /// What the bytes of a frame cost, in nanoseconds.
    pub fn bytes_ns(&self, size_bytes: usize) -> f64 {
        self.ns_per_byte * size_bytes as f64
    }
}

/// The one in the middle of what is in order; of two the first.
pub(super) fn middle<T>(sorted: Vec<T>) -> Option<T> {
    let at = sorted.len().checked_sub(1)? / 2;
    sorted.into_iter().nth(at)
}

/// The median; of two the lower.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    middle(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_the_line() {
        let points: Vec<_> = [1_024.0, 1_500.0, 16_379.0].map(|x| (x, 150.0 + 0.25 * x)).into();
        let line = Line::through(&points).unwrap();
        assert!((line.fixed_ns - 150.0).abs() < 1e-6 && (line.ns_per_byte - 0.25).abs() < 1e-9);
        assert!((line.r_squared - 1.0).abs() < 1e-9);
        assert!((line.bytes_ns(1_000) - 250.0).abs() < 1e-6);
    }

    #[test]
    fn scatter_lowers_what_the_line_explains() {
        // Worked by hand: means 2 and 2, xx = 2, xy = 1, yy = 2.
        let line = Line::through(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]).unwrap();
        assert!((line.ns_per_byte - 0.5).abs() < 1e-12 && (line.fixed_ns - 1.0).abs() < 1e-12);
        assert!((line.r_squared - 0.25).abs() < 1e-12);
    }

    #[test]
    fn one_length_has_no_line_and_a_level_one_is_explained() {
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(5.0, 1.0), (5.0, 2.0)]), None);
        assert_eq!(Line::through(&[(5.0, 1.0), (6.0, f64::NAN)]), None);
        assert_eq!(Line::through(&[(5.0, 1.0), (6.0, 1.0)]).unwrap().r_squared, 1.0);
    }

    #[test]
    fn medians_are_of_what_there_is() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!((median(vec![2.0, 1.0]), median(vec![])), (Some(1.0), None));
    }
}

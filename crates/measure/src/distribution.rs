//! Many spans of time, summed up.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use warikomi_clock::Span;

/// The longest span that is told from longer ones: 100 seconds, in picoseconds.
const LONGEST_PS: u64 = 100_000_000_000_000;
/// The shortest difference that is told, in picoseconds: less than any tick of the counter.
const FINEST_PS: u64 = 64;
/// Quantiles are right to four significant digits, so that 38.01 µs does not read as 37.99. Least
/// and most are exact.
const DIGITS: u8 = 4;

/// A summary of spans, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// The shortest, in nanoseconds.
    pub min: f64,
    /// Half are no longer than this, in nanoseconds.
    pub p50: f64,
    /// Nine of ten are no longer than this, in nanoseconds.
    pub p90: f64,
    /// 99 of 100 are no longer than this, in nanoseconds.
    pub p99: f64,
    /// 999 of 1,000 are no longer than this, in nanoseconds.
    pub p999: f64,
    /// The longest, in nanoseconds.
    pub max: f64,
    /// The mean, in nanoseconds.
    pub mean: f64,
}

/// Percentiles of delays, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Half took no longer.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Delay {
    /// Of delays in nanoseconds.
    pub fn of(ns: Distribution) -> Delay {
        let [p50, p90, p99, max] = [ns.p50, ns.p90, ns.p99, ns.max].map(|ns| ns / 1e3);
        Delay { p50, p90, p99, max }
    }
}

/// Collects spans in a fixed amount of memory, however many there are: room for 2 MB, of which only
/// the pages of lengths that occur are ever touched.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    histogram: Histogram<u32>,
    shortest: Span,
    longest: Span,
    sum_ps: u128,
}

impl Default for Samples {
    fn default() -> Self {
        Samples::new()
    }
}

impl Samples {
    /// A collection without samples.
    pub fn new() -> Samples {
        let histogram = Histogram::new_with_bounds(FINEST_PS, LONGEST_PS, DIGITS)
            .expect("constant bounds that the crate's documentation allows");
        Samples { histogram, shortest: Span::from_ps(u64::MAX), longest: Span::ZERO, sum_ps: 0 }
    }

    /// Adds one.
    #[inline]
    pub fn record(&mut self, span: Span) {
        self.histogram.saturating_record(span.as_ps());
        self.shortest = self.shortest.min(span);
        self.longest = self.longest.max(span);
        self.sum_ps += u128::from(span.as_ps());
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The summary; `None` of nothing.
    pub fn summary(&self) -> Option<Distribution> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        Some(Distribution {
            count,
            min: self.shortest.as_ns(),
            p50: self.quantile_ns(0.5),
            p90: self.quantile_ns(0.9),
            p99: self.quantile_ns(0.99),
            p999: self.quantile_ns(0.999),
            max: self.longest.as_ns(),
            mean: self.sum_ps as f64 / count as f64 / 1e3,
        })
    }

    /// The middle of the histogram's bucket, which halves its error, but never beyond what was in
    /// fact seen.
    fn quantile_ns(&self, quantile: f64) -> f64 {
        let bucket = self.histogram.value_at_quantile(quantile);
        let ps = self.histogram.median_equivalent(bucket);
        Span::from_ps(ps.clamp(self.shortest.as_ps(), self.longest.as_ps())).as_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Samples::new().summary(), None);
    }

    #[test]
    fn one_value_is_everything() {
        let mut samples = Samples::new();
        samples.record(Span::from_us(38));
        let summary = samples.summary().unwrap();
        let all = [summary.min, summary.p50, summary.p999, summary.max, summary.mean];
        assert_eq!(all, [38_000.0; 5]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(mut spans in prop::collection::vec(0u64..1 << 45, 1..300)) {
            let mut samples = Samples::new();
            spans.iter().for_each(|&ps| samples.record(Span::from_ps(ps)));
            spans.sort_unstable();
            let summary = samples.summary().unwrap();
            prop_assert_eq!(summary.min, spans[0] as f64 / 1e3);
            prop_assert_eq!(summary.max, spans[spans.len() - 1] as f64 / 1e3);
            for (quantile, got) in [(0.5, summary.p50), (0.9, summary.p90), (0.99, summary.p99)] {
                let rank = ((quantile * spans.len() as f64).ceil() as usize).clamp(1, spans.len());
                let expected = spans[rank - 1] as f64 / 1e3;
                prop_assert!((got - expected).abs() <= expected * 2e-4 + 0.07, "{got} {expected}");
            }
        }

        #[test]
        fn never_panics_on_any_span(spans in prop::collection::vec(any::<u64>(), 1..50)) {
            let mut samples = Samples::new();
            spans.iter().for_each(|&ps| samples.record(Span::from_ps(ps)));
            let summary = samples.summary().unwrap();
            prop_assert!(summary.min <= summary.p50 && summary.p50 <= summary.max);
        }
    }
}

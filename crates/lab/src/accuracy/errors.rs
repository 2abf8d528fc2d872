//! How many intervals were off by how much.

use warikomi_clock::Span;
use warikomi_measure::layout::{Object, time};

use super::series::Series;

/// Shares of the request that part the histogram.
const EDGES: [f64; 4] = [0.01, 0.0625, 0.25, 1.0];

/// A row for each bin that holds anything, from the shortest intervals to the longest, with a count for each
/// place.
pub(super) fn table(series: &[Series], requested: Span, resolution: Span) -> Vec<Object> {
    let errors: Vec<(&str, Vec<f64>)> =
        series.iter().map(|of| (of.place.name(), of.errors_ns())).collect();
    counted(&errors, requested.as_ns(), resolution.as_ns())
}

fn counted(errors: &[(&str, Vec<f64>)], requested: f64, resolution: f64) -> Vec<Object> {
    let row = |bin: Bin| {
        let count = |errors: &[f64]| errors.iter().filter(|error| bin.holds(**error)).count();
        let counts: Vec<usize> = errors.iter().map(|(_, errors)| count(errors)).collect();
        counts.iter().any(|count| *count > 0).then(|| {
            let places = errors.iter().zip(counts);
            let counts = places.map(|((place, _), count)| ((*place).to_owned(), count.into()));
            std::iter::once(("error".to_owned(), bin.label.clone().into())).chain(counts).collect()
        })
    };
    bins(requested, resolution).into_iter().filter_map(row).collect()
}

/// Errors from `above` (not included) to `up_to`, in nanoseconds, of one side; the exact ones are those of
/// both sides up to the resolution.
struct Bin {
    label: String,
    side: f64,
    above: f64,
    up_to: f64,
}

impl Bin {
    fn holds(&self, error_ns: f64) -> bool {
        if self.side == 0.0 {
            return error_ns.abs() <= self.up_to;
        }
        let off = error_ns * self.side;
        off > self.above && off <= self.up_to
    }
}

/// From the shortest intervals to the longest. Together they hold every error once.
fn bins(requested: f64, resolution: f64) -> Vec<Bin> {
    let mut edges = vec![resolution];
    edges.extend(EDGES.map(|share| share * requested).iter().filter(|edge| **edge > resolution));
    edges.push(f64::INFINITY);
    let side = |side: f64, word: &str| {
        let bin = |pair: &[f64]| {
            let label = match pair[1] {
                f64::INFINITY => format!("more than {} {word}", time(pair[0])),
                up_to => format!("up to {} {word}", time(up_to)),
            };
            Bin { label, side, above: pair[0], up_to: pair[1] }
        };
        edges.windows(2).map(bin).collect::<Vec<_>>()
    };
    let exact = Bin { label: "exact".to_owned(), side: 0.0, above: 0.0, up_to: resolution };
    let short = side(-1.0, "short").into_iter().rev();
    short.chain(std::iter::once(exact)).chain(side(1.0, "long")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bin_that_holds_nothing_is_left_out() {
        let errors = [("injected", vec![0.0, -64.0, 65.0, 3_000.0, -1e6]), ("raised", vec![])];
        let rows = counted(&errors, 38_000.0, 64.0);
        let said = |row: &Object| (row["error"].clone(), row["injected"].as_u64());
        let rows: Vec<_> = rows.iter().map(said).collect();
        let expected = [
            ("more than 38 µs short", 1),
            ("exact", 2),
            ("up to 380 ns long", 1),
            ("up to 9.5 µs long", 1),
        ];
        assert_eq!(rows, expected.map(|(bin, count)| (bin.into(), Some(count))));
    }

    proptest! {
        #[test]
        fn every_error_is_in_one_bin(
            error in -1e9..1e9f64,
            requested in 1.0..1e9f64,
            resolution in 0.0..1e5f64,
        ) {
            let holding = bins(requested, resolution).iter().filter(|bin| bin.holds(error)).count();
            prop_assert_eq!(holding, 1);
        }
    }
}

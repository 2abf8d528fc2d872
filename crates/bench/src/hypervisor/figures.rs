//! What is said about the intervals at one place, and the medians of rounds.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::rounds::median;

/// An interval counts as kept within this share of the request, as in the published measurement.
const KEPT_WITHIN: f64 = 0.0625;

/// Figures by their names.
pub(super) type Figures = BTreeMap<String, f64>;

/// The figures of one place, from the times (in nanoseconds) at which things came there. `planned` intervals of
/// `requested_ns` were asked for; one that did not come was not kept.
pub(super) fn intervals(place: &str, times_ns: &[f64], requested_ns: f64, planned: u64) -> Figures {
    let mut lengths: Vec<f64> = times_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    lengths.sort_by(f64::total_cmp);
    let mut figures = Figures::new();
    let quantile = |share: f64| lengths.get(((lengths.len() - 1) as f64 * share) as usize).copied();
    if lengths.is_empty() || planned == 0 {
        return figures;
    }
    let error = |length: &f64| (length - requested_ns).abs();
    let kept = lengths.iter().filter(|length| error(length) <= KEPT_WITHIN * requested_ns).count();
    let worst = lengths.iter().map(error).fold(0.0, f64::max);
    let mut put = |name: &str, value: f64| figures.insert(format!("{place}_{name}"), value);
    put("interval_p50_ns", quantile(0.5).unwrap_or(f64::NAN));
    put("interval_p99_ns", quantile(0.99).unwrap_or(f64::NAN));
    put("worst_error_ns", worst);
    put("within_6_25_share", kept.min(planned as usize) as f64 / planned as f64);
    figures
}

/// The medians of the rounds, each figure by itself, behind what they are of.
pub(super) fn medians(of: Map<String, Value>, rounds: &[Figures]) -> Value {
    let mut names: Vec<&String> = rounds.iter().flat_map(Figures::keys).collect();
    names.sort();
    names.dedup();
    let mut row = of;
    for name in names {
        let mut values: Vec<f64> =
            rounds.iter().filter_map(|round| round.get(name).copied()).collect();
        row.insert(name.clone(), json!(median(&mut values)));
    }
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_did_not_come_was_not_kept() {
        // Of four intervals of 1 us, the third interrupt was for two frames.
        let figures = intervals("handler", &[0.0, 1_000.0, 3_000.0, 4_060.0], 1_000.0, 4);
        assert_eq!(figures["handler_within_6_25_share"], 0.5);
        assert_eq!(figures["handler_worst_error_ns"], 1_000.0);
        assert_eq!(figures["handler_interval_p50_ns"], 1_060.0);
        assert!(intervals("handler", &[1.0], 1_000.0, 4).is_empty());
    }

    #[test]
    fn a_figure_that_one_round_lacks_is_the_median_of_the_others() {
        let round = |ns: f64| Figures::from([("a".to_owned(), ns)]);
        let row = medians(Map::new(), &[round(3.0), Figures::new(), round(1.0), round(2.0)]);
        assert_eq!(row["a"], 2.0);
    }
}

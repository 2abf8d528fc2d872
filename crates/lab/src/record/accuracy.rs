//! How well the times of arrivals were kept, whatever these times are.

use serde_json::{Map, Value};
use warikomi_measure::Ledger;

/// By how much the intervals between packets differ from those between their deadlines: median, 99th
/// percentile and worst, in nanoseconds. Nothing without two packets whose times are known, as in runs
/// of more than a million.
///
/// Packets that share a deadline make no interval.
pub(crate) fn interval_error(ledger: &Ledger) -> Map<String, Value> {
    let times: Vec<(u64, u64)> = ledger
        .rows()
        .filter_map(|row| Some((row.planned?.as_ps(), row.injected?.as_ps())))
        .collect();
    let mut errors: Vec<u64> = times
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0)
        .map(|pair| {
            let (planned, injected) = (pair[1].0 - pair[0].0, pair[1].1.abs_diff(pair[0].1));
            planned.abs_diff(injected)
        })
        .collect();
    errors.sort_unstable();
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share).round() as usize] as f64 / 1e3;
    let mut figures = Map::new();
    if !errors.is_empty() {
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("worst", 1.0)] {
            figures.insert(format!("interval_error_{name}_ns"), at(share).into());
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::{Span, Time};
    use warikomi_measure::{Outcome, Packet};

    #[test]
    fn an_error_is_that_of_an_interval_and_not_of_a_time() {
        let mut ledger = Ledger::new(4);
        for (sequence, planned, injected) in
            [(0, 0, 50), (1, 100, 150), (2, 200, 260), (3, 200, 300)]
        {
            ledger.injected(&Packet {
                sequence,
                planned: Time::ZERO + Span::from_ns(planned),
                injected: Time::ZERO + Span::from_ns(injected),
                took: Span::ZERO,
                queue: 0,
                outcome: Outcome::OnRing,
            });
        }
        let figures = interval_error(&ledger);
        assert_eq!(figures["interval_error_worst_ns"], 10.0);
        assert_eq!(figures.len(), 3);
        assert!(interval_error(&Ledger::new(2)).is_empty());
    }
}

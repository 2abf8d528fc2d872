//! What became of the messages of one way to receive.

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_measure::{Samples, published};
use warikomi_stack::RoundTripCounts;

/// A round trip's percentiles, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTripNs {
    /// The shortest.
    pub min: f64,
    /// Half took no longer.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// One way to receive. Counts are of all messages, those of the warm-up among them; times are of those behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The way to receive.
    pub strategy: String,
    /// Its poll time in microseconds; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_us: Option<u64>,
    /// Messages sent: each is answered or lost.
    pub sent: u64,
    /// Messages whose answer came in time.
    pub answered: u64,
    /// Messages whose answer did not.
    pub lost: u64,
    /// Datagrams that were no answer to the message on its way.
    pub strays: u64,
    /// From the request to send until the application had the answer; absent if none behind the warm-up came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<RoundTripNs>,
    /// What was published of a small message.
    pub published_ns: f64,
    /// Times that the driver slept.
    pub sleeps: u64,
    /// Interrupts that the card raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// Of all that happened, in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Row {
    /// A row of these messages, which took so long each behind the warm-up.
    pub(super) fn new(strategy: Strategy, counts: RoundTripCounts, took_ns: &[u32]) -> Row {
        let mut samples = Samples::new();
        took_ns.iter().for_each(|&ns| samples.record(Span::from_ns(ns.into())));
        let poll_us = match strategy {
            Strategy::Hybrid { poll_time } => Some(poll_time.as_ps() / 1_000_000),
            _ => None,
        };
        Row {
            strategy: strategy.name().to_owned(),
            poll_us,
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost,
            strays: counts.strays,
            round_trip_ns: samples.summary().map(|of| RoundTripNs {
                min: of.min,
                p50: of.p50,
                p90: of.p90,
                p99: of.p99,
                max: of.max,
            }),
            published_ns: published::hybrid_receive().small_message_us * 1e3,
            sleeps: 0,
            interrupts: None,
            digest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_from_the_samples() {
        let counts = RoundTripCounts { sent: 102, answered: 101, lost: 1, strays: 0 };
        let took: Vec<u32> = (1..=100).map(|us| us * 1_000).collect();
        let row = Row::new(Strategy::Hybrid { poll_time: Span::from_us(140) }, counts, &took);
        let found = row.round_trip_ns.unwrap();
        assert_eq!((found.min, found.max), (1_000.0, 100_000.0));
        for (found, wanted) in [(found.p50, 50e3), (found.p90, 90e3), (found.p99, 99e3)] {
            assert!((found / wanted - 1.0).abs() < 1e-3, "{found} for {wanted}");
        }
        assert_eq!((row.poll_us, row.published_ns), (Some(140), 7_000.0));
        assert_eq!(Row::new(Strategy::Poll, counts, &[]).round_trip_ns, None);
    }
}

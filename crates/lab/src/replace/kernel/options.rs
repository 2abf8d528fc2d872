//! What is replaced in a kernel, and under which traffic.

use serde::Serialize;
use warikomi_clock::{Seed, Span};
use warikomi_measure::{texts, us};

use crate::replace::plan::Load;

/// What is replaced under which traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "target", rename = "kernel")]
pub struct Options {
    /// Loads, each a row.
    #[serde(serialize_with = "texts")]
    pub loads: Vec<Load>,
    /// Replacements of each load.
    pub trials: u32,
    /// Time between two frames that arrive under the load `heavy`, and between two datagrams sent.
    #[serde(rename = "interval_us", serialize_with = "us")]
    pub interval: Span,
    /// Length of an arriving frame, in bytes, without check sequence.
    pub frame_bytes: usize,
    /// Bytes of each send over TCP.
    pub send_bytes: u32,
    /// Computing between two sends.
    #[serde(rename = "compute_us", serialize_with = "us")]
    pub compute: Span,
    /// Where the moments of replacement come from.
    pub seed: Seed,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            loads: vec![Load::Idle, Load::Busy, Load::Heavy],
            trials: 5,
            interval: Span::from_us(200),
            frame_bytes: 1_066,
            send_bytes: 1_024,
            compute: Span::from_ms(1),
            seed: Seed(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let plan = warikomi_measure::as_object(&Options::default());
        assert_eq!(plan["target"].as_str(), Some("kernel"));
        assert_eq!(plan["loads"].as_array().unwrap().len(), 3);
        assert_eq!(plan["interval_us"].as_f64(), Some(200.0));
        assert_eq!(plan["compute_us"].as_f64(), Some(1_000.0));
        assert_eq!((plan["trials"].as_u64(), plan["seed"].as_u64()), (Some(5), Some(1)));
    }
}

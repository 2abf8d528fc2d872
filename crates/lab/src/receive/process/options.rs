//! What to compare.

use serde::Serialize;
use warikomi_clock::Span;
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_inject::Receiver;
use warikomi_measure::texts;
use warikomi_process::Orders;
use warikomi_session::PATH_BUFFER_BYTES;

use crate::receive::traffic::Traffic;

/// Bytes of a receive buffer.
pub const BUFFER_BYTES: u64 = PATH_BUFFER_BYTES;

/// What to compare.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target", rename = "process")]
pub struct Options {
    /// The ways to receive; each that polls for a time is tried with each of `polls_us`.
    #[serde(serialize_with = "texts")]
    pub strategies: Vec<Strategy>,
    /// Poll times in microseconds.
    pub polls_us: Vec<u32>,
    /// Receive buffers, all together, in bytes.
    pub buffers_bytes: Vec<u64>,
    /// Looks for the smallest receive buffer without loss, rather than trying those.
    pub find_smallest_buffer: bool,
    /// What arrives.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Packets to the application, or to the driver alone.
    pub receiver: Receiver,
    /// Whether a compute job wants the same core.
    pub compute: bool,
}

impl Default for Options {
    /// The poll times and buffers that were published.
    fn default() -> Self {
        let auto = Strategy::Auto { cpu_budget: CpuBudget::from_ppm(250_000) };
        Options {
            strategies: vec![
                Strategy::Interrupt,
                Strategy::Poll,
                Strategy::Napi { budget: 64 },
                Strategy::Hybrid { poll_time: Span::from_us(100) },
                auto,
            ],
            polls_us: vec![100, 140, 300],
            buffers_bytes: vec![7_000_000, 10_000_000, 15_000_000],
            find_smallest_buffer: false,
            traffic: Traffic { frame_bytes: 8_000, ..Traffic::default() },
            receiver: Receiver::Driver,
            compute: true,
        }
    }
}

/// One row to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::receive) struct Case {
    pub(in crate::receive) strategy: Strategy,
    pub(in crate::receive) buffer_bytes: u64,
    pub(in crate::receive) burst_bytes: usize,
}

impl Case {
    pub(super) fn poll_us(&self) -> Option<u64> {
        match self.strategy {
            Strategy::Hybrid { poll_time } => Some(poll_time.as_ps() / 1_000_000),
            _ => None,
        }
    }

    pub(super) fn orders(&self) -> Orders {
        let buffers = (self.buffer_bytes / BUFFER_BYTES).max(1);
        Orders { strategy: self.strategy, buffers, buffer_bytes: BUFFER_BYTES }
    }
}

impl Options {
    /// Each strategy with each of its poll times.
    fn ways(&self) -> Vec<Strategy> {
        let with_polls = |&strategy: &Strategy| match strategy {
            Strategy::Hybrid { .. } => {
                let polls = self.polls_us.iter();
                polls.map(|&us| Strategy::Hybrid { poll_time: Span::from_us(us.into()) }).collect()
            }
            other => vec![other],
        };
        self.strategies.iter().flat_map(with_polls).collect()
    }

    pub(in crate::receive) fn cases(&self) -> Vec<Case> {
        let largest = self.buffers_bytes.iter().max().copied();
        let buffers = match self.find_smallest_buffer {
            // The search begins at the largest.
            true => largest.into_iter().collect(),
            false => self.buffers_bytes.clone(),
        };
        let mut cases = Vec::new();
        for strategy in self.ways() {
            for &buffer_bytes in &buffers {
                for &burst_bytes in &self.traffic.bursts_bytes {
                    cases.push(Case { strategy, buffer_bytes, burst_bytes });
                }
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_row_for_each_of_its_parameters() {
        let options = Options::default();
        assert_eq!(options.cases().len(), (4 + 3) * 3);
        let searching = Options { find_smallest_buffer: true, ..options };
        let cases = searching.cases();
        assert_eq!(cases.len(), 4 + 3);
        assert!(cases.iter().all(|case| case.buffer_bytes == 15_000_000));
    }

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let plan = warikomi_measure::as_object(&Options::default());
        assert_eq!(plan["strategies"].as_array().unwrap().len(), 5);
        assert_eq!(plan["frame_bytes"].as_u64(), Some(8_000));
    }
}

//! What a sweep measures.

use serde::{Deserialize, Serialize};
use warikomi_inject::{MAX_COUNT, Plan, Receiver, Warmup};
use warikomi_measure::published;

use crate::error::Error;

/// A saturated cycle is longer, because a ring that is empty at first takes hundreds at once.
pub(super) const SATURATING_CYCLES: u64 = 4;

/// The most frame lengths of one sweep.
pub const MAX_SIZES: usize = 64;

/// The most repetitions of a search.
pub const MAX_REPEAT: u32 = 100;

/// What a sweep measures; the plan of its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SweepPlan {
    /// Frame lengths in bytes, without check sequence.
    pub sizes_bytes: Vec<usize>,
    /// Packets of a cycle.
    pub count: u64,
    /// How far packets are meant to go. Only those for the application have an end-to-end success.
    pub receiver: Receiver,
    /// How often the shortest interval without loss is searched.
    pub repeat: u32,
    /// How often each interval of the pass with growing ones is made again, to find dips of the end-to-end curve; 0
    /// to find none. Of packets for the application only.
    pub curve: u32,
    /// A line over which each length is sent once more, in bit/s: what a NIC on it would reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_rate_bps: Option<u64>,
    /// What goes before each cycle.
    pub warmup: Warmup,
}

impl Default for SweepPlan {
    fn default() -> Self {
        SweepPlan {
            sizes_bytes: published::SIZES.iter().map(|(_, bytes)| *bytes).collect(),
            count: 5_000,
            receiver: Receiver::Application,
            repeat: 3,
            curve: 10,
            line_rate_bps: None,
            warmup: Warmup { count: 200, ..Warmup::default() },
        }
    }
}

impl SweepPlan {
    /// Checks every value against what is possible.
    pub fn validate(&self) -> Result<(), Error> {
        if !(1..=MAX_SIZES).contains(&self.sizes_bytes.len()) {
            return Err(Error::impossible(format!(
                "a sweep over {} frame lengths is not possible: choose 1 to {MAX_SIZES}",
                self.sizes_bytes.len()
            )));
        }
        if !(1..=MAX_REPEAT).contains(&self.repeat) {
            return Err(Error::impossible(format!(
                "repeat = {} is not possible: choose 1 to {MAX_REPEAT}",
                self.repeat
            )));
        }
        if self.curve > MAX_REPEAT {
            return Err(Error::impossible(format!(
                "curve = {} is not possible: choose 0 (dips are not looked for) to {MAX_REPEAT}",
                self.curve
            )));
        }
        for (at, &size_bytes) in self.sizes_bytes.iter().enumerate() {
            if self.sizes_bytes[..at].contains(&size_bytes) {
                return Err(Error::impossible(format!(
                    "the frame length {size_bytes} is there twice: name each once"
                )));
            }
            let count = self.count.saturating_mul(SATURATING_CYCLES).min(MAX_COUNT);
            let line = Plan { line_rate_bps: self.line_rate_bps, ..self.cycle(size_bytes) };
            line.validate()?;
            Plan { count, ..self.cycle(size_bytes) }.validate()?;
        }
        Ok(())
    }

    /// How often the curve is made again: only the application's has dips.
    pub(super) fn curves(&self) -> u32 {
        if self.receiver == Receiver::Application { self.curve } else { 0 }
    }

    /// A cycle as fast as possible.
    pub(super) fn cycle(&self, size_bytes: usize) -> Plan {
        Plan {
            size_bytes,
            interval: warikomi_clock::Span::ZERO,
            count: self.count,
            receiver: self.receiver,
            warmup: self.warmup,
            ..Plan::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_be_and_says_what_can() {
        let sizes =
            |sizes: &[usize]| SweepPlan { sizes_bytes: sizes.to_vec(), ..SweepPlan::default() };
        let refused = |plan: SweepPlan| plan.validate().unwrap_err().to_string();
        assert!(refused(sizes(&[])).contains("1 to 64"));
        assert!(refused(sizes(&[59])).contains("60 to 16379"));
        assert!(refused(sizes(&[60, 60])).contains("twice"));
        assert!(refused(SweepPlan { repeat: 0, ..SweepPlan::default() }).contains("1 to 100"));
        assert!(refused(SweepPlan { curve: 101, ..SweepPlan::default() }).contains("0 (dips"));
        assert!(refused(SweepPlan { count: 0, ..SweepPlan::default() }).contains("choose 1 to"));
        let slow = SweepPlan { line_rate_bps: Some(1), ..SweepPlan::default() };
        assert!(refused(slow).contains("1 Mbit/s"));
    }
}

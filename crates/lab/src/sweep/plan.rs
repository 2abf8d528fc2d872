//! What a sweep measures.

use serde::{Deserialize, Serialize};
use warikomi_inject::{MAX_COUNT, Plan, PlanError, Receiver, Warmup};
use warikomi_measure::published;

/// The most frame lengths of one sweep.
pub const MAX_SIZES: usize = 64;

/// The most repetitions of a search.
pub const MAX_REPEAT: u32 = 100;

/// What a sweep measures; `plan.toml` of its run.
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
            line_rate_bps: None,
            warmup: Warmup { count: 200, ..Warmup::default() },
        }
    }
}

/// Why a sweep cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepPlanError {
    /// A cycle of it cannot.
    #[error(transparent)]
    Cycle(#[from] PlanError),
    /// No lengths, or too many.
    #[error("a sweep over {0} frame lengths is not possible: choose 1 to {MAX_SIZES}")]
    Sizes(usize),
    /// A length twice.
    #[error("the frame length {0} is there twice: name each once")]
    Twice(usize),
    /// `repeat` out of range.
    #[error("repeat = {0} is not possible: choose 1 to {MAX_REPEAT}")]
    Repeat(u32),
    /// Not TOML, or not a sweep.
    #[error("this is not the plan of a sweep: {0}")]
    Malformed(String),
}

impl SweepPlan {
    /// Checks every value against what is possible.
    pub fn validate(&self) -> Result<(), SweepPlanError> {
        if !(1..=MAX_SIZES).contains(&self.sizes_bytes.len()) {
            return Err(SweepPlanError::Sizes(self.sizes_bytes.len()));
        }
        if !(1..=MAX_REPEAT).contains(&self.repeat) {
            return Err(SweepPlanError::Repeat(self.repeat));
        }
        for (at, &size_bytes) in self.sizes_bytes.iter().enumerate() {
            if self.sizes_bytes[..at].contains(&size_bytes) {
                return Err(SweepPlanError::Twice(size_bytes));
            }
            let count = self.count.saturating_mul(super::SATURATING_CYCLES).min(MAX_COUNT);
            let line = Plan { line_rate_bps: self.line_rate_bps, ..self.cycle(size_bytes) };
            line.validate()?;
            Plan { count, ..self.cycle(size_bytes) }.validate()?;
        }
        Ok(())
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

    /// Reads a plan and checks it.
    pub fn from_toml(text: &str) -> Result<SweepPlan, SweepPlanError> {
        let malformed = |what: String| SweepPlanError::Malformed(what);
        if text.len() > warikomi_inject::MAX_PLAN_TEXT_BYTES {
            return Err(malformed(format!("{} bytes are too many", text.len())));
        }
        let plan: SweepPlan = toml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        plan.validate()?;
        Ok(plan)
    }

    /// The plan as a file that [`SweepPlan::from_toml`] reads.
    pub fn to_toml(&self) -> Result<String, SweepPlanError> {
        self.validate()?;
        toml::to_string(self).map_err(|error| SweepPlanError::Malformed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let plan = SweepPlan { line_rate_bps: Some(1_000_000_000), ..SweepPlan::default() };
        assert_eq!(SweepPlan::from_toml(&plan.to_toml().unwrap()).unwrap(), plan);
    }

    #[test]
    fn refuses_what_cannot_be_and_says_what_can() {
        let refused = |text: &str| SweepPlan::from_toml(text).unwrap_err().to_string();
        assert!(refused("sizes_bytes = []").contains("1 to 64"));
        assert!(refused("sizes_bytes = [59]").contains("60 to 16379"));
        assert!(refused("sizes_bytes = [60, 60]").contains("twice"));
        assert!(refused("repeat = 0").contains("1 to 100"));
        assert!(refused("count = 0").contains("choose 1 to"));
        assert!(refused("line_rate_bps = 1").contains("1 Mbit/s"));
        assert!(refused("size = 3").contains("size"));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = SweepPlan::from_toml(&text);
        }
    }
}

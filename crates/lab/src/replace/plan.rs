//! What is replaced, how often, and under what load.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warikomi_clock::{Seed, Span};
use warikomi_driver::DEFAULT_DRIVER;
use warikomi_live::Way;
use warikomi_nic::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};

/// The most trials of a row, and the most replacements of a soak.
pub const MOST_REPLACEMENTS: u64 = 10_000_000;
/// Between two replacements of a soak.
pub const EVERY: std::ops::RangeInclusive<Span> = Span::from_ms(1)..=Span::from_ms(60_000);
/// Between two frames that arrive.
pub const INTERVALS: std::ops::RangeInclusive<Span> = Span::from_ns(100)..=Span::from_ms(1);
/// Receive descriptors that a ring has.
pub const MOST_DESCRIPTORS: u64 = 1_024;
/// Headers and the number of a datagram.
const LEAST_FRAME_BYTES: usize = MIN_FRAME_BYTES;

/// What goes on beside the replacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Nothing: the published measurement without load.
    Idle,
    /// The published workload alone: sends over TCP, with computing between them.
    Busy,
    /// Besides, receiving and transmitting at full rate.
    Heavy,
}

impl Load {
    /// All loads.
    pub const ALL: [Load; 3] = [Load::Idle, Load::Busy, Load::Heavy];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Busy => "busy",
            Load::Heavy => "heavy",
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no load; there are: idle, busy, heavy")]
pub struct ParseLoadError(String);

impl FromStr for Load {
    type Err = ParseLoadError;

    fn from_str(text: &str) -> Result<Load, ParseLoadError> {
        let named = Load::ALL.into_iter().find(|load| load.name() == text.trim());
        named.ok_or_else(|| ParseLoadError(text.trim().to_owned()))
    }
}

/// Many replacements, one after the other, while nothing may grow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Replacements in all, of each row.
    pub count: u64,
    /// Time from one to the next, in the mean, in milliseconds.
    pub every_ms: f64,
}

impl Soak {
    /// Time from one to the next.
    pub fn every(&self) -> Span {
        Span::from_ps((self.every_ms * 1e9) as u64)
    }
}

/// What is measured; `plan.toml` of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Ways to replace.
    #[serde(with = "names")]
    pub ways: Vec<Way>,
    /// Loads, each with each way.
    #[serde(with = "names")]
    pub loads: Vec<Load>,
    /// Replacements of each row, each at a random moment of a run of the workload.
    pub trials: u64,
    /// The running driver is killed, and not asked to hand over.
    pub kill: bool,
    /// The driver that runs first; as on the command line.
    pub driver: String,
    /// The driver that replaces it, and is replaced by it again.
    pub to: String,
    /// Where the randomness starts from; at most 2^63 - 1, the largest integer that TOML has.
    pub seed: Seed,
    /// Time between two frames that arrive under heavy load, in nanoseconds.
    pub interval_ns: f64,
    /// Length of these frames in bytes, without check sequence.
    pub frame_bytes: usize,
    /// Receive buffers; 0 for as many as there are descriptors.
    pub buffers: u64,
    /// How long a trial under no load and under heavy load takes, in milliseconds.
    pub trial_ms: u64,
    /// Looks, besides, for the number of receive buffers from which on nothing is lost.
    pub edge: bool,
    /// A soak rather than trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Soak>,
}

impl Default for Plan {
    /// Everything, five trials each.
    fn default() -> Self {
        Plan {
            ways: Way::ALL.to_vec(),
            loads: Load::ALL.to_vec(),
            trials: 5,
            kill: false,
            driver: DEFAULT_DRIVER.to_owned(),
            to: DEFAULT_DRIVER.to_owned(),
            seed: Seed(1),
            interval_ns: 10_000.0,
            frame_bytes: 1_024,
            buffers: 0,
            trial_ms: 500,
            edge: false,
            soak: None,
        }
    }
}

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing to do.
    #[error("no way or no load is left to measure; name one of each at least")]
    Nothing,
    /// Twice the same.
    #[error("{0} is there twice; name each once")]
    Twice(&'static str),
    /// A value out of range.
    #[error("{name} = {got} is not possible: choose {range}")]
    Range {
        /// What.
        name: &'static str,
        /// Its value.
        got: String,
        /// What is possible.
        range: String,
    },
    /// Not TOML, or of something else.
    #[error("this is not a plan of replacements: {0}")]
    Malformed(String),
}

impl Plan {
    /// Time between two frames that arrive under heavy load.
    pub fn interval(&self) -> Span {
        Span::from_ps((self.interval_ns * 1e3) as u64)
    }

    /// Checks every value against what is possible.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.ways.is_empty() || self.loads.is_empty() {
            return Err(PlanError::Nothing);
        }
        twice(self.ways.iter().map(|way| way.name()))?;
        twice(self.loads.iter().map(|load| load.name()))?;
        let range = |name, got: String, holds: bool, range: String| {
            if holds { Ok(()) } else { Err(PlanError::Range { name, got, range }) }
        };
        let most = MOST_REPLACEMENTS;
        let trials = (1..=most).contains(&self.trials);
        range("trials", self.trials.to_string(), trials, format!("1 to {most}"))?;
        let interval = self.interval_ns.is_finite() && INTERVALS.contains(&self.interval());
        let between = format!("{} to {} ns", INTERVALS.start().as_ns(), INTERVALS.end().as_ns());
        range("interval_ns", self.interval_ns.to_string(), interval, between)?;
        let bytes = LEAST_FRAME_BYTES..=MAX_FRAME_BYTES;
        let between = format!("{} to {}", bytes.start(), bytes.end());
        let holds = bytes.contains(&self.frame_bytes);
        range("frame_bytes", self.frame_bytes.to_string(), holds, between)?;
        let buffers = self.buffers <= MOST_DESCRIPTORS;
        range("buffers", self.buffers.to_string(), buffers, format!("up to {MOST_DESCRIPTORS}"))?;
        let trial = (10..=60_000).contains(&self.trial_ms);
        range("trial_ms", self.trial_ms.to_string(), trial, "10 to 60000".to_owned())?;
        let Some(soak) = self.soak else { return Ok(()) };
        let count = (1..=most).contains(&soak.count);
        range("count", soak.count.to_string(), count, format!("1 to {most}"))?;
        let every = soak.every_ms.is_finite() && EVERY.contains(&soak.every());
        range("every_ms", soak.every_ms.to_string(), every, "1 to 60000".to_owned())
    }

    /// Reads a plan and checks it.
    pub fn from_toml(text: &str) -> Result<Plan, PlanError> {
        if text.len() > warikomi_inject::MAX_PLAN_TEXT_BYTES {
            return Err(PlanError::Malformed(format!("{} bytes are too many", text.len())));
        }
        let plan: Plan =
            toml::from_str(text).map_err(|error| PlanError::Malformed(error.to_string()))?;
        plan.validate()?;
        Ok(plan)
    }

    /// The plan as a file that [`Plan::from_toml`] reads.
    pub fn to_toml(&self) -> Result<String, PlanError> {
        self.validate()?;
        toml::to_string(self).map_err(|error| PlanError::Malformed(error.to_string()))
    }
}

fn twice(names: impl Iterator<Item = &'static str>) -> Result<(), PlanError> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(PlanError::Twice(name));
        }
        seen.push(name);
    }
    Ok(())
}

/// Lists of things that have names, as lists of these.
mod names {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        list: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(T::to_string))
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let soak = Soak { count: 10_000, every_ms: 100.0 };
        let plan = Plan { soak: Some(soak), ways: vec![Way::DataStore], ..Plan::default() };
        assert_eq!(Plan::from_toml(&plan.to_toml().unwrap()).unwrap(), plan);
        assert_eq!(Plan::from_toml("").unwrap(), Plan::default());
    }

    #[test]
    fn refuses_what_cannot_be_and_says_what_can() {
        let refused = |text: &str| Plan::from_toml(text).unwrap_err().to_string();
        assert!(refused("ways = []").contains("name one"));
        assert!(refused("ways = ['reload', 'reload']").contains("twice"));
        assert!(refused("ways = ['magic']").contains("shared-state"));
        assert!(refused("loads = ['lazy']").contains("heavy"));
        assert!(refused("trials = 0").contains("1 to"));
        assert!(refused("interval_ns = nan").contains("100 to"));
        assert!(refused("frame_bytes = 59").contains("60 to"));
        assert!(refused("buffers = 1025").contains("1024"));
        assert!(refused("[soak]\ncount = 1\nevery_ms = 0.5").contains("1 to 60000"));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in ".*", every in any::<f64>(), interval in any::<f64>()) {
            let _ = Plan::from_toml(&text);
            let soak = Some(Soak { count: 1, every_ms: every });
            let _ = Plan { soak, interval_ns: interval, ..Plan::default() }.validate();
        }
    }
}

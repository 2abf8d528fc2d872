//! What is replaced, how often, and under what load.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warikomi_clock::{Seed, Span};
use warikomi_driver::DEFAULT_DRIVER;
use warikomi_live::{Program, Way};
use warikomi_measure::texts;
use warikomi_nic::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use warikomi_session::ProcessSessionOptions;

use crate::error::Error;

/// The most trials of a row, and the most replacements of a soak.
pub(super) const MOST_REPLACEMENTS: u64 = 10_000_000;
/// Between two replacements of a soak.
pub(super) const EVERY: RangeInclusive<Span> = Span::from_ms(1)..=Span::from_ms(60_000);
/// Between two frames that arrive.
pub(super) const INTERVALS: RangeInclusive<Span> = Span::from_ns(100)..=Span::from_ms(1);
/// Receive descriptors that a ring has.
pub(super) const MOST_DESCRIPTORS: u64 = 1_024;
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

/// Whether a driver process is kept ready, beside the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// None: the new driver's process is created when it is asked for, as in the published systems.
    None,
    /// One that has started and waits for the device.
    Kept,
}

impl Spare {
    /// Both.
    pub const ALL: [Spare; 2] = [Spare::None, Spare::Kept];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Spare::None => "none",
            Spare::Kept => "kept",
        }
    }

    /// Whether drivers that follow one another in this way can have it so.
    pub(super) fn is_of(self, way: Way) -> bool {
        self == Spare::None || way != Way::Reload
    }
}

impl fmt::Display for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither none nor kept")]
pub struct ParseSpareError(String);

impl FromStr for Spare {
    type Err = ParseSpareError;

    fn from_str(text: &str) -> Result<Spare, ParseSpareError> {
        let named = Spare::ALL.into_iter().find(|spare| spare.name() == text.trim());
        named.ok_or_else(|| ParseSpareError(text.trim().to_owned()))
    }
}

/// Many replacements, one after the other, while nothing may grow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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

/// What is replaced by what.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is measured.
    pub plan: Plan,
    /// The target with its first driver.
    pub session: ProcessSessionOptions,
    /// The driver that follows, and is followed by the first again.
    pub to: Program,
}

/// One row to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// Which of the plan's, from 0.
    pub(super) number: u64,
    pub(super) way: Way,
    pub(super) load: Load,
    pub(super) spare: Spare,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Ways to replace.
    #[serde(serialize_with = "texts")]
    pub ways: Vec<Way>,
    /// Loads, each with each way.
    #[serde(serialize_with = "texts")]
    pub loads: Vec<Load>,
    /// Whether a driver process is kept ready, each with each way that can have it so.
    #[serde(serialize_with = "texts")]
    pub spares: Vec<Spare>,
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
            spares: Spare::ALL.to_vec(),
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

impl Plan {
    /// Time between two frames that arrive under heavy load.
    pub fn interval(&self) -> Span {
        Span::from_ps((self.interval_ns * 1e3) as u64)
    }

    /// Each way under each load, with and without a spare where it can have one.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &way in &self.ways {
            for &load in &self.loads {
                for &spare in self.spares.iter().filter(|spare| spare.is_of(way)) {
                    cases.push(Case { number: cases.len() as u64, way, load, spare });
                }
            }
        }
        cases
    }

    /// The case in which the edge of a way is looked for: frames arrive, and a spare is kept if it may be.
    pub(super) fn edge_case(&self, way: Way) -> Case {
        let of_way = self.spares.iter().rfind(|spare| spare.is_of(way));
        Case { number: 0, way, load: Load::Heavy, spare: of_way.copied().unwrap_or(Spare::None) }
    }

    /// Checks every value against what is possible.
    pub fn validate(&self) -> Result<(), Error> {
        if self.ways.is_empty() || self.loads.is_empty() {
            return Err(Error::impossible(
                "no way or no load is left to measure; name one of each at least",
            ));
        }
        twice(self.ways.iter().map(|way| way.name()))?;
        twice(self.loads.iter().map(|load| load.name()))?;
        twice(self.spares.iter().map(|spare| spare.name()))?;
        if let Some(way) =
            self.ways.iter().find(|&&way| !self.spares.iter().any(|it| it.is_of(way)))
        {
            return Err(Error::impossible(format!(
                "by {way} a new driver is started when the old one has gone, so none can be kept ready; add \
                 none to --spare, or name other ways"
            )));
        }
        let range = |name: &str, got: String, holds: bool, range: String| match holds {
            true => Ok(()),
            false => {
                Err(Error::impossible(format!("{name} = {got} is not possible: choose {range}")))
            }
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
}

fn twice(names: impl Iterator<Item = &'static str>) -> Result<(), Error> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(Error::impossible(format!("{name} is there twice; name each once")));
        }
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_cannot_be_and_says_what_can() {
        let refused = |plan: Plan| plan.validate().unwrap_err().to_string();
        let usual = Plan::default;
        assert!(refused(Plan { ways: vec![], ..usual() }).contains("name one"));
        assert!(refused(Plan { ways: vec![Way::Reload; 2], ..usual() }).contains("twice"));
        assert!("magic".parse::<Way>().unwrap_err().to_string().contains("shared-state"));
        assert!("lazy".parse::<Load>().unwrap_err().to_string().contains("heavy"));
        let kept = Plan { ways: vec![Way::Reload], spares: vec![Spare::Kept], ..usual() };
        assert!(refused(kept).contains("by reload"));
        assert!(refused(Plan { spares: vec![Spare::None; 2], ..usual() }).contains("twice"));
        assert!("some".parse::<Spare>().unwrap_err().to_string().contains("kept"));
        assert!(refused(Plan { trials: 0, ..usual() }).contains("1 to"));
        assert!(refused(Plan { interval_ns: f64::NAN, ..usual() }).contains("100 to"));
        assert!(refused(Plan { frame_bytes: 59, ..usual() }).contains("60 to"));
        assert!(refused(Plan { buffers: 1_025, ..usual() }).contains("1024"));
        let soak = Some(Soak { count: 1, every_ms: 0.5 });
        assert!(refused(Plan { soak, ..usual() }).contains("1 to 60000"));
    }

    #[test]
    fn in_a_result_ways_and_loads_stand_by_their_names() {
        let plan =
            warikomi_measure::as_object(&Plan { ways: vec![Way::DataStore], ..Plan::default() });
        assert_eq!(plan["ways"], serde_json::json!(["data-store"]));
        assert_eq!(plan["loads"], serde_json::json!(["idle", "busy", "heavy"]));
        assert_eq!(plan["spares"], serde_json::json!(["none", "kept"]));
        assert!(!plan.contains_key("soak"));
    }

    #[test]
    fn every_way_but_a_reload_is_tried_with_and_without_a_spare() {
        let plan = Plan { loads: vec![Load::Busy], ..Plan::default() };
        let cases: Vec<_> = plan.cases().into_iter().map(|case| (case.way, case.spare)).collect();
        let [none, kept] = Spare::ALL;
        let (store, shared) = (Way::DataStore, Way::SharedState);
        let expected =
            [(Way::Reload, none), (store, none), (store, kept), (shared, none), (shared, kept)];
        assert_eq!(cases, expected);
        assert_eq!(plan.edge_case(Way::Reload).spare, none);
        assert_eq!(plan.edge_case(store).spare, kept);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_number(every in any::<f64>(), interval in any::<f64>()) {
            let soak = Some(Soak { count: 1, every_ms: every });
            let _ = Plan { soak, interval_ns: interval, ..Plan::default() }.validate();
        }
    }
}

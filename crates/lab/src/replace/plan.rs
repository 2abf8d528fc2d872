//! What is replaced, how often, and under what load.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use warikomi_clock::{Seed, Span};
use warikomi_driver::DEFAULT_DRIVER;
use warikomi_live::{Program, Way};
use warikomi_measure::texts;
use warikomi_nic::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use warikomi_process::{MOST_READS, MOST_STORE_CLIENTS, StateIo, USUAL_STORE_INTERVAL};
use warikomi_session::{LiveOptions, ProcessSessionOptions};

use super::claims::{self, Claim, Claimant};
use crate::error::Error;

/// The most trials of a row, and the most replacements of a soak.
pub(super) const MOST_REPLACEMENTS: u64 = 10_000_000;
/// Between two replacements of a soak.
pub(super) const EVERY: RangeInclusive<Span> = Span::from_ms(1)..=Span::from_ms(60_000);
/// Between two frames that arrive.
pub(super) const INTERVALS: RangeInclusive<Span> = Span::from_ns(100)..=Span::from_ms(1);
/// How often a client of the store may ask.
pub(super) const STORE_INTERVALS: RangeInclusive<Span> = Span::from_us(10)..=Span::from_ms(1_000);
/// Receive descriptors that a ring has.
pub(super) const MOST_DESCRIPTORS: u64 = 1_024;
/// What a frame takes of a line besides its bytes: check sequence, preamble, gap (IEEE 802.3-2018, 3.1.1 and 4.4.2).
const FRAME_OVERHEAD_BYTES: usize = 24;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// When the store serves what belongs to a replacement.
    #[serde(serialize_with = "state_io")]
    pub state_io: StateIo,
    /// Clients of the store that have nothing to do with drivers.
    pub store_load: u32,
    /// How often each of them asks.
    pub store_interval_ns: f64,
    /// What the target's processes claim of their core; what is usual if nothing is said.
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<Claim>,
    /// The supervisor is on the core of the target's processes.
    pub one_core: bool,
    /// Reads from a disk that the creation of a driver process waits for.
    pub creation_io: u32,
    /// What the card's line carries in a second; a frame takes no time if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_rate_bps: Option<u64>,
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
            state_io: StateIo::InTurn,
            store_load: 0,
            store_interval_ns: USUAL_STORE_INTERVAL.as_ns(),
            priorities: Vec::new(),
            one_core: false,
            creation_io: 0,
            line_rate_bps: None,
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

    /// Whether drivers that follow one another in this way have it so. A process that is kept ready is one of the driver
    /// that runs, and takes over from it only by a way that lets both be there.
    pub(super) fn has(&self, spare: Spare, way: Way) -> bool {
        let follows_itself = self.kill || self.to == self.driver;
        spare == Spare::None || (way != Way::Reload && follows_itself)
    }

    /// Each way under each load, with and without a spare where it can have one.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &way in &self.ways {
            for &load in &self.loads {
                for &spare in self.spares.iter().filter(|&&spare| self.has(spare, way)) {
                    cases.push(Case { number: cases.len() as u64, way, load, spare });
                }
            }
        }
        cases
    }

    /// The case in which the edge of a way is looked for: frames arrive, and a spare is kept if it may be.
    pub(super) fn edge_case(&self, way: Way) -> Case {
        let of_way = self.spares.iter().rfind(|&&spare| self.has(spare, way));
        Case { number: 0, way, load: Load::Heavy, spare: of_way.copied().unwrap_or(Spare::None) }
    }

    /// How drivers follow one another in this way.
    pub(super) fn live(&self, way: Way) -> LiveOptions {
        LiveOptions {
            state_io: self.state_io,
            store_clients: self.store_load,
            store_interval: Span::from_ps((self.store_interval_ns * 1e3) as u64),
            priorities: claims::priorities(&self.priorities),
            creation_reads: self.creation_io,
            // The supervisor is a thread of ours, on their core.
            own_session: !self.one_core,
            ..LiveOptions::of(way)
        }
    }

    /// The nice value of who asks for replacements, where it is on the target's core.
    pub(super) fn requester_nice(&self) -> i32 {
        claims::nice_of(&self.priorities, Claimant::Requester).unwrap_or(0)
    }

    /// Checks that every way can have one of the spares.
    fn validate_spares(&self) -> Result<(), Error> {
        twice(self.spares.iter().map(|spare| spare.name()))?;
        let has_one = |way: Way| self.spares.iter().any(|&spare| self.has(spare, way));
        match self.ways.iter().find(|&&way| !has_one(way)) {
            None => Ok(()),
            Some(way @ Way::Reload) => Err(Error::impossible(format!(
                "by {way} a new driver is started when the old one has gone, so none can be kept ready; add none to \
                 --spare, or name other ways"
            ))),
            Some(_) => Err(Error::impossible(
                "what is kept ready is another process of the driver that runs, and --to names another driver; add none \
                 to --spare, or leave --to out",
            )),
        }
    }

    /// Checks what makes processes wait against what is possible together.
    fn validate_waits(&self) -> Result<(), Error> {
        twice(self.priorities.iter().map(|claim| claim.who.name()))?;
        let requester = self.priorities.iter().any(|claim| claim.who == Claimant::Requester);
        if requester && !self.one_core {
            return Err(Error::impossible(
                "who asks for a replacement has a core without competitors, where a priority has no effect; give \
                 --one-core besides, or leave requester= out",
            ));
        }
        if self.store_load > 0 && self.ways.iter().any(|&way| way != Way::DataStore) {
            return Err(Error::impossible(
                "--store-load is for a data store, and other ways have none; name --way data-store alone",
            ));
        }
        let Some(bps) = self.line_rate_bps.filter(|_| self.loads.contains(&Load::Heavy)) else {
            return Ok(());
        };
        let bits = 8 * (self.frame_bytes + FRAME_OVERHEAD_BYTES);
        let wire_ns = bits as f64 * 1e9 / bps as f64;
        if wire_ns <= self.interval_ns {
            return Ok(());
        }
        Err(Error::impossible(format!(
            "on that line a frame of {} bytes takes {wire_ns:.0} ns, and under heavy load one comes every {} ns; give \
             a longer --interval, or shorter frames, or another --load",
            self.frame_bytes, self.interval_ns
        )))
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
        self.validate_spares()?;
        self.validate_waits()?;
        let range = |name: &str, got: String, holds: bool, range: String| match holds {
            true => Ok(()),
            false => {
                Err(Error::impossible(format!("{name} = {got} is not possible: choose {range}")))
            }
        };
        let most = MOST_REPLACEMENTS;
        let trials = (1..=most).contains(&self.trials);
        range("trials", self.trials.to_string(), trials, format!("1 to {most}"))?;
        let reads = self.creation_io <= MOST_READS;
        range("creation_io", self.creation_io.to_string(), reads, format!("up to {MOST_READS}"))?;
        let clients = self.store_load <= MOST_STORE_CLIENTS;
        let up_to = format!("up to {MOST_STORE_CLIENTS}");
        range("store_load", self.store_load.to_string(), clients, up_to)?;
        let ns = self.store_interval_ns;
        let [least, most_ns] =
            [STORE_INTERVALS.start(), STORE_INTERVALS.end()].map(|it| it.as_ns());
        let between = format!("{least} to {most_ns} ns");
        range("store_interval_ns", ns.to_string(), (least..=most_ns).contains(&ns), between)?;
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

fn state_io<S: Serializer>(state_io: &StateIo, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state_io.name())
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
        let claims = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let priorities = claims(&["drivers=1", "drivers=2"]);
        assert!(refused(Plan { priorities, ..usual() }).contains("twice"));
        let priorities = claims(&["requester=high"]);
        assert!(refused(Plan { priorities, ..usual() }).contains("--one-core"));
        assert!(refused(Plan { store_load: 1, ..usual() }).contains("--way data-store alone"));
        let stored = Plan { ways: vec![Way::DataStore], store_load: 33, ..usual() };
        assert!(refused(stored).contains("up to 32"));
        assert!(refused(Plan { creation_io: 1_001, ..usual() }).contains("up to 1000"));
        let slow = Plan { line_rate_bps: Some(100_000_000), ..usual() };
        assert!(refused(slow.clone()).contains("takes 83840 ns"));
        Plan { loads: vec![Load::Busy], ..slow.clone() }.validate().unwrap();
        Plan { interval_ns: 83_840.0, ..slow }.validate().unwrap();
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
        let to_another = Plan { to: "./mine".to_owned(), ..plan.clone() };
        assert!(to_another.cases().iter().all(|case| case.spare == none));
        let killed = Plan { kill: true, ..to_another };
        assert_eq!(killed.cases(), plan.cases());
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

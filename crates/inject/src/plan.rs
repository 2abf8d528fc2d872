//! What is to be injected, as data.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Arrivals, Seed, Span};
use warikomi_nic::{LONGEST_FRAME_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use warikomi_wire::wire_time;

use crate::arrival::{Arrival, FITTED_JITTER};
use crate::burst::{Burst, MAX_BURST_BYTES};
use crate::fault::{Fault, MAX_FAULTS};

/// The most packets that one run may have: what the support side can account for one by one
/// within its share of memory.
pub const MAX_COUNT: u64 = 50_000_000;

/// The longest interval.
pub const MAX_INTERVAL: Span = Span::from_ms(60_000);

/// The most packets behind one interrupt. A burst goes out in one go, and the target must not be
/// left without an answer for long.
pub const MAX_PACKETS_PER_INTERRUPT: u32 = 1_024;

/// The longest that a plan may take by its own intervals: a day.
pub const MAX_DURATION: Span = Span::from_ms(24 * 60 * 60 * 1_000);

/// The longest plan file that is read, in bytes.
pub const MAX_PLAN_TEXT_BYTES: usize = 64 * 1024;

/// Line rates that make sense, in bits per second: 1 Mbit/s to 1 Tbit/s.
const LINE_RATES_BPS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;

/// How far packets are meant to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receiver {
    /// To an application in the target, over UDP.
    #[default]
    Application,
    /// To the driver: no protocol takes them, so that its speed is not the stack's.
    Driver,
    /// To the wire of a second card: the target's kernel forwards them.
    SecondCard,
}

/// Packets that go before those that count, so that caches, page tables and branch predictors are
/// as warm as they will be. They carry a run id of their own and are in no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Warmup {
    /// How many packets; 0 for none.
    pub count: u64,
    /// The time between two of them; in files `interval_ns`.
    #[serde(rename = "interval_ns", with = "span_ns")]
    pub interval: Span,
}

impl Warmup {
    /// None at all.
    pub const NONE: Warmup = Warmup { count: 0, interval: Span::ZERO };
}

impl Default for Warmup {
    fn default() -> Self {
        Warmup { count: 1_000, interval: Span::from_us(20) }
    }
}

/// What is to be injected.
///
/// One deadline every `interval`; at each, `packets_per_interrupt` packets go to the NIC back to
/// back and one interrupt follows the last of them. (The last deadline has fewer if `count` is no
/// multiple.)
///
/// With arrival in bursts, `interval` is from the start of one burst to the start of the next, and
/// each frame of a burst has a deadline of its own: when the line has sent the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Length of each Ethernet frame in bytes, without its check sequence: 60 to 16,379, or
    /// what the card takes ([`Plan::validate_for`]). The last frame of a burst has what is left.
    pub size_bytes: usize,
    /// Time between two deadlines; zero for as fast as possible. In files `interval_ns`, in
    /// nanoseconds with up to three decimals.
    #[serde(rename = "interval_ns", with = "span_ns")]
    pub interval: Span,
    /// Packets in all.
    pub count: u64,
    /// Packets at each deadline.
    pub packets_per_interrupt: u32,
    /// How many flows they belong to, in turn: one source port each, from the sender's usual one on, by
    /// which a NIC with several receive queues steers them. 1 to 65,535.
    pub flows: u32,
    /// How far they are meant to go.
    pub receiver: Receiver,
    /// The distribution of arrival times.
    pub arrival: Arrival,
    /// Where the randomness starts from; at most 2^63 - 1, the largest integer that TOML has.
    pub seed: Seed,
    /// A line that the packets come over, in bit/s: deadlines are then at least as far apart as
    /// the packets are long on that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_rate_bps: Option<u64>,
    /// Length of each burst in bytes, all its frames together without check sequences; with arrival
    /// in bursts, and only then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<usize>,
    /// What goes wrong; of faults that strike on one occasion the first does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// What goes before the packets that count.
    pub warmup: Warmup,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            size_bytes: 1_500,
            interval: Span::from_us(38),
            count: 1_000,
            packets_per_interrupt: 1,
            flows: 1,
            receiver: Receiver::Application,
            arrival: Arrival::Constant,
            seed: Seed(1),
            line_rate_bps: None,
            burst_bytes: None,
            faults: Vec::new(),
            warmup: Warmup::default(),
        }
    }
}

/// The most flows: every UDP port but 0, which is none (RFC 768).
pub const MAX_FLOWS: u32 = 65_535;

/// Why a plan cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// `size_bytes` out of range.
    #[error(
        "size_bytes = {got} is not possible: a frame without check sequence has {MIN_FRAME_BYTES} to \
         {most} bytes; choose one of these, such as 1500"
    )]
    Size {
        /// The value of the plan.
        got: usize,
        /// The longest that is possible.
        most: usize,
    },
    /// `interval` too long.
    #[error("{name} = {got} is too long: choose 0 (as fast as possible) to {MAX_INTERVAL}")]
    Interval {
        /// Name of the interval.
        name: &'static str,
        /// The value of the plan.
        got: Span,
    },
    /// `count` out of range.
    #[error(
        "{name} = {got} is not possible: choose {least} to {MAX_COUNT}, and for more make several \
         runs"
    )]
    Count {
        /// Name of the count.
        name: &'static str,
        /// The value of the plan.
        got: u64,
        /// The least that is possible.
        least: u64,
    },
    /// `packets_per_interrupt` out of range.
    #[error(
        "packets_per_interrupt = {0} is not possible: choose 1 (an interrupt for every packet) to \
         {MAX_PACKETS_PER_INTERRUPT}"
    )]
    PacketsPerInterrupt(u32),
    /// `flows` out of range.
    #[error(
        "flows = {0} is not possible: choose 1 (all packets from one port) to {MAX_FLOWS} (from as \
         many ports)"
    )]
    Flows(u32),
    /// A fault on a vector that the NIC does not have.
    #[error(
        "the fault {fault} is of vector {vector}, and this NIC has {}: choose one of these, or \
         leave vector= out for the first", vectors_of(*.vectors)
    )]
    Vector {
        /// The fault.
        fault: &'static str,
        /// The vector that it names.
        vector: u16,
        /// Vectors of the NIC.
        vectors: u16,
    },
    /// A fault that pulls the card out of a slot that does not tell of it.
    #[error("the fault {0} needs a Linux kernel to which our PCI bridge attaches the card")]
    Hotplug(&'static str),
    /// An interval that would be less than nothing.
    #[error(
        "arrival = \"fitted_real_nic\" puts intervals off by up to {FITTED_JITTER}, and {0} is less: give an \
         interval of {FITTED_JITTER} or more"
    )]
    ShorterThanJitter(Span),
    /// A random arrival without a mean.
    #[error(
        "a random arrival with interval_ns = 0 has no mean: give the mean interval, or choose \
         arrival = \"constant\" (or \"bursts\") for as fast as possible"
    )]
    PoissonWithoutMean,
    /// Bursts without what makes one.
    #[error("arrival in bursts needs {missing}: give it, such as {example}")]
    BurstsWithout {
        /// The missing key.
        missing: &'static str,
        /// An example of it.
        example: &'static str,
    },
    /// `burst_bytes` out of range.
    #[error("burst_bytes = {0} is not possible: choose 1 to {MAX_BURST_BYTES}, such as 50000")]
    BurstBytes(usize),
    /// `burst_bytes` for nothing.
    #[error(
        "burst_bytes is for bursts only: choose arrival = \"bursts\" or \"poisson_bursts\", or \
         leave it out"
    )]
    NoBursts,
    /// Bursts, and several packets to a deadline.
    #[error(
        "in bursts each packet has a deadline of its own: leave packets_per_interrupt at 1, not {0}"
    )]
    BurstsTogether(u32),
    /// `seed` out of range.
    #[error("seed = {0} does not fit into a TOML integer: choose 0 to 9223372036854775807")]
    Seed(u64),
    /// `line_rate_bps` out of range.
    #[error(
        "line_rate_bps = {0} is not possible: choose 1000000 (1 Mbit/s) to 1000000000000 \
         (1 Tbit/s), or leave it out for no line at all"
    )]
    LineRate(u64),
    /// Too many faults.
    #[error("{0} faults are too many: choose up to {MAX_FAULTS}, and for more make several runs")]
    Faults(usize),
    /// The run would take too long.
    #[error(
        "this plan would take {got}, and the longest run is {MAX_DURATION}: lower count or \
         interval_ns"
    )]
    Duration {
        /// The length of the run that was asked for.
        got: Span,
    },
    /// The file is too big to be a plan.
    #[error("the plan has {0} bytes, more than the {MAX_PLAN_TEXT_BYTES} of any plan; is it one?")]
    TooBig(usize),
    /// Not TOML, or not a plan.
    #[error("this is not a plan: {0}")]
    Malformed(String),
}

fn vectors_of(vectors: u16) -> String {
    match vectors.saturating_sub(1) {
        0 => "vector 0 only".to_owned(),
        last => format!("vectors 0 to {last}"),
    }
}

impl Plan {
    /// Checks every value against what is possible with every card.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.validate_for(MAX_FRAME_BYTES)
    }

    /// Checks every value against what is possible with a card that takes frames of at most so many bytes.
    pub fn validate_for(&self, most_frame_bytes: usize) -> Result<(), PlanError> {
        let most = most_frame_bytes.min(LONGEST_FRAME_BYTES);
        if !(MIN_FRAME_BYTES..=most).contains(&self.size_bytes) {
            return Err(PlanError::Size { got: self.size_bytes, most });
        }
        checked_interval("interval_ns", self.interval)?;
        checked_interval("warmup.interval_ns", self.warmup.interval)?;
        checked_count("count", self.count, 1)?;
        checked_count("warmup.count", self.warmup.count, 0)?;
        if !(1..=MAX_PACKETS_PER_INTERRUPT).contains(&self.packets_per_interrupt) {
            return Err(PlanError::PacketsPerInterrupt(self.packets_per_interrupt));
        }
        if !(1..=MAX_FLOWS).contains(&self.flows) {
            return Err(PlanError::Flows(self.flows));
        }
        if self.arrival.is_random() && self.interval == Span::ZERO {
            return Err(PlanError::PoissonWithoutMean);
        }
        if self.arrival.is_fitted() && self.interval < FITTED_JITTER {
            return Err(PlanError::ShorterThanJitter(self.interval));
        }
        self.validate_bursts()?;
        if i64::try_from(self.seed.0).is_err() {
            return Err(PlanError::Seed(self.seed.0));
        }
        if let Some(bps) = self.line_rate_bps
            && !LINE_RATES_BPS.contains(&bps)
        {
            return Err(PlanError::LineRate(bps));
        }
        if self.faults.len() > MAX_FAULTS {
            return Err(PlanError::Faults(self.faults.len()));
        }
        let got = self.duration() + self.warmup.interval * self.warmup.count;
        if got > MAX_DURATION { Err(PlanError::Duration { got }) } else { Ok(()) }
    }

    fn validate_bursts(&self) -> Result<(), PlanError> {
        let missing = |missing, example| Err(PlanError::BurstsWithout { missing, example });
        match (self.arrival.is_bursts(), self.burst_bytes) {
            (false, None) => return Ok(()),
            (false, Some(_)) => return Err(PlanError::NoBursts),
            (true, None) => return missing("burst_bytes", "50000"),
            (true, Some(bytes)) if !(1..=MAX_BURST_BYTES).contains(&bytes) => {
                return Err(PlanError::BurstBytes(bytes));
            }
            (true, Some(_)) => {}
        }
        match (self.line_rate_bps, self.packets_per_interrupt) {
            (None, _) => missing("line_rate_bps", "800000000"),
            (Some(_), 1) => Ok(()),
            (Some(_), several) => Err(PlanError::BurstsTogether(several)),
        }
    }

    /// Checks the vectors of faults against those that the NIC has.
    pub fn validate_vectors(&self, vectors: u16) -> Result<(), PlanError> {
        let named = |fault: &Fault| fault.kind.vector().map(|vector| (fault.kind.name(), vector));
        match self.faults.iter().filter_map(named).find(|(_, vector)| *vector >= vectors) {
            Some((fault, vector)) => Err(PlanError::Vector { fault, vector, vectors }),
            None => Ok(()),
        }
    }

    /// Checks the faults against whether the target has hotplug.
    pub fn validate_hotplug(&self, has_hotplug: bool) -> Result<(), PlanError> {
        match self.faults.iter().find(|fault| fault.kind.needs_hotplug()) {
            Some(fault) if !has_hotplug => Err(PlanError::Hotplug(fault.kind.name())),
            _ => Ok(()),
        }
    }

    /// How bursts are cut into frames; `None` if packets do not arrive in bursts.
    pub fn burst(&self) -> Option<Burst> {
        let bytes = self.burst_bytes.filter(|_| self.arrival.is_bursts())?;
        Some(Burst::cut(bytes, self.size_bytes))
    }

    /// The mean length of a frame in bytes, over whole bursts.
    pub fn mean_frame_bytes(&self) -> f64 {
        self.burst()
            .map_or(self.size_bytes as f64, |burst| burst.bytes() as f64 / burst.frames() as f64)
    }

    /// How long the run takes by its own intervals, without warm-up; zero if it is as fast as
    /// possible.
    pub fn duration(&self) -> Span {
        match self.burst() {
            Some(burst) => self.spacing() * self.count.div_ceil(burst.frames()),
            None => {
                self.spacing() * self.count.div_ceil(u64::from(self.packets_per_interrupt.max(1)))
            }
        }
    }

    /// The time between two deadlines, or two bursts (their mean, for a random arrival): the
    /// interval, or the time that the packets take on the line if that is longer.
    pub fn spacing(&self) -> Span {
        let on_the_line = match (self.burst(), self.line_rate_bps) {
            (Some(burst), Some(bps)) => burst.line_time(bps),
            _ => self.burst_wire_time(),
        };
        self.interval.max(on_the_line)
    }

    /// How long the packets of one deadline take on the plan's line; zero without one.
    pub fn burst_wire_time(&self) -> Span {
        self.line_rate_bps.map_or(Span::ZERO, |bps| {
            wire_time(self.size_bytes, bps) * u64::from(self.packets_per_interrupt)
        })
    }

    /// The gaps between deadlines, or between bursts.
    pub fn arrivals(&self) -> Arrivals {
        self.arrival.gaps(self.interval, self.seed)
    }

    /// The interval that can be compared with what was measured; `None` if there is not one (as
    /// fast as possible, or a random arrival).
    pub fn comparable_interval(&self) -> Option<Span> {
        let spacing = self.spacing();
        (self.arrival == Arrival::Constant && spacing > Span::ZERO).then_some(spacing)
    }

    /// The warm-up as a plan of its own, to be run with a run id of its own; `None` for none.
    pub fn warmup_plan(&self) -> Option<Plan> {
        (self.warmup.count > 0).then(|| Plan {
            size_bytes: self.size_bytes,
            interval: self.warmup.interval,
            count: self.warmup.count,
            flows: self.flows,
            receiver: self.receiver,
            seed: self.seed,
            warmup: Warmup::NONE,
            ..Plan::default()
        })
    }

    /// Reads a plan and checks it. A key that no plan has is refused, because a misspelt one would
    /// otherwise quietly not happen; a key that is left out has its default.
    pub fn from_toml(text: &str) -> Result<Plan, PlanError> {
        if text.len() > MAX_PLAN_TEXT_BYTES {
            return Err(PlanError::TooBig(text.len()));
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

fn checked_interval(name: &'static str, got: Span) -> Result<(), PlanError> {
    if got > MAX_INTERVAL { Err(PlanError::Interval { name, got }) } else { Ok(()) }
}

fn checked_count(name: &'static str, got: u64, least: u64) -> Result<(), PlanError> {
    if (least..=MAX_COUNT).contains(&got) {
        Ok(())
    } else {
        Err(PlanError::Count { name, got, least })
    }
}

/// A span as nanoseconds: a whole number where it is one, else with up to three decimals.
mod span_ns {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use warikomi_clock::Span;

    pub(super) fn serialize<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
        match span.as_ps() {
            ps if ps % 1_000 == 0 => to.serialize_u64(ps / 1_000),
            _ => to.serialize_f64(span.as_ns()),
        }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Nanoseconds {
        Whole(u64),
        Decimal(f64),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        const WANTED: &str = "a time in nanoseconds, 0 or more, such as 38000";
        match Nanoseconds::deserialize(from).map_err(|_| D::Error::custom(WANTED))? {
            Nanoseconds::Whole(ns) => Ok(Span::from_ns(ns)),
            Nanoseconds::Decimal(ns) if ns >= 0.0 && ns.is_finite() => {
                Ok(Span::from_ps((ns * 1e3).round() as u64))
            }
            Nanoseconds::Decimal(_) => Err(D::Error::custom(WANTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plans() -> impl Strategy<Value = Plan> {
        let arrival = prop_oneof![
            Just(Arrival::Constant),
            Just(Arrival::Poisson),
            Just(Arrival::Bursts),
            Just(Arrival::PoissonBursts),
            Just(Arrival::FittedRealNic),
        ];
        let sizes = MIN_FRAME_BYTES..=MAX_FRAME_BYTES;
        let line = prop::option::of(10_000_000u64..=100_000_000_000);
        let numbers = (sizes, 1u64..1_000_000_000, 1u64..10_000, 1u32..=64, 0u64..1 << 63);
        let faults = prop::collection::vec(crate::fault::tests::faults(), 0..4);
        (numbers, arrival, line, 0u64..10_000, faults).prop_map(
            |(
                (size_bytes, ps, count, packets_per_interrupt, seed),
                arrival,
                line,
                warm,
                faults,
            )| Plan {
                size_bytes,
                interval: Span::from_ps(ps) + shortest(arrival),
                count,
                flows: (seed % 65_535) as u32 + 1,
                packets_per_interrupt: if arrival.is_bursts() { 1 } else { packets_per_interrupt },
                receiver: if count % 2 == 0 { Receiver::Driver } else { Receiver::Application },
                arrival,
                seed: Seed(seed),
                line_rate_bps: line.or(arrival.is_bursts().then_some(800_000_000)),
                burst_bytes: arrival.is_bursts().then_some(ps as usize % 65_000 + 1),
                faults,
                warmup: Warmup { count: warm, interval: Span::from_ps(ps * 2) },
            },
        )
    }

    /// What an interval must not be shorter than.
    fn shortest(arrival: Arrival) -> Span {
        if arrival.is_fitted() { FITTED_JITTER } else { Span::ZERO }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(plan in plans()) {
            prop_assert_eq!(Plan::from_toml(&plan.to_toml().unwrap()).unwrap(), plan);
        }

        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = Plan::from_toml(&text);
        }

        #[test]
        fn never_panics_on_any_value(
            key in prop::sample::select(vec!["size_bytes", "interval_ns", "count", "seed"]),
            value in any::<i64>(),
        ) {
            if let Ok(plan) = Plan::from_toml(&format!("{key} = {value}")) {
                prop_assert!(plan.validate().is_ok());
            }
        }
    }

    #[test]
    fn a_file_with_units_in_its_names() {
        let plan =
            Plan::from_toml("size_bytes = 16000\ninterval_ns = 3500.5\ncount = 5\n").unwrap();
        assert_eq!(plan.interval, Span::from_ps(3_500_500));
        assert_eq!((plan.size_bytes, plan.count, plan.packets_per_interrupt), (16_000, 5, 1));
        assert!(plan.to_toml().unwrap().contains("interval_ns = 3500.5\n"));
    }

    #[test]
    fn refuses_what_cannot_be_and_says_what_can() {
        let refused = |text: &str| Plan::from_toml(text).unwrap_err().to_string();
        assert!(refused("size_bytes = 59").contains("60 to 16379"));
        assert!(refused("size_bytes = 16380").contains("60 to 16379"));
        assert!(refused("count = 0").contains("choose 1 to 50000000"));
        assert!(refused("interval_ns = -1").contains("nanoseconds"));
        assert!(refused("interval_ns = nan").contains("nanoseconds"));
        assert!(refused("interval_ns = 60000000001").contains("60 s"));
        assert!(refused("packets_per_interrupt = 0").contains("1 (an interrupt for every packet)"));
        assert!(refused("line_rate_bps = 1").contains("1 Mbit/s"));
        assert!(refused("flows = 0").contains("choose 1 (all packets from one port) to 65535"));
        assert!(refused("flows = 65536").contains("flows = 65536"));
        assert!(refused("arrival = 'poisson'\ninterval_ns = 0").contains("mean"));
        assert!(refused("arrival = 'bursts'").contains("needs burst_bytes"));
        let bursts = "arrival = 'bursts'\nburst_bytes = 50000\n";
        assert!(refused(bursts).contains("needs line_rate_bps"));
        let line = "line_rate_bps = 800000000\n";
        assert!(refused(&format!("{bursts}{line}packets_per_interrupt = 2")).contains("not 2"));
        assert!(refused(&format!("{line}burst_bytes = 50000")).contains("for bursts only"));
        let none = format!("{line}arrival = 'poisson_bursts'\nburst_bytes = 0");
        assert!(refused(&none).contains("choose 1 to 16000000"));
        assert!(refused("faults = ['dma-error']").contains("at=5ms"));
        let many = "'dma-error:at=1ms',".repeat(MAX_FAULTS + 1);
        assert!(refused(&format!("faults = [{many}]")).contains("up to 32"));
        assert!(refused("interval_us = 3").contains("interval_us"));
        assert!(refused("count = 50000000\ninterval_ns = 10000000").contains("longest run"));
        assert!(refused(&"#".repeat(MAX_PLAN_TEXT_BYTES + 1)).contains("bytes"));
    }

    #[test]
    fn a_fault_on_a_vector_that_is_not_there_is_refused_in_words() {
        let plan = Plan::from_toml("faults = ['interrupt-storm:at=1ms,vector=2']").unwrap();
        assert_eq!(plan.validate_vectors(3), Ok(()));
        let refused = |vectors| plan.validate_vectors(vectors).unwrap_err().to_string();
        assert!(
            refused(2).contains("interrupt-storm is of vector 2, and this NIC has vectors 0 to 1")
        );
        assert!(refused(1).contains("has vector 0 only"));
    }

    #[test]
    fn a_line_spreads_what_would_be_closer() {
        let plan =
            Plan { interval: Span::ZERO, line_rate_bps: Some(1_000_000_000), ..Plan::default() };
        assert_eq!(plan.spacing(), Span::from_ns(12_192));
        assert_eq!(plan.comparable_interval(), Some(Span::from_ns(12_192)));
        assert_eq!(Plan { interval: Span::ZERO, ..Plan::default() }.comparable_interval(), None);
    }
}

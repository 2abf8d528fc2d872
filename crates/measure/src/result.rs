//! The result of an experiment, in the form in which it is kept.
//!
//! A figure that does not apply, or that the time base cannot support, is absent: every such field
//! is an `Option` that is left out of the file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::layout::{Layout, OutOfBounds};
use crate::{Distribution, FaultReport, Hiccupping, IntervalStats, Machine, MadeShard, Totals};

/// The version of the form; `docs/result.md` lists what each changed.
pub const SCHEMA: u32 = 3;

/// The oldest form that is read as well: what it has means the same today.
const OLDEST_SCHEMA: u32 = 1;

/// The longest result that is read, in bytes.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// The clock of a run: real or virtual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeBase {
    /// The processor's time stamp counter.
    #[default]
    Real,
    /// A calendar: every cost is declared.
    Virtual,
}

/// The target, driver and model of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// `kernel`, `process` or `vm`.
    pub kind: String,
    /// The driver's name, as its system calls it.
    pub driver: String,
    /// The NIC model's name.
    pub model: String,
    /// The version of the kernel that ran the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Settings in force in the target, such as `gro` and `napi_defer_hard_irqs`, as it reported
    /// them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
}

impl TargetInfo {
    /// A process target that is simulated.
    pub fn of_simulated(driver: &str, model: &str) -> TargetInfo {
        let (driver, model) = (driver.to_owned(), model.to_owned());
        TargetInfo { kind: "process".to_owned(), driver, model, ..TargetInfo::default() }
    }
}

/// Shares (0 to 1) of the injected packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Success {
    /// Accepted by the driver.
    pub driver: f64,
    /// Received by the application; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<f64>,
}

impl Success {
    /// The shares of a run; `None` if nothing was injected.
    pub fn of(totals: &Totals) -> Option<Success> {
        let share = |packets: u64| packets as f64 / totals.injected as f64;
        (totals.injected > 0).then(|| Success {
            driver: share(totals.accepted),
            end_to_end: (totals.unclaimed == 0).then(|| share(totals.delivered)),
        })
    }
}

/// Intervals at three places, all in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Intervals {
    /// What was asked for; absent where no single interval was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_ns: Option<f64>,
    /// Between injections (of a burst: of its first packet).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected: Option<IntervalStats>,
    /// Between rises of the NIC's interrupts, whichever of its vectors rose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<IntervalStats>,
    /// Between first reads of an interrupt's status by the driver's handler, whichever vector's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<IntervalStats>,
}

/// How well the schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pacing {
    /// Packets that went out later than their deadline and the slack.
    pub missed_deadlines: u64,
    /// The slack, in nanoseconds.
    pub slack_ns: f64,
    /// The longest that a packet was late, in nanoseconds, also within the slack.
    pub longest_lateness_ns: f64,
}

/// Interrupts, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// Times that one of the NIC's interrupts rose.
    pub raised: u64,
    /// Of these: times that the driver came to read the status before it rose again.
    pub handled: u64,
    /// Times that the target had to be woken again for an interrupt that it had been told of.
    pub resignalled: u64,
    /// Each vector by itself, in order; nothing for a NIC with one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<VectorInterrupts>,
}

/// Interrupts of one vector, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorInterrupts {
    /// The vector, from 0.
    pub vector: u16,
    /// Times that it rose.
    pub raised: u64,
    /// Of these: times that the driver came to read its status before it rose again.
    pub handled: u64,
    /// Of these: times that it rose again before the driver read its status.
    pub unhandled: u64,
}

/// Something about a measurement that makes it worth less than it could be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What is wrong.
    pub what: String,
    /// What to do about it. Older results call it `mend`.
    #[serde(alias = "mend")]
    pub hint: String,
}

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Which experiment: `inject`, `sweep` and so on.
    pub experiment: String,
    /// The version of this form; see [`SCHEMA`].
    pub schema: u32,
    /// The version of Warikomi that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The clock of the run.
    pub time_base: TimeBase,
    /// The machine that it ran on.
    pub machine: Machine,
    /// The target, driver and model that were tested.
    pub target: TargetInfo,
    /// The shard that this is, of a run whose other shards are elsewhere. Its steps are kept beside it, and
    /// nothing is concluded from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<MadeShard>,
    /// The shards that the run was merged from, in order; empty if it was made as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<MadeShard>,
    /// The plan, by the names that its file has.
    #[serde(default)]
    pub plan: Map<String, Value>,
    /// What became of each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Totals>,
    /// The ledger of each receive queue, by its number; absent for a NIC with one. What is planned of
    /// a queue is what was injected into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Totals>>,
    /// Shares of the injected packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<Success>,
    /// Intervals at three places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// How well the schedule was kept; absent for a plan that is as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// Bits of frames, without check sequences, that the driver accepted in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<f64>,
    /// Time to inject a packet (update descriptor, place packet, request interrupt), in
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject_ns: Option<Distribution>,
    /// Time from a packet's injection until it left the second card, in nanoseconds; of packets that the target's kernel
    /// forwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transit_ns: Option<Distribution>,
    /// Interrupts, counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Interrupts>,
    /// Hiccups of the loops on either side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hiccups: Option<Hiccupping>,
    /// What was made to go wrong, and what the driver did about it; absent without faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultReport>,
    /// Whether `samples.csv` has the times of each packet. `false` in runs with too many packets
    /// for that: then these figures are all there is.
    #[serde(default)]
    pub per_packet_times: bool,
    /// What makes it worth less than it could be.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The table of an experiment that makes one: an object a row, units in the names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<Map<String, Value>>>,
    /// Single figures of an experiment that are nowhere else, units in the names.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub figures: Map<String, Value>,
    /// How all of it is to be shown: `columns`, `charts`, `tables` and so on.
    #[serde(flatten)]
    pub layout: Layout,
}

/// One figure of one repetition: a line of `repeats.csv`, from which the noise of a figure follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// The figure, by the name that it has in `rows` or `figures`.
    pub figure: String,
    /// The frame length that it belongs to, in bytes, if it belongs to one.
    pub size_bytes: Option<usize>,
    /// Which repetition: 1, 2 and so on.
    pub repeat: u32,
    /// Its value, in the unit of its name.
    pub value: f64,
}

/// Why a file is not a result that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or cut off.
    #[error("this is not a result: {0}; is the file complete, and is it a result.json?")]
    NotJson(serde_json::Error),
    /// JSON, but of something else.
    #[error("this JSON is not a result of Warikomi: it has no number \"schema\"")]
    Foreign,
    /// Written in a form that this version does not know.
    #[error(
        "this result is in form {found}, and this version of Warikomi reads forms {OLDEST_SCHEMA} to \
         {SCHEMA}; read it with the version that wrote it{}", version_hint(written_by.as_deref())
    )]
    OtherSchema {
        /// The form.
        found: u64,
        /// The version that wrote it, if it says so.
        written_by: Option<String>,
    },
    /// The right form, but something in it is missing or wrong.
    #[error("this result is damaged: {0}; run the experiment again from its plan.toml")]
    Damaged(serde_json::Error),
    /// Figures that contradict each other.
    #[error("the ledger of this result does not add up: the file was changed or damaged")]
    DoesNotAddUp,
    /// A layout that nothing here wrote.
    #[error("this result is damaged: {0}; run the experiment again from its plan.toml")]
    Layout(#[from] OutOfBounds),
    /// Too big.
    #[error("a result of {0} bytes is too big to be one")]
    TooBig(usize),
}

fn version_hint(written_by: Option<&str>) -> String {
    written_by.map(|version| format!(", {version}")).unwrap_or_default()
}

impl RunResult {
    /// A result with nothing measured yet.
    pub fn new(experiment: &str, time_base: TimeBase, machine: Machine) -> RunResult {
        RunResult {
            experiment: experiment.to_owned(),
            schema: SCHEMA,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            time_base,
            machine,
            target: TargetInfo::default(),
            shard: None,
            shards: Vec::new(),
            plan: Map::new(),
            ledger: None,
            queues: None,
            success: None,
            intervals: None,
            pacing: None,
            throughput_bps: None,
            inject_ns: None,
            transit_ns: None,
            interrupts: None,
            hiccups: None,
            faults: None,
            per_packet_times: false,
            warnings: Vec::new(),
            rows: None,
            figures: Map::new(),
            layout: Layout::default(),
        }
    }

    /// Whether packets were meant to leave by a second card, and not for an application.
    pub fn is_forwarded(&self) -> bool {
        self.plan.get("receiver").is_some_and(|receiver| receiver == "second_card")
    }

    /// What was to get the packets that are delivered.
    pub fn recipient(&self) -> &'static str {
        if self.is_forwarded() { "the second card's wire" } else { "the application" }
    }

    /// The result as it is written to `result.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a result has string keys only, and writing to a string does not fail");
        text.push('\n');
        text
    }

    /// Reads a result, which may come from anywhere.
    pub fn from_json(text: &str) -> Result<RunResult, ReadError> {
        if text.len() > MAX_RESULT_BYTES {
            return Err(ReadError::TooBig(text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
        let found = value.get("schema").and_then(Value::as_u64).ok_or(ReadError::Foreign)?;
        if !(u64::from(OLDEST_SCHEMA)..=u64::from(SCHEMA)).contains(&found) {
            let written_by = value.get("version").and_then(Value::as_str).map(str::to_owned);
            return Err(ReadError::OtherSchema { found, written_by });
        }
        let result: RunResult = serde_json::from_value(value).map_err(ReadError::Damaged)?;
        result.layout.check()?;
        if result.ledgers_add_up() { Ok(result) } else { Err(ReadError::DoesNotAddUp) }
    }

    /// Whether every ledger adds up, and those of the queues to that of the run.
    fn ledgers_add_up(&self) -> bool {
        let queues = self.queues.as_deref().unwrap_or_default();
        let sum =
            |column: fn(&Totals) -> u64| queues.iter().map(column).try_fold(0, u64::checked_add);
        let whole = self.ledger.unwrap_or_default();
        self.ledger.iter().chain(queues).all(Totals::adds_up)
            && (self.queues.is_none()
                || sum(|queue| queue.injected) == Some(whole.injected)
                    && sum(|queue| queue.accepted) == Some(whole.accepted))
    }

    /// A number of the plan, by its name in the plan's file.
    pub fn plan_number(&self, name: &str) -> Option<f64> {
        self.plan.get(name).and_then(Value::as_f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Chart, Column};
    use proptest::prelude::*;
    use serde_json::json;

    fn example() -> RunResult {
        let mut result = RunResult::new("inject", TimeBase::Real, Machine::default());
        result.ledger = Some(Totals {
            planned: 10,
            injected: 10,
            no_descriptor: 1,
            accepted: 9,
            delivered: 8,
            lost: 1,
            lost_in_stack: 1,
            ..Totals::default()
        });
        result.success = Success::of(result.ledger.as_ref().unwrap());
        result
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(RunResult::from_json(&example().to_json()).unwrap(), example());
    }

    #[test]
    fn what_does_not_apply_is_absent() {
        let json: Value = serde_json::from_str(&example().to_json()).unwrap();
        let object = json.as_object().unwrap();
        assert!(!object.contains_key("intervals") && !object.contains_key("throughput_bps"));
        assert_eq!(json["success"], json!({"driver": 0.9, "end_to_end": 0.8}));
        assert_eq!(json["time_base"], json!("real"));
        assert_eq!(json["ledger"]["unaccounted"], json!(0));
    }

    #[test]
    fn what_is_not_ours_is_refused_with_the_reason() {
        let refused = |text: &str| RunResult::from_json(text).unwrap_err().to_string();
        assert!(refused("{\"schema\":").contains("not a result"));
        assert!(refused("{\"a\": 1}").contains("no number"));
        assert!(refused("[1]").contains("no number"));
        let newer = refused("{\"schema\": 4, \"version\": \"0.9.0\"}");
        assert!(newer.contains("form 4") && newer.contains("0.9.0"), "{newer}");
        assert!(refused("{\"schema\": 0}").contains("form 0"));
        assert!(refused("{\"schema\": 1}").contains("damaged"));
        let changed = example().to_json().replace("\"lost\": 1", "\"lost\": 2");
        assert!(refused(&changed).contains("add up"));
    }

    #[test]
    fn queues_and_vectors_come_back_and_must_add_up() {
        let mut result = example();
        let whole = result.ledger.unwrap();
        let second =
            Totals { planned: 4, injected: 4, accepted: 4, delivered: 4, ..Totals::default() };
        let first = Totals { planned: 6, injected: 6, accepted: 5, delivered: 4, ..whole };
        result.queues = Some(vec![first, second]);
        let vectors = vec![
            VectorInterrupts { vector: 0, raised: 3, handled: 3, unhandled: 0 },
            VectorInterrupts { vector: 1, raised: 4, handled: 3, unhandled: 1 },
        ];
        result.interrupts = Some(Interrupts { raised: 7, handled: 6, resignalled: 0, vectors });
        assert_eq!(RunResult::from_json(&result.to_json()).unwrap(), result);
        result.queues = Some(vec![first, first]);
        assert!(matches!(RunResult::from_json(&result.to_json()), Err(ReadError::DoesNotAddUp)));
    }

    #[test]
    fn the_layout_comes_back_at_the_top_and_is_bounded() {
        let mut result = example();
        result.layout.columns = vec![Column::parameter("strategy", "strategy")];
        result.layout.charts = vec![Chart { name: "cpu".into(), ..Chart::default() }];
        let json: Value = serde_json::from_str(&result.to_json()).unwrap();
        assert_eq!(json["columns"][0]["key"], json!("strategy"));
        assert_eq!(RunResult::from_json(&result.to_json()).unwrap(), result);
        result.layout.charts[0].name = "../cpu".into();
        let refused = RunResult::from_json(&result.to_json());
        assert!(matches!(refused, Err(ReadError::Layout(_))), "{refused:?}");
    }

    /// What an older version wrote has neither queues nor vectors.
    #[test]
    fn the_form_before_this_is_read() {
        let mut old = example();
        old.schema = OLDEST_SCHEMA;
        old.warnings = vec![Warning { what: "slow".into(), hint: "wait".into() }];
        let text = old.to_json().replace("\"hint\":", "\"mend\":").replace(
            "\"plan\": {}",
            "\"interrupts\": {\"raised\": 7, \"handled\": 7, \"resignalled\": 0}",
        );
        assert!(text.contains("\"mend\": \"wait\""), "{text}");
        let read = RunResult::from_json(&text).unwrap();
        assert_eq!(read.warnings, old.warnings);
        let interrupts = Interrupts { raised: 7, handled: 7, ..Interrupts::default() };
        assert_eq!((read.schema, read.queues, read.interrupts), (1, None, Some(interrupts)));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in ".*", at in 0usize..2_000, byte in any::<char>()) {
            let _ = RunResult::from_json(&text);
            let mut damaged = example().to_json();
            if damaged.is_char_boundary(at % damaged.len()) {
                damaged.insert(at % damaged.len(), byte);
            }
            let _ = RunResult::from_json(&damaged);
        }
    }
}

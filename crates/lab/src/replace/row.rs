use serde::{Deserialize, Serialize};
use warikomi_measure::Samples;

use super::plan::{Case, Load, Plan};

/// Of several values, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of spans of time; `None` of nothing.
    pub fn of(samples: &Samples) -> Option<Spread> {
        let ns = samples.summary()?;
        let us = |ns: f64| ns / 1e3;
        Some(Spread {
            min: us(ns.min),
            mean: us(ns.mean),
            p50: us(ns.p50),
            p99: us(ns.p99),
            max: us(ns.max),
        })
    }
}

impl Spread {
    /// Of any values in microseconds; `None` of nothing.
    pub fn of_us(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        // The nearest rank.
        let at = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            values.get(rank.max(1) - 1).copied()
        };
        Some(Spread {
            min: at(0.0)?,
            mean: mean(&values)?,
            p50: at(0.5)?,
            p99: at(0.99)?,
            max: at(1.0)?,
        })
    }
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// One way under one load: a row of the result. A figure that does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `reload`, `data-store`, `shared-state`, or `kernel-module`.
    pub way: String,
    /// See [`Load`].
    pub load: String,
    /// `planned` or `kill`.
    pub kind: String,
    /// Whether another driver process is kept ready: see [`super::plan::Spare`]. Of a kernel there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spare: String,
    /// Replacements in all.
    pub replacements: u64,
    /// Of these, how many reset the device: what was on its way then is lost.
    pub resets: u64,
    /// Planned replacements that were called off, and failures that were not asked for.
    pub called_off: u64,
    /// From the request to the return of its result, the new process's creation included, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_us: Option<Spread>,
    /// Until the new process waits for the device, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_us: Option<Spread>,
    /// Until the old driver has left its state, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_state_us: Option<Spread>,
    /// Until the new driver runs with the device given to it, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_us: Option<Spread>,
    /// Until the new driver has accepted that state, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_state_us: Option<Spread>,
    /// From the order (of a kill: from its being seen) to the new driver's first pass, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_us: Option<Spread>,
    /// How long no driver served the device (of a kill: from the signal on), in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_us: Option<Spread>,
    /// A send in a run without a replacement, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_us: Option<Spread>,
    /// A send in a run with a replacement, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_with_us: Option<Spread>,
    /// A send into which a replacement fell, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_during_us: Option<Spread>,
    /// From the beginning of a send to that of the next, in the mean, in runs without a replacement, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual_interval_us: Option<f64>,
    /// The same into which a replacement fell, at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_interval_us: Option<f64>,
    /// What ten such intervals from the request on were longer than usual, all together, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excess_us: Option<Spread>,
    /// How often the application got the processor from the request to the result, in the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatches: Option<f64>,
    /// Of these, how often during the reads that the new process's creation waited for: what the published ten are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_dispatches: Option<f64>,
    /// A request of another client to the data store, while nothing was replaced, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_request_us: Option<Spread>,
    /// The same into which a replacement fell, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_request_during_us: Option<Spread>,
    /// Between two frames of the workload on the wire around a replacement, at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_send_gap_us: Option<f64>,
    /// Between two frames taken from the receive ring around a replacement, at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_receive_gap_us: Option<f64>,
    /// Free receive descriptors when a replacement began, at the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_descriptors: Option<u64>,
    /// Interval between arriving frames, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<f64>,
    /// The longest gap that these descriptors bridge at this interval, in microseconds: while it is longer than
    /// the longest gap on receive, no frame finds the ring full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridged_us: Option<f64>,
    /// Frames received by the application, judged by their numbers.
    pub received: u64,
    /// Frames and segments sent by the application and judged on the wire.
    pub sent: u64,
    /// Frames lost: received by the card and never by the application, or handed over and never sent.
    pub lost: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that came out of order.
    pub reordered: u64,
    /// TCP segments that were sent again.
    pub retransmitted: u64,
    /// Frames for which the card had no descriptor.
    pub no_descriptor: u64,
    /// Frames that came while the card did not receive.
    pub not_receiving: u64,
    /// Frames that did not go on the ring, or not as they were, for another reason: the card's filter, memory that it
    /// could not reach, an error that it marked. Absent if there were none.
    #[serde(default, skip_serializing_if = "none")]
    pub missed_otherwise: u64,
    /// Datagrams that the sender's system refused while there was no interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// TCP connections that broke, or whose stream was not as it was sent.
    pub connections_lost: u64,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_available: Option<String>,
}

fn none(count: &u64) -> bool {
    *count == 0
}

impl Row {
    /// Of a case, without figures.
    pub(super) fn new(plan: &Plan, case: &Case) -> Row {
        let Case { way, load, spare, .. } = *case;
        Row {
            way: way.to_string(),
            load: load.to_string(),
            spare: spare.to_string(),
            kind: if plan.kill { "kill" } else { "planned" }.to_owned(),
            interval_ns: (load == Load::Heavy).then_some(plan.interval_ns),
            ..Row::default()
        }
    }

    /// Which row it is, for people.
    pub fn name(&self) -> String {
        let name = format!("{}, {}, {}", self.way, self.load, self.kind);
        if self.spare.is_empty() { name } else { format!("{name}, spare {}", self.spare) }
    }

    /// Whether every replacement of this row promises that nothing is lost. A reload forgets, and so does a
    /// driver whose state was not in the store yet when it died.
    pub fn promises_no_loss(&self) -> bool {
        self.way == "shared-state" || (self.way == "data-store" && self.kind == "planned")
    }

    /// What went wrong although it was promised not to; `None` if nothing did.
    pub fn broken(&self) -> Option<String> {
        let Row { lost, duplicated, reordered, no_descriptor, not_receiving, .. } = *self;
        let (otherwise, broken) = (self.missed_otherwise, self.connections_lost);
        let all = [lost, duplicated, reordered, no_descriptor, not_receiving, otherwise, broken];
        (self.promises_no_loss() && all.iter().any(|&count| count > 0)).then(|| {
            format!(
                "{}: {lost} frames lost, {duplicated} duplicated, {reordered} reordered, {no_descriptor} without a \
                 descriptor, {not_receiving} while the card did not receive, {otherwise} missed by it otherwise; \
                 {broken} TCP connections broken",
                self.name()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_nothing_have_their_place_in_a_spread() {
        let spread = Spread::of_us(vec![3.0, -1.0, 1.0]).unwrap();
        assert_eq!((spread.min, spread.mean, spread.p50), (-1.0, 1.0, 1.0));
        assert_eq!((spread.p99, spread.max), (3.0, 3.0));
        assert_eq!(Spread::of_us(Vec::new()), None);
    }

    #[test]
    fn only_a_way_that_promises_can_break_its_promise() {
        let row = |way: &str, kind: &str| Row {
            way: way.to_owned(),
            kind: kind.to_owned(),
            lost: 1,
            ..Row::default()
        };
        assert!(row("shared-state", "kill").broken().unwrap().contains("1 frames lost"));
        assert!(row("data-store", "planned").broken().is_some());
        assert!(row("data-store", "kill").broken().is_none());
        assert!(row("reload", "planned").broken().is_none());
        let nothing = Row { lost: 0, ..row("shared-state", "kill") };
        assert!(nothing.broken().is_none());
        let unseen = Row { missed_otherwise: 2, ..nothing }.broken().unwrap();
        assert!(unseen.contains("2 missed by it otherwise"), "{unseen}");
    }
}

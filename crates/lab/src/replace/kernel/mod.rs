//! The same question asked of a real kernel: its driver is a module, and a module is replaced by removing
//! it and loading it again.
//!
//! With the module goes the interface, its address, its routes and its queues. Sockets stay: a connection
//! sends again what was lost, datagrams have nowhere to go meanwhile and are refused.

mod traffic;
mod trial;

use serde::Serialize;
use trial::{Trial, When};
use warikomi_clock::{Seed, Span};
use warikomi_measure::{RunResult, Samples, Thresholds, TimeBase, table, texts, us, warnings};

use super::{Load, ReplaceRow, Spread};
use crate::{Error, Session, SessionOptions};

pub use traffic::{Traffic, TrafficHost};

/// What rows call this way.
pub const WAY: &str = "kernel-module";

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

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Replacements done.
    pub done: u32,
    /// In all.
    pub all: u32,
    /// Under which load.
    pub load: Load,
}

/// Replaces the driver of a session that is cabled to `traffic`'s host, again and again; `brought_up` is
/// what that session was started with.
pub fn replace(
    session: &mut Session,
    brought_up: &SessionOptions,
    traffic: &Traffic,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunResult, Error> {
    let before = session.watch_cores();
    let all = options.trials * options.loads.len() as u32;
    let mut moments = options.seed.generator();
    let mut rows = Vec::new();
    for (number, &load) in options.loads.iter().enumerate() {
        let mut sum = Sum::default();
        let mut refused = None;
        for trial in 0..options.trials {
            let done = number as u32 * options.trials + trial;
            progress(Progress { done, all, load });
            let moment = trial::moment(&mut moments);
            match trial::run(session, brought_up, traffic, options, load, moment)? {
                Ok(trial) => sum.add(&trial),
                Err(reason) => {
                    refused = Some(reason);
                    break;
                }
            }
        }
        rows.push(ReplaceRow { not_available: refused, ..sum.row(load, options) });
    }
    let machine = session.machine_since(&before);
    let target = session.info.clone();
    let mut result = table("replace", TimeBase::Real, machine, target, options, &rows);
    result.warnings = warnings(&result, &Thresholds::default());
    Ok(result)
}

/// All trials of one load.
#[derive(Default)]
struct Sum {
    row: ReplaceRow,
    swaps: Samples,
    outages: Samples,
    sends_before: Samples,
    sends_during: Samples,
    sends: Samples,
    longest_send_gap: Option<Span>,
}

impl Sum {
    fn add(&mut self, trial: &Trial) {
        self.swaps.record(trial.swap);
        if let Some(gap) = trial.longest_receive_gap {
            self.outages.record(gap);
        }
        for send in &trial.sends {
            self.sends.record(send.took);
            match send.when {
                When::Before => self.sends_before.record(send.took),
                When::During => self.sends_during.record(send.took),
                When::After => {}
            }
        }
        self.longest_send_gap = self.longest_send_gap.max(trial.longest_send_gap);
        let row = &mut self.row;
        // Whoever loads the module resets the card.
        (row.replacements, row.resets) = (row.replacements + 1, row.resets + 1);
        row.received += trial.received;
        row.sent += trial.sent;
        row.lost += trial.lost;
        row.duplicated += trial.duplicated;
        row.reordered += trial.reordered;
        row.retransmitted += trial.retransmitted;
        row.no_descriptor += trial.no_descriptor;
        row.not_receiving += trial.not_receiving;
        row.connections_lost += u64::from(trial.connection_lost);
        row.refused = row.refused.into_iter().chain(trial.refused).reduce(|sum, more| sum + more);
    }

    fn row(self, load: Load, options: &Options) -> ReplaceRow {
        let outage_us = Spread::of(&self.outages);
        ReplaceRow {
            way: WAY.into(),
            load: load.name().into(),
            kind: "planned".into(),
            swap_us: Spread::of(&self.swaps),
            outage_us,
            send_us: Spread::of(&self.sends_before),
            send_with_us: Spread::of(&self.sends),
            send_during_us: Spread::of(&self.sends_during),
            longest_send_gap_us: self.longest_send_gap.map(Span::as_us),
            longest_receive_gap_us: outage_us.map(|outage| outage.max),
            interval_ns: (load == Load::Heavy).then(|| options.interval.as_ns()),
            ..self.row
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replace::kernel::trial::{Sent, When};

    #[test]
    fn a_row_adds_its_trials_up_and_keeps_the_longest_gaps() {
        let trial = |us: u64| Trial {
            swap: Span::from_us(us),
            sends: vec![
                Sent { took: Span::from_us(1), when: When::Before },
                Sent { took: Span::from_us(2), when: When::After },
                Sent { took: Span::from_us(us), when: When::During },
            ],
            longest_send_gap: Some(Span::from_us(us + 1)),
            longest_receive_gap: Some(Span::from_us(us + 2)),
            lost: us,
            refused: Some(2),
            ..Trial::default()
        };
        let mut sum = Sum::default();
        for us in [10, 30, 20] {
            sum.add(&trial(us));
        }
        let row = sum.row(Load::Heavy, &Options::default());
        assert_eq!((&*row.way, &*row.load, row.replacements), (WAY, "heavy", 3));
        assert_eq!((row.swap_us.unwrap().min, row.swap_us.unwrap().max), (10.0, 30.0));
        assert_eq!((row.send_us.unwrap().max, row.send_during_us.unwrap().min), (1.0, 10.0));
        assert_eq!((row.send_with_us.unwrap().min, row.resets), (1.0, 3));
        assert_eq!(row.longest_send_gap_us, Some(31.0));
        assert_eq!((row.longest_receive_gap_us, row.outage_us.unwrap().max), (Some(32.0), 32.0));
        assert_eq!((row.lost, row.refused, row.interval_ns), (60, Some(6), Some(200_000.0)));
    }

    #[test]
    fn what_was_not_looked_at_is_absent() {
        let row = Sum::default().row(Load::Idle, &Options::default());
        assert_eq!((row.swap_us, row.outage_us, row.refused), (None, None, None));
        assert_eq!((row.longest_send_gap_us, row.interval_ns), (None, None));
    }

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

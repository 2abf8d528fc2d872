//! The same question asked of a real kernel: its driver is a module, and a module is replaced by removing
//! it and loading it again.
//!
//! With the module goes the interface, its address, its routes and its queues. Sockets stay: a connection
//! sends again what was lost, datagrams have nowhere to go meanwhile and are refused.

mod options;
mod traffic;
mod trial;

use warikomi_clock::Span;
use warikomi_measure::{RunResult, Samples, Thresholds, TimeBase, table, warnings};
use warikomi_session::{Session, SessionOptions};

use super::places::Places;
use super::plan::Load;
use super::row::{Row, Spread};
use crate::error::Error;
use crate::watch::Watch;

use trial::{Trial, When};

pub use options::Options;
pub use traffic::{Traffic, TrafficHost};

/// What rows call this way.
pub const WAY: &str = "kernel-module";

/// Replaces the driver of a session that is cabled to `traffic`'s host, again and again; `brought_up` is
/// what that session was started with.
pub fn replace(
    session: &mut Session,
    brought_up: &SessionOptions,
    traffic: &Traffic,
    options: &Options,
    watch: &mut Watch,
) -> Result<RunResult, Error> {
    let rows = watch.each(&options.loads, Load::to_string, |&load, watch| {
        let before = session.watch_cores();
        let mut places = Places::new(options.seed, load as u64);
        let (mut sum, mut refused) = (Sum::default(), None);
        for trial in 0..options.trials {
            watch.progress(trial.into(), options.trials.into(), load.name());
            match trial::run(session, brought_up, traffic, options, load, places.one())? {
                Ok(trial) => sum.add(&trial),
                Err(reason) => {
                    refused = Some(reason);
                    break;
                }
            }
        }
        watch.saw(session, &before);
        Ok(Row { not_available: refused, ..sum.row(load, options) })
    })?;
    let (target, machine) = watch.seen();
    let mut result = table("replace", TimeBase::Real, machine, target, options, &rows);
    result.warnings = warnings(&result, &Thresholds::default());
    Ok(result)
}

/// All trials of one load.
#[derive(Default)]
struct Sum {
    row: Row,
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
        // Loading the module resets the card.
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

    fn row(self, load: Load, options: &Options) -> Row {
        let outage_us = Spread::of(&self.outages);
        Row {
            way: WAY.into(),
            load: load.name().into(),
            kind: "planned".into(),
            // From the request to remove the module on, and the new one is created within it.
            replace_us: Spread::of(&self.swaps),
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
    use super::trial::Sent;
    use super::*;

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
        assert_eq!((row.replace_us, row.create_us), (row.swap_us, None));
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
}

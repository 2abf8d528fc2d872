use std::collections::BTreeSet;

use warikomi_clock::{Span, Time};
use warikomi_nic::RxOutcome;

use super::checker::Checker;
use crate::{Event, Part};

/// Once nothing goes wrong any more and no frame comes, whatever waits is delivered within a bound.
/// The others say that nothing bad happens; this says that something good does.
pub struct Progress {
    bound: Span,
    calm: Option<Time>,
    /// Packets on the ring, or above it, that the application does not have.
    pending: BTreeSet<u64>,
}

impl Progress {
    /// With this bound.
    pub fn new(bound: Span) -> Progress {
        Progress { bound, calm: None, pending: BTreeSet::new() }
    }
}

impl Checker for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn check(&mut self, at: Time, event: &Event) -> Result<(), String> {
        match *event {
            Event::Arrived { sequence, outcome: RxOutcome::OnRing, .. } => {
                self.pending.insert(sequence);
            }
            Event::Delivered { sequence: Some(sequence), .. } => {
                self.pending.remove(&sequence);
                if let Some(calm) = self.calm
                    && at > calm + self.bound
                {
                    let late = at.since(calm);
                    return Err(format!(
                        "packet {sequence} came {late} after the last disturbance"
                    ));
                }
            }
            // What a part had is lost with it. Whether all else is delivered the ledger asks.
            Event::Killed(Part::First | Part::Second) | Event::Forgotten | Event::Quiescing => {
                self.pending.clear();
            }
            Event::Calm => self.calm = Some(at),
            // If it is over before the time is, whoever had the packet has dropped it: the ledger's.
            Event::Stopping => {
                let waited = self.calm.map_or(Span::ZERO, |calm| at.since(calm));
                if let (Some(first), true) = (self.pending.first(), waited >= self.bound) {
                    return Err(format!(
                        "packet {first} and {} more wait on, {waited} after the last disturbance",
                        self.pending.len() - 1
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

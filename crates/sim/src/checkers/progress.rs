use std::collections::BTreeSet;

use warikomi_clock::{Span, Time};
use warikomi_nic::RxOutcome;

use super::checker::Checker;
use crate::{Event, Part};

/// Once nothing goes wrong any more and no frame comes, whatever waits is delivered within a bound for each round of the
/// buffers. The others say that nothing bad happens; this says that something good does.
pub struct Progress {
    bound: Span,
    /// When nothing goes wrong any more, and when the time is over.
    calm: Option<(Time, Time)>,
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
                if let Some((calm, until)) = self.calm
                    && at > until
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
            Event::Calm { rounds } => self.calm = Some((at, at + self.bound * rounds)),
            // A run that ends before its deadline has nothing left to do: the packet was dropped, and the ledger reports it.
            Event::Stopping => {
                if let (Some(first), Some((calm, until))) = (self.pending.first(), self.calm)
                    && at >= until
                {
                    return Err(format!(
                        "packet {first} and {} more wait on, {} after the last disturbance",
                        self.pending.len() - 1,
                        at.since(calm)
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Time {
        Time::from_ps(ms * 1_000_000_000)
    }

    /// What the checker says of a packet that has come, calm after 1 ms with a bound of 200 ms, and then this.
    fn judged(rounds: u64, at: Time, event: &Event) -> Result<(), String> {
        let mut progress = Progress::new(Span::from_ms(200));
        let arrived = Event::Arrived { sequence: 7, outcome: RxOutcome::OnRing, struck: false };
        progress.check(ms(0), &arrived).unwrap();
        progress.check(ms(1), &Event::Calm { rounds }).unwrap();
        progress.check(at, event)
    }

    #[test]
    fn what_comes_late_or_never_is_named() {
        let delivered = Event::Delivered { token: 0, sequence: Some(7) };
        assert_eq!(judged(1, ms(201), &delivered), Ok(()));
        assert!(judged(1, ms(202), &delivered).unwrap_err().contains("packet 7 came"));
        assert!(judged(1, ms(201), &Event::Stopping).unwrap_err().contains("packet 7 and 0 more"));
        // The run ended before its deadline: the packet was dropped, and the ledger reports it.
        assert_eq!(judged(1, ms(200), &Event::Stopping), Ok(()));
    }

    #[test]
    fn each_round_of_the_buffers_has_the_bound() {
        let delivered = Event::Delivered { token: 0, sequence: Some(7) };
        assert_eq!(judged(3, ms(601), &delivered), Ok(()));
        assert!(judged(3, ms(602), &delivered).is_err());
        assert!(judged(3, ms(601), &Event::Stopping).is_err());
    }
}

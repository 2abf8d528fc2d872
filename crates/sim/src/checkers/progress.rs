use std::collections::BTreeSet;

use warikomi_clock::{Span, Time};
use warikomi_nic::RxOutcome;

use super::checker::Checker;
use crate::{Event, Part};

/// Once nothing goes wrong any more and no frame comes, whatever waits is delivered within a bound for each round of
/// the buffers, and the driver has a buffer for the next frame. The others say that nothing bad happens; this says that
/// something good does.
pub struct Progress {
    bound: Span,
    /// When nothing goes wrong any more, and when the time is over.
    over: Option<(Time, Time)>,
    /// Packets on the ring, or above it, that the application does not have.
    pending: BTreeSet<u64>,
    /// Buffers that the driver has.
    on_ring: u64,
}

impl Progress {
    /// With this bound.
    pub fn new(bound: Span) -> Progress {
        Progress { bound, over: None, pending: BTreeSet::new(), on_ring: 0 }
    }

    /// Counts the buffers that the driver has.
    fn count(&mut self, event: &Event) {
        match event {
            Event::BufferPosted { .. } => self.on_ring += 1,
            Event::FrameReceived { .. } | Event::BufferReturned { .. } => {
                self.on_ring = self.on_ring.saturating_sub(1);
            }
            Event::Forgotten => self.on_ring = 0,
            _ => {}
        }
    }

    /// What is not done at the end. A run that ends before its deadline has nothing left to do: what does not wait any
    /// more was dropped, and the ledger reports it.
    fn stopping(&self, at: Time) -> Result<(), String> {
        let Some((over, until)) = self.over else { return Ok(()) };
        let after = at.since(over);
        match self.pending.first() {
            _ if at < until => Ok(()),
            Some(first) => Err(format!(
                "packet {first} and {} more wait on, {after} after the last disturbance",
                self.pending.len() - 1
            )),
            None if self.on_ring == 0 => Err(format!(
                "the driver has no buffer for the next frame, {after} after the last disturbance"
            )),
            None => Ok(()),
        }
    }
}

impl Checker for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn check(&mut self, at: Time, event: &Event) -> Result<(), String> {
        self.count(event);
        match *event {
            Event::Arrived { sequence, outcome: RxOutcome::OnRing, .. } => {
                self.pending.insert(sequence);
            }
            Event::Delivered { sequence: Some(sequence), .. } => {
                self.pending.remove(&sequence);
                if let Some((over, until)) = self.over
                    && at > until
                {
                    let late = at.since(over);
                    return Err(format!(
                        "packet {sequence} came {late} after the last disturbance"
                    ));
                }
            }
            // What a part had is lost with it. Whether all else is delivered the ledger asks.
            Event::Killed(Part::First | Part::Second) | Event::Forgotten | Event::Quiescing => {
                self.pending.clear();
            }
            Event::DisturbancesOver { rounds } => self.over = Some((at, at + self.bound * rounds)),
            Event::Stopping => return self.stopping(at),
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

    /// What the checker says of a packet that has come, the last disturbance after 1 ms with a bound of 200 ms, and
    /// then this.
    fn judged(rounds: u64, at: Time, event: &Event) -> Result<(), String> {
        let mut progress = Progress::new(Span::from_ms(200));
        let arrived = Event::Arrived { sequence: 7, outcome: RxOutcome::OnRing, struck: false };
        progress.check(ms(0), &arrived).unwrap();
        progress.check(ms(1), &Event::DisturbancesOver { rounds }).unwrap();
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
    fn a_driver_without_a_buffer_is_named() {
        let judged = |events: &[Event]| {
            let mut progress = Progress::new(Span::from_ms(200));
            let over = Event::DisturbancesOver { rounds: 1 };
            events.iter().chain([&over]).for_each(|event| progress.check(ms(0), event).unwrap());
            progress.check(ms(200), &Event::Stopping)
        };
        let posted = Event::BufferPosted { token: 0 };
        assert_eq!(judged(&[posted]), Ok(()));
        let received = Event::FrameReceived { token: 0, sequence: Some(0), bytes: 60 };
        for gone in [received, Event::BufferReturned { token: 0 }, Event::Forgotten] {
            assert!(judged(&[posted, gone]).unwrap_err().contains("no buffer for the next frame"));
            assert_eq!(judged(&[posted, gone, posted]), Ok(()));
        }
    }

    #[test]
    fn each_round_of_the_buffers_has_the_bound() {
        let delivered = Event::Delivered { token: 0, sequence: Some(7) };
        assert_eq!(judged(3, ms(601), &delivered), Ok(()));
        assert!(judged(3, ms(602), &delivered).is_err());
        assert!(judged(3, ms(601), &Event::Stopping).is_err());
    }
}

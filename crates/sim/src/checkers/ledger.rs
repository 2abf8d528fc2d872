use std::collections::HashMap;

use warikomi_clock::Time;
use warikomi_nic::RxOutcome;

use super::checker::Checker;
use crate::Event;

/// Every packet is accounted for once: one that is on the ring is delivered, or refused for its error
/// mark, or lost with a part that died; one that is not never shows up.
#[derive(Default)]
pub struct Ledger {
    fates: Vec<Fate>,
    /// Which packet is in a buffer between driver and application.
    carried: HashMap<u32, u64>,
    /// Frames with an error mark. Which of them the driver has refused no event says, so they are
    /// counted.
    damaged: u64,
    refused: u64,
    damaged_lost: u64,
    /// The ring goes away: buffers without a frame come back.
    stopping: bool,
    /// For good: there is nothing on it.
    ending: bool,
    /// Buffers that are freed at this instant, without delivery, are freed for a death.
    death: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    NotOnRing,
    OnRing,
    Damaged,
    Received,
    Delivered,
    Lost,
}

impl Ledger {
    fn fate(&mut self, sequence: u64) -> Result<&mut Fate, String> {
        self.fates
            .get_mut(sequence as usize)
            .ok_or_else(|| format!("packet {sequence} was never sent"))
    }

    fn arrived(&mut self, sequence: u64, outcome: RxOutcome) -> Result<(), String> {
        if sequence != self.fates.len() as u64 {
            return Err(format!("packet {sequence} arrived where {} was due", self.fates.len()));
        }
        self.damaged += u64::from(outcome == RxOutcome::OnRingDamaged);
        self.fates.push(match outcome {
            RxOutcome::OnRing => Fate::OnRing,
            RxOutcome::OnRingDamaged => Fate::Damaged,
            _ => Fate::NotOnRing,
        });
        Ok(())
    }

    fn received(&mut self, token: u32, sequence: Option<u64>) -> Result<(), String> {
        let sequence = sequence.ok_or("the driver gave up a frame that is none of ours")?;
        let fate = self.fate(sequence)?;
        if *fate != Fate::OnRing {
            return Err(format!("the driver gave up packet {sequence}, which is {fate:?}"));
        }
        *fate = Fate::Received;
        self.carried.insert(token, sequence);
        Ok(())
    }

    fn delivered(&mut self, token: u32, sequence: Option<u64>) -> Result<(), String> {
        let sequence = sequence.ok_or("the application has a packet that is none of ours")?;
        let carried = self.carried.remove(&token);
        if carried != Some(sequence) {
            return Err(format!("packet {sequence} was delivered in the buffer of {carried:?}"));
        }
        let fate = self.fate(sequence)?;
        if *fate != Fate::Received {
            return Err(format!("packet {sequence} was delivered, which is {fate:?}"));
        }
        *fate = Fate::Delivered;
        Ok(())
    }

    fn refused(&mut self) -> Result<(), String> {
        if self.stopping {
            return Ok(());
        }
        self.refused += 1;
        if self.refused + self.damaged_lost > self.damaged {
            return Err("the driver refused a frame that was not damaged".to_owned());
        }
        Ok(())
    }

    /// What was on the ring is lost.
    fn ring_is_gone(&mut self) {
        let lost = self.fates.iter_mut().filter(|fate| **fate == Fate::OnRing);
        lost.for_each(|fate| *fate = Fate::Lost);
        self.damaged_lost = self.damaged.saturating_sub(self.refused);
    }

    fn freed(&mut self, at: Time, token: u32) -> Result<(), String> {
        let Some(sequence) = self.carried.remove(&token) else { return Ok(()) };
        if self.death != Some(at) {
            return Err(format!("the buffer of packet {sequence} was freed before its delivery"));
        }
        *self.fate(sequence)? = Fate::Lost;
        Ok(())
    }

    fn settle(&self) -> Result<(), String> {
        let open = |fate: &Fate| matches!(fate, Fate::OnRing | Fate::Received);
        if let Some(sequence) = self.fates.iter().position(open) {
            let fate = self.fates[sequence];
            return Err(format!("packet {sequence} is {fate:?} at the end, not delivered"));
        }
        if self.refused + self.damaged_lost != self.damaged {
            return Err(format!(
                "{} frames were refused and {} lost, of {} damaged ones",
                self.refused, self.damaged_lost, self.damaged
            ));
        }
        Ok(())
    }
}

impl Checker for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn check(&mut self, at: Time, event: &Event) -> Result<(), String> {
        match *event {
            Event::Arrived { sequence, outcome, .. } => self.arrived(sequence, outcome),
            Event::FrameReceived { token, sequence, .. } => self.received(token, sequence),
            Event::Delivered { token, sequence } => self.delivered(token, sequence),
            Event::BufferFreed { token } => self.freed(at, token),
            Event::BufferReturned { .. } => self.refused(),
            Event::Killed(_) => {
                self.death = Some(at);
                Ok(())
            }
            Event::Forgotten => {
                self.death = Some(at);
                self.ring_is_gone();
                Ok(())
            }
            Event::Quiesced if !self.ending => {
                self.ring_is_gone();
                Ok(())
            }
            Event::Quiescing => {
                self.stopping = true;
                Ok(())
            }
            Event::Took { .. } => {
                self.stopping = self.ending;
                Ok(())
            }
            Event::Stopping => {
                (self.stopping, self.ending) = (true, true);
                Ok(())
            }
            Event::End => self.settle(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packets are given up by the driver in two buffers, and reach the application in these.
    fn delivered_in(tokens: [u32; 2]) -> Result<(), String> {
        let mut ledger = Ledger::default();
        let arrived =
            |sequence| Event::Arrived { sequence, outcome: RxOutcome::OnRing, struck: false };
        let received =
            |token| Event::FrameReceived { token, sequence: Some(token.into()), bytes: 60 };
        let delivered = |sequence: u64| Event::Delivered {
            token: tokens[sequence as usize],
            sequence: Some(sequence),
        };
        [arrived(0), arrived(1), received(0), received(1), delivered(0), delivered(1), Event::End]
            .iter()
            .try_for_each(|event| ledger.check(Time::ZERO, event))
    }

    #[test]
    fn a_packet_is_delivered_in_the_buffer_that_it_was_given_up_in() {
        assert_eq!(delivered_in([0, 1]), Ok(()));
        let error = delivered_in([1, 0]).unwrap_err();
        assert_eq!(error, "packet 0 was delivered in the buffer of Some(1)");
    }
}

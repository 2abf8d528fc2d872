use std::collections::BTreeMap;

use warikomi_clock::{Span, Time};

use super::checker::Checker;
use crate::Event;

/// Every frame that the application hands over is on the wire once at most, in order and unchanged, and comes
/// back once; one that comes back as sent was on the wire.
pub struct Transmit {
    bound: Span,
    /// The device may be at fault.
    may_fail: bool,
    next: u64,
    /// The last that was on the wire.
    last: Option<u64>,
    /// Frames on their way, and what is known of each.
    outstanding: BTreeMap<u64, Known>,
    /// When nothing goes wrong any more, and when the time is over.
    calm: Option<(Time, Time)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    on_wire: bool,
    /// It may come back as sent all the same: its driver was told to stop, or it is unknown.
    uncertain: bool,
}

impl Transmit {
    /// With this bound for what is to come back when nothing goes wrong any more.
    pub fn new(bound: Span, may_fail: bool) -> Transmit {
        let outstanding = BTreeMap::new();
        Transmit { bound, may_fail, next: 0, last: None, outstanding, calm: None }
    }

    fn on_wire(&mut self, sequence: Option<u64>) -> Result<(), String> {
        let sequence = sequence.ok_or("a frame on the wire is none of the application's")?;
        if sequence >= self.next {
            return Err(format!("frame {sequence} is on the wire, and was not handed over"));
        }
        if let Some(last) = self.last.replace(sequence)
            && last >= sequence
        {
            return Err(format!("frame {sequence} is on the wire behind frame {last}"));
        }
        if let Some(known) = self.outstanding.get_mut(&sequence) {
            known.on_wire = true;
        }
        Ok(())
    }

    fn back(&mut self, sequence: Option<u64>, sent: bool) -> Result<(), String> {
        let sequence = sequence.ok_or("a buffer came back that was not handed over")?;
        let Some(known) = self.outstanding.remove(&sequence) else {
            return Err(format!("frame {sequence} came back, which was not on its way"));
        };
        if sent && !known.on_wire && !known.uncertain && !self.may_fail {
            return Err(format!("frame {sequence} came back as sent, and was not on the wire"));
        }
        Ok(())
    }

    fn stopping(&mut self, at: Time) -> Result<(), String> {
        match (self.outstanding.first_key_value(), self.calm) {
            (Some((first, _)), Some((calm, until))) if at >= until => Err(format!(
                "frame {first} and {} more do not come back, {} after the last disturbance",
                self.outstanding.len() - 1,
                at.since(calm)
            )),
            _ => Ok(()),
        }
    }
}

impl Checker for Transmit {
    fn name(&self) -> &'static str {
        "transmit"
    }

    fn check(&mut self, at: Time, event: &Event) -> Result<(), String> {
        if let Event::Quiescing | Event::Forgotten = event {
            self.outstanding.values_mut().for_each(|known| known.uncertain = true);
        }
        match *event {
            Event::Sent { sequence } if sequence == self.next => {
                self.next += 1;
                self.outstanding.insert(sequence, Known::default());
            }
            Event::Sent { sequence } => {
                return Err(format!(
                    "frame {sequence} was handed over where {} was due",
                    self.next
                ));
            }
            Event::OnWire { sequence } => return self.on_wire(sequence),
            Event::SentBack { sequence, sent } => return self.back(sequence, sent),
            Event::Calm { rounds } => self.calm = Some((at, at + self.bound * rounds)),
            Event::Stopping => return self.stopping(at),
            Event::End => {
                if let Some((first, _)) = self.outstanding.first_key_value() {
                    return Err(format!("frame {first} has not come back at the end"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

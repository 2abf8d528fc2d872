use std::collections::BTreeMap;

use warikomi_clock::{Span, Time};

use super::checker::Checker;
use crate::Event;

/// Each frame that is sent is on the wire once at most, in order and unchanged, and only before it comes back. It comes
/// back once: as sent if it was on the wire. That it was not sent may only be said where the device may be at fault, or
/// its driver was told to stop or has died.
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
    /// It may come back either way, whatever was on the wire: its driver was told to stop, or has died.
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
        let Some(known) = self.outstanding.get_mut(&sequence) else {
            return Err(format!("frame {sequence} is on the wire, and had come back before"));
        };
        known.on_wire = true;
        Ok(())
    }

    fn back(&mut self, sequence: Option<u64>, sent: bool) -> Result<(), String> {
        let sequence = sequence.ok_or("a buffer came back that was not handed over")?;
        let Some(known) = self.outstanding.remove(&sequence) else {
            return Err(format!("frame {sequence} came back, which was not on its way"));
        };
        if known.uncertain {
            return Ok(());
        }
        match (sent, known.on_wire) {
            (true, false) if !self.may_fail => {
                Err(format!("frame {sequence} came back as sent, and was not on the wire"))
            }
            (false, true) => {
                Err(format!("frame {sequence} came back as not sent, and was on the wire"))
            }
            (false, false) if !self.may_fail => Err(format!(
                "frame {sequence} came back as not sent, and nothing kept the device from sending it"
            )),
            _ => Ok(()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the checker says of the last of these events, and that it says nothing of those before.
    fn judged(may_fail: bool, events: &[Event]) -> Result<(), String> {
        let mut transmit = Transmit::new(Span::from_ms(200), may_fail);
        let (last, before) = events.split_last().unwrap();
        before.iter().for_each(|event| transmit.check(Time::ZERO, event).unwrap());
        transmit.check(Time::ZERO, last)
    }

    const HANDED_OVER: Event = Event::Sent { sequence: 0 };
    const ON_WIRE: Event = Event::OnWire { sequence: Some(0) };
    const SENT: Event = Event::SentBack { sequence: Some(0), sent: true };
    const NOT_SENT: Event = Event::SentBack { sequence: Some(0), sent: false };

    #[test]
    fn a_frame_that_comes_back_as_not_sent_needs_a_reason() {
        let error = judged(false, &[HANDED_OVER, NOT_SENT]).unwrap_err();
        assert!(error.contains("nothing kept the device from sending it"), "{error}");
        assert_eq!(judged(true, &[HANDED_OVER, NOT_SENT]), Ok(()));
        for reason in [Event::Quiescing, Event::Forgotten] {
            assert_eq!(judged(false, &[HANDED_OVER, reason, NOT_SENT]), Ok(()));
            assert_eq!(judged(false, &[HANDED_OVER, ON_WIRE, reason, NOT_SENT]), Ok(()));
        }
        // One that is handed over behind it has none.
        assert!(judged(false, &[Event::Forgotten, HANDED_OVER, NOT_SENT]).is_err());
    }

    #[test]
    fn a_frame_that_was_on_the_wire_does_not_come_back_as_not_sent() {
        for may_fail in [false, true] {
            let error = judged(may_fail, &[HANDED_OVER, ON_WIRE, NOT_SENT]).unwrap_err();
            assert!(error.contains("as not sent, and was on the wire"), "{error}");
            assert_eq!(judged(may_fail, &[HANDED_OVER, ON_WIRE, SENT]), Ok(()));
        }
    }

    #[test]
    fn a_frame_that_has_come_back_is_not_on_the_wire_any_more() {
        for may_fail in [false, true] {
            let events = [HANDED_OVER, Event::Forgotten, NOT_SENT, ON_WIRE];
            let error = judged(may_fail, &events).unwrap_err();
            assert!(error.contains("had come back before"), "{error}");
        }
    }
}

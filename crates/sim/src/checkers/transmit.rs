use std::collections::BTreeMap;

use warikomi_clock::{Span, Time};

use super::checker::Checker;
use crate::Event;

/// Each frame that is sent is on the wire once at most, in order and unchanged, and only before it comes back. It comes
/// back once, as sent if it was on the wire and else as not sent, which needs a reason: the card had no link, or its
/// driver was told to stop or has died.
pub struct Transmit {
    bound: Span,
    next: u64,
    /// The last that was on the wire.
    last: Option<u64>,
    /// Frames on their way, and what is known of each.
    outstanding: BTreeMap<u64, Known>,
    has_link: bool,
    /// The driver is about to stop its device, or has stopped it.
    stopping: bool,
    /// When nothing goes wrong any more, and when the time is over.
    over: Option<(Time, Time)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    on_wire: bool,
    /// The card had no link meanwhile: it may have been done with it and not have put it on the wire.
    lacked_link: bool,
    doubt: Doubt,
}

/// Whether what comes back says what was on the wire. What a driver has when it leaves its device comes back all the
/// same, and no event says which frames it had: until a later driver sends, it may have had each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    #[default]
    None,
    /// Its driver has died: it comes back as not sent.
    Died,
    /// Its driver was told to stop: it comes back either way.
    Stopped,
}

impl Transmit {
    /// With this bound for what is to come back when nothing goes wrong any more.
    pub fn new(bound: Span) -> Transmit {
        Transmit {
            bound,
            next: 0,
            last: None,
            outstanding: BTreeMap::new(),
            has_link: true,
            stopping: false,
            over: None,
        }
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
        if !self.stopping {
            // This driver sends it, and so no earlier one had it, nor what was handed over behind it.
            let behind = self.outstanding.range_mut(sequence..);
            behind.for_each(|(_, known)| known.doubt = Doubt::None);
        }
        Ok(())
    }

    fn back(&mut self, sequence: Option<u64>, sent: bool) -> Result<(), String> {
        let sequence = sequence.ok_or("a buffer came back that was not handed over")?;
        let Some(Known { on_wire, lacked_link, doubt }) = self.outstanding.remove(&sequence) else {
            return Err(format!("frame {sequence} came back, which was not on its way"));
        };
        let excused = match doubt {
            Doubt::None => false,
            Doubt::Died => !sent,
            Doubt::Stopped => true,
        };
        match (sent, on_wire) {
            (true, true) => Ok(()),
            _ if excused || lacked_link && !on_wire => Ok(()),
            (true, false) => {
                Err(format!("frame {sequence} came back as sent, and was not on the wire"))
            }
            (false, true) => {
                Err(format!("frame {sequence} came back as not sent, and was on the wire"))
            }
            (false, false) => Err(format!(
                "frame {sequence} came back as not sent, and nothing kept the device from sending it"
            )),
        }
    }

    /// A driver leaves its device, or has left it.
    fn doubt(&mut self, doubt: Doubt) {
        self.stopping = doubt == Doubt::Stopped;
        let outstanding = self.outstanding.values_mut();
        outstanding.for_each(|known| known.doubt = known.doubt.max(doubt));
    }

    fn link(&mut self, up: bool) {
        self.has_link = up;
        let outstanding = self.outstanding.values_mut();
        outstanding.for_each(|known| known.lacked_link |= !up);
    }

    fn stopping(&mut self, at: Time) -> Result<(), String> {
        match (self.outstanding.first_key_value(), self.over) {
            (Some((first, _)), Some((over, until))) if at >= until => Err(format!(
                "frame {first} and {} more do not come back, {} after the last disturbance",
                self.outstanding.len() - 1,
                at.since(over)
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
        match *event {
            Event::Sent { sequence } if sequence == self.next => {
                self.next += 1;
                let known = Known { lacked_link: !self.has_link, ..Known::default() };
                self.outstanding.insert(sequence, known);
            }
            Event::Sent { sequence } => {
                return Err(format!(
                    "frame {sequence} was handed over where {} was due",
                    self.next
                ));
            }
            Event::OnWire { sequence } => return self.on_wire(sequence),
            Event::SentBack { sequence, sent } => return self.back(sequence, sent),
            Event::Quiescing => self.doubt(Doubt::Stopped),
            Event::Forgotten => self.doubt(Doubt::Died),
            Event::Took { .. } => self.stopping = false,
            Event::Link { up } => self.link(up),
            Event::DisturbancesOver { rounds } => self.over = Some((at, at + self.bound * rounds)),
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
    fn judged(events: &[Event]) -> Result<(), String> {
        let mut transmit = Transmit::new(Span::from_ms(200));
        let (last, before) = events.split_last().unwrap();
        before.iter().for_each(|event| transmit.check(Time::ZERO, event).unwrap());
        transmit.check(Time::ZERO, last)
    }

    const HANDED_OVER: Event = Event::Sent { sequence: 0 };
    const ON_WIRE: Event = Event::OnWire { sequence: Some(0) };
    const SENT: Event = Event::SentBack { sequence: Some(0), sent: true };
    const NOT_SENT: Event = Event::SentBack { sequence: Some(0), sent: false };
    const DOWN: Event = Event::Link { up: false };
    const UP: Event = Event::Link { up: true };
    const TOOK: Event = Event::Took { generation: 2 };

    #[test]
    fn a_frame_that_comes_back_as_not_sent_needs_a_reason() {
        let error = judged(&[HANDED_OVER, NOT_SENT]).unwrap_err();
        assert!(error.contains("nothing kept the device from sending it"), "{error}");
        for reason in [Event::Quiescing, Event::Forgotten] {
            assert_eq!(judged(&[HANDED_OVER, reason, NOT_SENT]), Ok(()));
            assert_eq!(judged(&[HANDED_OVER, ON_WIRE, reason, NOT_SENT]), Ok(()));
            // One that is handed over behind it has none.
            assert!(judged(&[reason, HANDED_OVER, NOT_SENT]).is_err());
        }
    }

    #[test]
    fn only_frames_on_their_way_while_there_is_no_link_need_not_be_on_the_wire() {
        for back in [SENT, NOT_SENT] {
            for lost in [[HANDED_OVER, DOWN, UP], [DOWN, HANDED_OVER, UP]] {
                assert_eq!(judged(&[&lost[..], &[back]].concat()), Ok(()));
            }
            assert!(judged(&[DOWN, UP, HANDED_OVER, back]).is_err());
        }
        let error = judged(&[HANDED_OVER, ON_WIRE, DOWN, NOT_SENT]).unwrap_err();
        assert!(error.contains("as not sent, and was on the wire"), "{error}");
    }

    #[test]
    fn a_frame_that_was_on_the_wire_does_not_come_back_as_not_sent() {
        let error = judged(&[HANDED_OVER, ON_WIRE, NOT_SENT]).unwrap_err();
        assert!(error.contains("as not sent, and was on the wire"), "{error}");
        assert_eq!(judged(&[HANDED_OVER, ON_WIRE, SENT]), Ok(()));
    }

    #[test]
    fn what_a_dead_driver_had_does_not_come_back_as_sent() {
        assert!(judged(&[HANDED_OVER, Event::Forgotten, SENT]).is_err());
        assert_eq!(judged(&[HANDED_OVER, Event::Quiescing, SENT]), Ok(()));
        assert_eq!(judged(&[HANDED_OVER, Event::Quiescing, Event::Forgotten, SENT]), Ok(()));
    }

    #[test]
    fn a_frame_behind_one_that_a_later_driver_sends_had_waited() {
        let behind = Event::Sent { sequence: 1 };
        let back = |sent| Event::SentBack { sequence: Some(1), sent };
        for left in [[Event::Forgotten, TOOK], [Event::Quiescing, TOOK]] {
            let sends = [&[HANDED_OVER, behind], &left[..], &[ON_WIRE]].concat();
            for sent in [false, true] {
                assert!(judged(&[&sends[..], &[back(sent)]].concat()).is_err());
            }
            assert!(judged(&[&sends[..], &[NOT_SENT]].concat()).is_err());
            assert_eq!(judged(&[&sends[..], &[SENT]].concat()), Ok(()));
        }
        // While it stops a driver still sends what it has, and not all of it.
        let stops = [HANDED_OVER, behind, Event::Quiescing, ON_WIRE, SENT, back(false)];
        assert_eq!(judged(&stops), Ok(()));
    }

    #[test]
    fn a_frame_that_has_come_back_is_not_on_the_wire_any_more() {
        let error = judged(&[HANDED_OVER, Event::Forgotten, NOT_SENT, ON_WIRE]).unwrap_err();
        assert!(error.contains("had come back before"), "{error}");
    }
}

//! Whether a driver does the same again.
//!
//! How often a driver polls, and how many packets share an interrupt, depends on when each side gets
//! its time: two runs of one driver never make the same accesses one after another. What is a function
//! of the input, and is compared, is this:
//!
//! - the arrivals themselves, byte by byte (they are ours; a difference is a bug);
//! - the outcome of each packet at the NIC: its receive queue, and on the ring, no descriptor,
//!   filtered, and so on;
//! - the *steps* of the driver: from one register access to the next. An access is its direction,
//!   register, width and, if it is a write, its value. What a read finds is input, not behaviour. How
//!   often a step is taken depends on time; which steps there are is the driver's code. A driver that
//!   takes a step that it never took in the recording has come to a place in its code where it was not
//!   before.
//!
//! A rare step (a second look at a status that had changed meanwhile) may be new in one of many replays
//! of the same driver: the report shows where it was, and what came before.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Read;

use warikomi_nic::Reception;
use warikomi_pci::Vector;

use crate::register::register_name;
use crate::{Access, Event, EventKind, Frames, Reader, TraceError};

/// Accesses that are shown before a difference.
const SHOWN_BEFORE: usize = 6;
/// Accesses that are shown of what the recording did in that place.
const SHOWN_INSTEAD: usize = 4;
/// Different steps that are remembered; a driver has some dozens.
const MAX_STEPS: usize = 65_536;

/// An access, as far as it is the driver's own doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Act {
    access: Access,
    /// What was written; `None` of a read.
    wrote: Option<u64>,
}

/// What a driver did in a recording.
#[derive(Debug)]
pub struct Behaviour {
    model: String,
    /// Each step, and how often it was taken.
    steps: BTreeMap<(Act, Act), u64>,
    last: Option<Act>,
    outcomes: Vec<Reception>,
    /// A check sequence of each arrival, and its length.
    arrivals: Vec<(u32, usize)>,
    frames: Frames,
}

/// The first point at which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Packets that had arrived.
    pub packet: u64,
    /// What happened, and what had happened in the recording.
    pub what: String,
    /// What came before, oldest first.
    pub before: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} packets: {}", self.packet, self.what)?;
        if self.before.is_empty() {
            Ok(())
        } else {
            write!(f, "; before: {}", self.before.join(", "))
        }
    }
}

/// Two runs, compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Packets that arrived in the replay.
    pub arrivals: u64,
    /// Of these: not those of the recording, in order and byte by byte (destinations aside), or missing.
    pub different_arrivals: u64,
    /// Packets whose outcome at the NIC is another.
    pub different_outcomes: u64,
    /// Steps of the driver that it never took in the recording, each time it took one.
    pub new_steps: u64,
    /// The first of all these.
    pub first: Option<Difference>,
}

impl Behaviour {
    /// Nothing yet, of a driver of this NIC.
    pub fn new(model: &str) -> Behaviour {
        Behaviour {
            model: model.to_owned(),
            steps: BTreeMap::new(),
            last: None,
            outcomes: Vec::new(),
            arrivals: Vec::new(),
            frames: Frames::default(),
        }
    }

    /// Takes the next event of the recording.
    pub fn record(&mut self, event: Event) {
        match event.what {
            EventKind::Arrived { frame, .. } => {
                self.arrivals.push(fingerprint(self.frames.bytes(&frame)));
            }
            EventKind::Placed(reception) => self.outcomes.push(reception),
            other => {
                let Some(act) = act(&other) else { return };
                if let Some(last) = self.last.replace(act)
                    && (self.steps.len() < MAX_STEPS || self.steps.contains_key(&(last, act)))
                {
                    *self.steps.entry((last, act)).or_default() += 1;
                }
            }
        }
    }

    /// Compares a replay with this.
    pub fn compare<R: Read>(&self, mut replay: Reader<R>) -> Result<Comparison, TraceError> {
        let mut found = Comparison::default();
        let mut frames = Frames::default();
        let (mut placed, mut last) = (0, None);
        let mut before = VecDeque::with_capacity(SHOWN_BEFORE + 1);
        while let Some(event) = replay.next_event()? {
            let different = match &event.what {
                EventKind::Arrived { frame, .. } => {
                    let seen = fingerprint(frames.bytes(frame));
                    let was = self.arrivals.get(found.arrivals as usize);
                    found.arrivals += 1;
                    (was != Some(&seen)).then(|| {
                        found.different_arrivals += 1;
                        "this packet is not the recording's (a bug in Warikomi)".to_owned()
                    })
                }
                EventKind::Placed(reception) => {
                    let was = self.outcomes.get(placed);
                    placed += 1;
                    was.filter(|was| *was != reception).map(|was| {
                        found.different_outcomes += 1;
                        different_outcome(*was, *reception)
                    })
                }
                other => act(other).and_then(|act| {
                    let new = self.new_step(last.replace(act), act);
                    found.new_steps += u64::from(new.is_some());
                    new
                }),
            };
            if let (Some(what), None) = (different, &found.first) {
                let before: Vec<String> = before.iter().cloned().collect();
                found.first = Some(Difference { packet: found.arrivals, what, before });
            }
            if found.first.is_none()
                && let Some(shown) = self.shown(&event.what)
            {
                before.push_back(shown);
                if before.len() > SHOWN_BEFORE {
                    before.pop_front();
                }
            }
        }
        found.different_arrivals += (self.arrivals.len() as u64).saturating_sub(found.arrivals);
        Ok(found)
    }

    /// What is to be said of a step that was never taken in the recording; `None` of one that was.
    fn new_step(&self, last: Option<Act>, act: Act) -> Option<String> {
        let last = last?;
        if self.steps.contains_key(&(last, act)) {
            return None;
        }
        let mut instead: Vec<(u64, String)> = self
            .steps
            .iter()
            .filter(|((from, _), _)| *from == last)
            .map(|((_, to), &count)| (count, self.name(*to)))
            .collect();
        instead.sort_by(|a, b| b.cmp(a));
        instead.truncate(SHOWN_INSTEAD);
        let instead: Vec<String> =
            instead.into_iter().map(|(count, name)| format!("{name} ({count} times)")).collect();
        let instead = if instead.is_empty() { "nothing".to_owned() } else { instead.join(" or ") };
        Some(format!(
            "the driver went on from {} to {}, which it never did in the recording; there it was \
             followed by {instead}",
            self.name(last),
            self.name(act)
        ))
    }

    fn name(&self, act: Act) -> String {
        let register = register_name(&self.model, act.access);
        match act.wrote {
            Some(value) => format!("write {register} = {value:#x}"),
            None => format!("read {register}"),
        }
    }

    /// What is shown among the things that came before a difference.
    fn shown(&self, what: &EventKind) -> Option<String> {
        match what {
            EventKind::Read(access, value) => {
                Some(format!("read {} = {value:#x}", register_name(&self.model, *access)))
            }
            EventKind::Write(access, value) => {
                Some(format!("write {} = {value:#x}", register_name(&self.model, *access)))
            }
            EventKind::Interrupt(_, None | Some(Vector(0))) => Some("interrupt".to_owned()),
            EventKind::Interrupt(_, Some(vector)) => Some(format!("interrupt {}", vector.0)),
            EventKind::Arrived { .. } => Some("packet".to_owned()),
            _ => None,
        }
    }
}

fn different_outcome(was: Reception, is: Reception) -> String {
    if was.queue == is.queue {
        return format!("the packet's outcome is \"{}\", and was \"{}\"", is.outcome, was.outcome);
    }
    format!(
        "the packet is of queue {} with the outcome \"{}\", and was of queue {} with \"{}\"",
        is.queue, is.outcome, was.queue, was.outcome
    )
}

fn act(what: &EventKind) -> Option<Act> {
    match what {
        EventKind::Read(access, _) => Some(Act { access: *access, wrote: None }),
        EventKind::Write(access, value) => Some(Act { access: *access, wrote: Some(*value) }),
        _ => None,
    }
}

/// Of everything behind the destination's address.
fn fingerprint(frame: &[u8]) -> (u32, usize) {
    (warikomi_nic::fcs(frame.get(6..).unwrap_or_default()), frame.len())
}

#[cfg(test)]
mod tests;

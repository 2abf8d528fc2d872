//! Frames that a chip completes late, because somebody asked for this fault.
//!
//! Their bytes are in memory and their descriptors still the chip's, so for the account and for the
//! ring they are neither free nor given back.

use warikomi_clock::{Span, Time};

use super::Alarm;
use crate::NicContext;

/// All of these; no more than the ring has descriptors, because each descriptor waits once.
#[derive(Debug)]
pub(super) struct Late<F> {
    frames: Vec<(Time, F)>,
    alarm: Alarm,
}

impl<F> Late<F> {
    /// None; their timer has this tag.
    pub(super) const fn new(tag: u32) -> Self {
        Late { frames: Vec::new(), alarm: Alarm::new(tag) }
    }

    /// Whether one of which this is true waits.
    #[inline]
    pub(super) fn holds(&self, is_it: impl Fn(&F) -> bool) -> bool {
        !self.frames.is_empty() && self.frames.iter().any(|(_, frame)| is_it(frame))
    }

    /// This one is to be completed so much later.
    pub(super) fn add(&mut self, cx: &mut NicContext<'_>, by: Span, frame: F) {
        self.frames.push((cx.now() + by, frame));
        self.set_alarm(cx);
    }

    /// This one could not be completed, and stays the chip's.
    pub(super) fn keep(&mut self, frame: F) {
        self.frames.push((Time::NEVER, frame));
    }

    /// The ring goes away.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.alarm.cancel();
    }

    /// To be called when an event with the tag comes: whether something may be due.
    pub(super) fn event(&mut self, cx: &mut NicContext<'_>) -> bool {
        self.alarm.event(cx)
    }

    /// Takes one that is due; when there is none, sets the timer for the next.
    pub(super) fn take_due(&mut self, cx: &mut NicContext<'_>) -> Option<F> {
        let due = self.frames.iter().position(|(due, _)| *due <= cx.now());
        if due.is_none() {
            self.set_alarm(cx);
        }
        due.map(|at| self.frames.remove(at).1)
    }

    fn set_alarm(&mut self, cx: &mut NicContext<'_>) {
        match self.frames.iter().map(|(due, _)| *due).min() {
            None | Some(Time::NEVER) => self.alarm.cancel(),
            Some(due) => self.alarm.set(cx, due),
        }
    }
}

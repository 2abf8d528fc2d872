//! Interrupt status and mask of one vector, and the moderation of its causes.
//!
//! The level is worked out anew after every change of either register. The handler masks,
//! acknowledges and later unmasks; a level looked at only once for all three would never be seen
//! to fall.

use warikomi_clock::{Span, Time};
use warikomi_pci::Vector;

use super::unseen::Unseen;
use super::{Alarm, Moderation};
use crate::NicContext;

/// The causes of one vector's interrupts, of which `MODERATED` may be held back.
#[derive(Debug)]
pub struct Causes<const MODERATED: usize> {
    vector: Vector,
    all: u32,
    status: u32,
    unseen: Unseen,
    mask: u32,
    asked_for: bool,
    moderated: [(u32, Moderation); MODERATED],
    alarm: Alarm,
}

impl<const MODERATED: usize> Causes<MODERATED> {
    /// Nothing has happened, and nothing is asked for or held back. There are the causes `all`; those in
    /// `moderated` can be held back. The timer for that has this tag.
    pub fn new(vector: Vector, all: u32, moderated: [u32; MODERATED], tag: u32) -> Self {
        Causes {
            vector,
            all,
            status: 0,
            unseen: Unseen::default(),
            mask: 0,
            asked_for: false,
            moderated: moderated.map(|bits| (bits, Moderation::off())),
            alarm: Alarm::new(tag),
        }
    }

    /// Back to how it was made.
    pub fn reset(&mut self, cx: &mut NicContext<'_>) {
        (self.status, self.mask, self.asked_for) = (0, 0, false);
        self.unseen = Unseen::default();
        self.moderated.iter_mut().for_each(|(_, held)| *held = Moderation::off());
        self.alarm.cancel();
        if let Some(strict) = cx.strict() {
            strict.forget_vector(self.vector);
        }
        self.update(cx);
    }

    /// The status register.
    pub fn status(&self) -> u32 {
        self.status
    }

    /// The mask register.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Whether the driver has asked for interrupts since the last reset.
    pub fn is_asked_for(&self) -> bool {
        self.asked_for
    }

    /// The driver writes the mask.
    pub fn set_mask(&mut self, cx: &mut NicContext<'_>, mask: u32) {
        let (now, before) = (cx.now(), self.mask);
        self.mask = mask & self.all;
        if let Some(strict) = cx.strict() {
            strict.masked(now, self.vector, (before, self.mask), self.status);
        }
        self.asked_for |= self.mask != 0;
        self.update(cx);
    }

    /// The driver clears status bits. Those of which it cannot have known when it wrote this are reported again.
    pub fn acknowledge(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        let now = cx.now();
        if let Some(strict) = cx.strict() {
            strict.acknowledged(now, self.vector, bits, (self.status, self.all));
        }
        let unseen = bits & self.status & self.unseen.bits(cx);
        self.status &= !bits;
        self.update(cx);
        if unseen != 0 {
            // As if it had come now: a driver that waits for the interrupt gets another one.
            self.status |= unseen;
            self.update(cx);
        }
    }

    /// Something happened that is reported at once.
    #[inline]
    pub fn report(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.status |= bits;
        self.unseen.add(cx, bits);
        self.update(cx);
    }

    /// So many frames went the way of a moderated cause.
    #[inline]
    pub fn report_frames(&mut self, cx: &mut NicContext<'_>, cause: usize, frames: u32) {
        let (bits, held) = &mut self.moderated[cause];
        let bits = *bits;
        if held.is_off() {
            return self.report(cx, bits);
        }
        let over = held.hold(cx.now(), frames);
        self.set_alarm(cx);
        self.report(cx, if over { bits } else { 0 });
    }

    /// Sets how a cause is moderated ([`Moderation::set`]). What is being held goes out if that changes.
    pub fn moderate(&mut self, cx: &mut NicContext<'_>, cause: usize, time: Span, frames: u32) {
        let (bits, held) = &mut self.moderated[cause];
        let bits = if held.set(time, frames) { *bits } else { 0 };
        self.set_alarm(cx);
        self.report(cx, bits);
    }

    /// The moderation's timer.
    pub fn timer(&mut self, cx: &mut NicContext<'_>) {
        if !self.alarm.event(cx) {
            return;
        }
        let mut due = 0;
        for (bits, held) in &mut self.moderated {
            due |= if held.release_due(cx.now()) { *bits } else { 0 };
        }
        self.set_alarm(cx);
        self.report(cx, due);
    }

    #[inline]
    fn set_alarm(&mut self, cx: &mut NicContext<'_>) {
        match self.moderated.iter().map(|(_, held)| held.due()).min() {
            None | Some(Time::NEVER) => self.alarm.cancel(),
            Some(due) => self.alarm.set(cx, due),
        }
    }

    #[inline]
    fn update(&self, cx: &mut NicContext<'_>) {
        cx.set_level(self.vector, self.status & self.mask != 0);
    }
}

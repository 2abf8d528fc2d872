//! Interrupt status, mask and moderation.
//!
//! The level is worked out anew after every change of either register. The handler masks,
//! acknowledges and later unmasks; a level looked at only once for all three would never be seen
//! to fall.
//!
//! Moderation (IntrMitigate) holds RxOK and TxOK back until a time has passed since the first
//! frame that was held, or until a number of frames has come together. Errors and link changes are
//! never held.

use warikomi_clock::{Span, Time};
use warikomi_pci::Vector;

use super::{TIMER_MODERATION, regs};
use crate::NicContext;
use crate::alarm::Alarm;

/// The chip has one.
pub(super) const VECTOR: Vector = Vector(0);

#[derive(Debug)]
pub(super) struct Interrupts {
    status: u16,
    mask: u16,
    /// The driver has asked for interrupts since the last reset.
    pub(super) asked_for: bool,
    rx: Held,
    tx: Held,
    alarm: Alarm,
}

/// One direction's moderation.
#[derive(Debug)]
struct Held {
    bits: u16,
    /// Longest time to hold; zero holds nothing back.
    time: Span,
    /// Frames that end the wait; zero waits for the time alone.
    frames: u32,
    waiting: u32,
    due: Time,
}

impl Held {
    const fn new(bits: u16) -> Self {
        Held { bits, time: Span::ZERO, frames: 0, waiting: 0, due: Time::NEVER }
    }

    /// Takes in `frames` frames; whether the wait is over.
    fn add(&mut self, now: Time, frames: u32) -> bool {
        if self.waiting == 0 {
            self.due = now + self.time;
        }
        self.waiting = self.waiting.saturating_add(frames);
        self.frames != 0 && self.waiting >= self.frames
    }

    /// Ends the wait; the status bits that were held.
    fn release(&mut self) -> u16 {
        self.due = Time::NEVER;
        if std::mem::take(&mut self.waiting) > 0 { self.bits } else { 0 }
    }
}

impl Interrupts {
    pub(super) const fn new() -> Self {
        Interrupts {
            status: 0,
            mask: 0,
            asked_for: false,
            rx: Held::new(regs::RX_OK),
            tx: Held::new(regs::TX_OK),
            alarm: Alarm::new(TIMER_MODERATION),
        }
    }

    /// As after a soft reset: nothing pending, everything masked, no moderation.
    pub(super) fn reset(&mut self, cx: &mut NicContext<'_>) {
        (self.status, self.mask, self.asked_for) = (0, 0, false);
        (self.rx, self.tx) = (Held::new(regs::RX_OK), Held::new(regs::TX_OK));
        self.alarm.cancel();
        self.update(cx);
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    pub(super) fn mask(&self) -> u16 {
        self.mask
    }

    /// The driver writes IntrMask.
    pub(super) fn set_mask(&mut self, cx: &mut NicContext<'_>, mask: u16) {
        self.mask = mask & regs::INTR_ALL;
        self.asked_for |= self.mask != 0;
        self.update(cx);
    }

    /// The driver writes IntrStatus: a 1 clears.
    pub(super) fn acknowledge(&mut self, cx: &mut NicContext<'_>, bits: u16) {
        self.status &= !bits;
        self.update(cx);
    }

    /// Something happened that is reported at once.
    #[inline]
    pub(super) fn report(&mut self, cx: &mut NicContext<'_>, bits: u16) {
        self.status |= bits;
        self.update(cx);
    }

    /// A frame was received.
    #[inline]
    pub(super) fn received(&mut self, cx: &mut NicContext<'_>) {
        if self.rx.time == Span::ZERO {
            self.report(cx, regs::RX_OK);
        } else {
            let over = self.rx.add(cx.now(), 1);
            self.held(cx, over);
        }
    }

    /// This many frames were sent.
    pub(super) fn sent(&mut self, cx: &mut NicContext<'_>, frames: u32) {
        if self.tx.time == Span::ZERO {
            self.report(cx, regs::TX_OK);
        } else {
            let over = self.tx.add(cx.now(), frames);
            self.held(cx, over);
        }
    }

    fn held(&mut self, cx: &mut NicContext<'_>, over: bool) {
        if over {
            self.release_due(cx);
        }
        self.set_alarm(cx);
    }

    /// Lets go of what has waited long enough, by time or by number.
    fn release_due(&mut self, cx: &mut NicContext<'_>) {
        let now = cx.now();
        for held in [&mut self.rx, &mut self.tx] {
            let enough = held.frames != 0 && held.waiting >= held.frames;
            if held.due <= now || enough {
                self.status |= held.release();
            }
        }
        self.update(cx);
    }

    fn set_alarm(&mut self, cx: &mut NicContext<'_>) {
        match self.rx.due.min(self.tx.due) {
            Time::NEVER => self.alarm.cancel(),
            due => self.alarm.set(cx, due),
        }
    }

    /// The moderation timer's event.
    pub(super) fn timer(&mut self, cx: &mut NicContext<'_>) {
        if self.alarm.event(cx) {
            self.release_due(cx);
            self.set_alarm(cx);
        }
    }

    /// The driver writes IntrMitigate or CPlusCmd, or the speed changes. `unit` is what one step
    /// of the time fields lasts. What is being held goes out at once, so that no setting can leave
    /// it behind.
    pub(super) fn moderate(&mut self, cx: &mut NicContext<'_>, mitigate: u16, unit: Span) {
        let field = |shift: u32| u32::from(mitigate >> shift & 0xf);
        for (held, time, frames) in
            [(&mut self.tx, field(12), field(8)), (&mut self.rx, field(4), field(0))]
        {
            let (time, frames) = (unit * u64::from(time), 4 * frames);
            if (held.time, held.frames) != (time, frames) {
                self.status |= held.release();
                (held.time, held.frames) = (time, frames);
            }
        }
        self.set_alarm(cx);
        self.update(cx);
    }

    #[inline]
    fn update(&self, cx: &mut NicContext<'_>) {
        cx.set_level(VECTOR, self.status & self.mask != 0);
    }
}

/// What one step of IntrMitigate's time fields lasts (Linux 6.1 r8169_main.c,
/// rtl_coalesce_info_8168_8136): a base that depends on the speed, times 1, 8, 16 or 32.
pub(super) fn moderation_unit(mbps: u32, cplus: u16) -> Span {
    let base = match mbps {
        10 => Span::from_ns(40_960),
        100 => Span::from_ns(2_560),
        _ => Span::from_ns(5_000),
    };
    base * [1, 8, 16, 32][usize::from(cplus & regs::CPLUS_TIMER_SCALE)]
}

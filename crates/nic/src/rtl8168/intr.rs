//! Interrupt status, mask and moderation.
//!
//! The level is worked out anew after every change of either register. The handler masks,
//! acknowledges and later unmasks; a level looked at only once for all three would never be seen
//! to fall.
//!
//! Moderation (IntrMitigate) holds RxOK and TxOK back; errors and link changes are never held.

use warikomi_clock::{Span, Time};
use warikomi_pci::Vector;

use super::{TIMER_MODERATION, regs};
use crate::NicContext;
use crate::queue::{Alarm, Moderation};

/// The chip has one.
pub(super) const VECTOR: Vector = Vector(0);

#[derive(Debug)]
pub(super) struct Interrupts {
    status: u16,
    mask: u16,
    /// The driver has asked for interrupts since the last reset.
    pub(super) asked_for: bool,
    rx: Moderation,
    tx: Moderation,
    alarm: Alarm,
}

impl Interrupts {
    pub(super) const fn new() -> Self {
        Interrupts {
            status: 0,
            mask: 0,
            asked_for: false,
            rx: Moderation::off(),
            tx: Moderation::off(),
            alarm: Alarm::new(TIMER_MODERATION),
        }
    }

    /// As after a soft reset: nothing pending, everything masked, no moderation.
    pub(super) fn reset(&mut self, cx: &mut NicContext<'_>) {
        (self.status, self.mask, self.asked_for) = (0, 0, false);
        (self.rx, self.tx) = (Moderation::off(), Moderation::off());
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
        if self.rx.hold(cx.now(), 1) {
            self.report(cx, regs::RX_OK);
        }
        self.set_alarm(cx);
    }

    /// This many frames were sent.
    pub(super) fn sent(&mut self, cx: &mut NicContext<'_>, frames: u32) {
        if self.tx.hold(cx.now(), frames) {
            self.report(cx, regs::TX_OK);
        }
        self.set_alarm(cx);
    }

    #[inline]
    fn set_alarm(&mut self, cx: &mut NicContext<'_>) {
        match self.rx.due().min(self.tx.due()) {
            Time::NEVER => self.alarm.cancel(),
            due => self.alarm.set(cx, due),
        }
    }

    /// The moderation timer's event.
    pub(super) fn timer(&mut self, cx: &mut NicContext<'_>) {
        if !self.alarm.event(cx) {
            return;
        }
        let now = cx.now();
        let rx = if self.rx.release_due(now) { regs::RX_OK } else { 0 };
        let tx = if self.tx.release_due(now) { regs::TX_OK } else { 0 };
        self.report(cx, rx | tx);
        self.set_alarm(cx);
    }

    /// The driver writes IntrMitigate or CPlusCmd, or the speed changes. `unit` is what one step
    /// of the time fields lasts. What is being held goes out at once, so that no setting can leave
    /// it behind.
    pub(super) fn moderate(&mut self, cx: &mut NicContext<'_>, mitigate: u16, unit: Span) {
        let field = |shift: u32| u32::from(mitigate >> shift & 0xf);
        for (held, bits, time, frames) in [
            (&mut self.tx, regs::TX_OK, field(12), field(8)),
            (&mut self.rx, regs::RX_OK, field(4), field(0)),
        ] {
            if held.set(unit * u64::from(time), 4 * frames) {
                self.status |= bits;
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

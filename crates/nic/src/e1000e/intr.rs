//! Interrupts (82574, 7.4 and 10.2.4): one register of causes, one mask, and five vectors.
//!
//! By INTA# and MSI all causes that are not masked make one interrupt, and reading ICR acknowledges it. By MSI-X the
//! causes of queues and OTHER go to the vectors that IVAR names. When such a message goes out, the card clears its
//! causes by itself (EIAC) and masks them (EIAC; IAM with CTRL_EXT.EIAME), so that a handler accesses nothing
//! before it unmasks. A message that the system holds back has not gone out: its causes stay as they are until it
//! does ([`NicModel::interrupts_configured`](crate::NicModel::interrupts_configured)).
//!
//! ICR is cleared by a read if it stands for an interrupt (INT_ASSERTED), or if everything is masked; otherwise a
//! read changes nothing, so that nothing is lost by a look at it.

use warikomi_clock::{Span, Time};
use warikomi_pci::Vector;

use super::delay::{Delay, Expired};
use super::regs::{self, Registers};
use super::timers;
use crate::NicContext;
use crate::intel::stats;
use crate::intel::throttle::Throttle;
use crate::queue::Alarm;

const VECTORS: usize = regs::VECTORS as usize;

/// The causes that IVAR gives vectors, four bits each, the lowest first.
const ALLOCATED: [u32; 5] = [regs::RXQ0, regs::RXQ0 << 1, regs::TXQ0, regs::TXQ0 << 1, regs::OTHER];
/// An allocation holds.
const VALID: u32 = 1 << 3;

/// Registers that say what happens when an interrupt goes out, or is read.
#[derive(Clone, Copy, Debug, Default)]
struct Automatic {
    /// EIAC.
    clears: u32,
    /// IAM.
    masks: u32,
    /// CTRL_EXT.IAME: a read of ICR masks.
    at_read: bool,
    /// CTRL_EXT.EIAME: a message masks.
    at_message: bool,
}

#[derive(Debug)]
pub(super) struct Interrupts {
    causes: u32,
    mask: u32,
    /// An interrupt has gone out since ICR was read.
    asserted: bool,
    asked_for: bool,
    automatic: Automatic,
    /// The causes of each vector.
    allocated: [u32; VECTORS],
    /// Of each vector by MSI-X, and of the one that there is otherwise.
    throttles: [Throttle; VECTORS],
    throttle: Throttle,
    receive: Delay,
    transmit: Delay,
    alarm: Alarm,
    /// Interrupts that went out and are not in IAC yet.
    count: usize,
}

/// What EITR and ITR say, in units of 256 ns.
fn interval(register: u32) -> Span {
    const UNIT: Span = Span::from_ns(256);
    UNIT * u64::from(register & 0xffff)
}

impl Interrupts {
    pub(super) fn new() -> Self {
        Interrupts {
            causes: 0,
            mask: 0,
            asserted: false,
            asked_for: false,
            automatic: Automatic::default(),
            allocated: [0; VECTORS],
            throttles: [Throttle::off(); VECTORS],
            throttle: Throttle::off(),
            receive: Delay::off(),
            transmit: Delay::off(),
            alarm: Alarm::new(timers::INTR),
            count: 0,
        }
    }

    /// Nothing has happened, and nothing is asked for.
    pub(super) fn reset(&mut self, cx: &mut NicContext<'_>) {
        let alarm = std::mem::replace(&mut self.alarm, Alarm::new(timers::INTR));
        *self = Interrupts { alarm, ..Interrupts::new() };
        self.alarm.cancel();
        if let Some(strict) = cx.strict() {
            (0..regs::VECTORS).for_each(|vector| strict.forget_vector(Vector(vector)));
        }
        self.update(cx);
    }

    pub(super) fn mask(&self) -> u32 {
        self.mask
    }

    /// Whether the driver has asked for interrupts since the last reset.
    pub(super) fn is_asked_for(&self) -> bool {
        self.asked_for
    }

    /// Interrupts that went out since this was last asked.
    pub(super) fn take_count(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    /// The driver writes IMS.
    pub(super) fn unmask(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.mask |= bits & regs::CAUSES;
        self.asked_for |= self.mask != 0;
        self.update(cx);
    }

    /// It writes IMC.
    pub(super) fn mask_out(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.mask &= !bits;
        self.update(cx);
    }

    /// It reads ICR.
    pub(super) fn read(&mut self, cx: &mut NicContext<'_>) -> u32 {
        let asserted = if self.asserted { regs::INT_ASSERTED } else { 0 };
        let value = self.causes | asserted;
        if self.asserted || self.mask == 0 {
            self.mask_at_read();
            (self.causes, self.asserted) = (0, false);
            self.update(cx);
        }
        value
    }

    /// It writes ICR: a 1 clears.
    pub(super) fn acknowledge(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.mask_at_read();
        self.causes &= !bits;
        self.asserted &= self.causes != 0;
        self.update(cx);
    }

    fn mask_at_read(&mut self) {
        if self.asserted && self.automatic.at_read {
            self.mask &= !self.automatic.masks;
        }
    }

    /// It writes one of the registers of interrupts that only store.
    pub(super) fn set(&mut self, cx: &mut NicContext<'_>, register: u16, file: &Registers) {
        let value = file.get(register);
        match register {
            regs::EIAC => self.automatic.clears = value,
            regs::IAM => self.automatic.masks = value,
            regs::CTRL_EXT => {
                self.automatic.at_message = value & regs::EXT_INTERRUPT_AUTO_MASK != 0;
                self.automatic.at_read = value & regs::INTERRUPT_AUTO_MASK != 0;
            }
            regs::IVAR => self.allocate(value),
            regs::ITR => self.throttle.set(interval(value)),
            regs::EITR..=regs::EITR_LAST => {
                self.throttles[usize::from(register - regs::EITR) / 4].set(interval(value));
            }
            regs::RDTR | regs::RADV => {
                self.receive.set(file.get(regs::RDTR), file.get(regs::RADV));
                if file.get(regs::RDTR) & regs::FLUSH != 0 && self.receive.clear() {
                    self.causes |= regs::RXT0;
                }
            }
            regs::TIDV | regs::TADV => {
                self.transmit.set(file.get(regs::TIDV), file.get(regs::TADV));
                if file.get(regs::TIDV) & regs::FLUSH != 0 && self.transmit.clear() {
                    self.causes |= regs::TXDW;
                }
            }
            _ => return,
        }
        self.update(cx);
    }

    fn allocate(&mut self, ivar: u32) {
        self.allocated = [0; VECTORS];
        for (field, cause) in ALLOCATED.into_iter().enumerate() {
            let entry = ivar >> (4 * field);
            let vector = self.allocated.get_mut((entry & 7) as usize);
            if let (Some(causes), true) = (vector, entry & VALID != 0) {
                *causes |= cause;
            }
        }
    }

    /// Something happened.
    #[inline]
    pub(super) fn report(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        let other = if bits & regs::OTHERS != 0 { regs::OTHER } else { 0 };
        self.causes |= (bits | other) & regs::CAUSES;
        self.update(cx);
    }

    /// A frame is on the ring of a receive queue.
    #[inline]
    pub(super) fn report_received(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        // The delay timers are not for vectors of their own (7.4.1).
        if cx.has_msix() {
            return self.report(cx, regs::RXQ0 << queue);
        }
        let now = self.receive.hold(cx.now());
        self.report(cx, if now { regs::RXT0 } else { 0 });
    }

    /// Descriptors of a transmit queue are written back that say that they want it told: at once, or within the
    /// delay.
    pub(super) fn report_sent(&mut self, cx: &mut NicContext<'_>, queue: u16, at_once: bool) {
        if cx.has_msix() {
            return self.report(cx, regs::TXQ0 << queue);
        }
        let now = at_once || self.transmit.hold(cx.now());
        self.report(cx, if now { regs::TXDW } else { 0 });
    }

    /// The timer of throttles and delays.
    pub(super) fn timer(&mut self, cx: &mut NicContext<'_>, file: &mut Registers) {
        if !self.alarm.event(cx) {
            return;
        }
        let expired = [
            (self.receive.expire(cx.now()), regs::RXT0, [regs::ICRXPTC, regs::ICRXATC]),
            (self.transmit.expire(cx.now()), regs::TXDW, [regs::ICTXPTC, regs::ICTXATC]),
        ];
        for (by, cause, [packet, absolute]) in expired {
            let Some(by) = by else { continue };
            self.causes |= cause;
            stats::add(file, if by == Expired::Packet { packet } else { absolute }, 1);
        }
        self.update(cx);
    }

    /// Works out the levels, which everything does that changes a cause, the mask or the way of messages.
    pub(super) fn update(&mut self, cx: &mut NicContext<'_>) {
        let mut due = self.receive.due().min(self.transmit.due());
        if cx.has_msix() {
            for vector in 0..VECTORS {
                due = due.min(self.update_vector(cx, vector));
            }
        } else {
            (1..regs::VECTORS).for_each(|vector| cx.lower(Vector(vector)));
            due = due.min(self.update_only_vector(cx));
        }
        if due == Time::NEVER {
            self.alarm.cancel();
        } else {
            self.alarm.set(cx, due);
        }
    }

    /// When its throttle opens, if that is what it waits for.
    fn update_only_vector(&mut self, cx: &mut NicContext<'_>) -> Time {
        const VECTOR: Vector = Vector(0);
        let pending = self.causes & self.mask != 0;
        if !pending || cx.is_asserted(VECTOR) {
            cx.set_level(VECTOR, pending);
            return Time::NEVER;
        }
        let opens = self.throttle.opens();
        if opens > cx.now() {
            return opens;
        }
        self.throttle.passed(cx.now());
        self.went_out();
        cx.raise(VECTOR);
        Time::NEVER
    }

    /// The same of one of several.
    fn update_vector(&mut self, cx: &mut NicContext<'_>, number: usize) -> Time {
        let (vector, allocated) = (Vector(number as u16), self.allocated[number]);
        let pending = self.causes & self.mask & allocated;
        if pending == 0 {
            cx.lower(vector);
            return Time::NEVER;
        }
        if !cx.is_asserted(vector) {
            let opens = self.throttles[number].opens();
            if opens > cx.now() {
                return opens;
            }
            self.throttles[number].passed(cx.now());
            self.went_out();
            cx.raise(vector);
        }
        if cx.is_reported(vector) {
            let Automatic { clears, masks, at_message, .. } = self.automatic;
            self.causes &= !(clears & pending);
            self.mask &= !((clears | if at_message { masks } else { 0 }) & pending);
            if self.causes & self.mask & allocated == 0 {
                cx.lower(vector);
            }
        }
        Time::NEVER
    }

    fn went_out(&mut self) {
        self.asserted = true;
        self.count += 1;
    }
}

//! Interrupts (82576, 7.3 and 8.8): causes of the MAC in ICR, and a cause for each vector in EICR.
//!
//! By MSI-X, with GPIE's bit for that, the queues and the causes of ICR have the bits of EICR that IVAR gives them, and
//! each bit is a vector. When its message goes out, the card clears the bit by itself (EIAC) and masks it (EIAM with
//! GPIE.EIAME), so that a handler accesses nothing before it unmasks. A message that the system holds back has not gone
//! out: its bit stays as it is until it does
//! ([`NicModel::interrupts_configured`](crate::NicModel::interrupts_configured)).
//!
//! By INTA# and MSI everything that is not masked makes one interrupt: causes of ICR, which a read acknowledges and masks
//! (IAM), and bits of EICR, which IVAR gives to queues there, too.
//!
//! ICR is cleared by a read if it stands for an interrupt (INT_ASSERTED), if everything is masked, or if the driver
//! wants that of every read (GPIE.NSICR); otherwise a read changes nothing, so that nothing is lost by a look at it.

use warikomi_clock::{Span, Time};
use warikomi_pci::Vector;

use super::regs::{self, Registers};
use super::timers;
use crate::NicContext;
use crate::intel::throttle::Throttle;
use crate::queue::Alarm;

const VECTORS: usize = regs::VECTORS as usize;
const BITS: usize = regs::CAUSE_BITS as usize;
/// Those of EICR by MSI-X.
const ALL: u32 = (1 << BITS) - 1;

/// An allocation holds.
const VALID: u8 = 1 << 7;
/// The other causes, of which EICR has this bit where there is one vector.
const OTHER: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Interrupts {
    /// ICR, IMS and IAM.
    causes: u32,
    mask: u32,
    masks_at_read: u32,
    /// An interrupt for ICR has gone out since it was read.
    asserted: bool,
    /// EICR, EIMS, EIAC and EIAM.
    bits: u32,
    bit_mask: u32,
    clears: u32,
    masks: u32,
    gpie: u32,
    /// The bit of each receive queue and each transmit queue, and of the causes of ICR.
    rx: [u32; regs::QUEUES as usize],
    tx: [u32; regs::QUEUES as usize],
    other: u32,
    asked_for: bool,
    /// Vectors that are asserted, a bit each.
    raised: u32,
    /// Of each bit; the first one is that of the only vector, where there is one.
    throttles: [Throttle; BITS],
    alarm: Alarm,
    /// Interrupts that went out and are not in IAC yet.
    count: usize,
}

/// What EITR says: microseconds.
fn interval(register: u32) -> Span {
    Span::from_us(u64::from(register >> 2 & 0x1fff))
}

/// The bit of EICR that an entry of IVAR stands for; none if there is no such.
fn bit(entry: u8) -> u32 {
    let number = u32::from(entry & 0x1f);
    if entry & VALID == 0 { 0 } else { 1 << number & ALL }
}

impl Interrupts {
    pub(super) fn new() -> Self {
        Interrupts {
            causes: 0,
            mask: 0,
            masks_at_read: 0,
            asserted: false,
            bits: 0,
            bit_mask: 0,
            clears: 0,
            masks: 0,
            gpie: 0,
            rx: [0; regs::QUEUES as usize],
            tx: [0; regs::QUEUES as usize],
            other: 0,
            asked_for: false,
            raised: 0,
            throttles: [Throttle::off(); BITS],
            alarm: Alarm::new(timers::INTR),
            count: 0,
        }
    }

    /// Nothing has happened, and nothing is asked for.
    pub(super) fn reset(&mut self, cx: &mut NicContext<'_>) {
        let alarm = std::mem::replace(&mut self.alarm, Alarm::new(timers::INTR));
        *self = Interrupts { alarm, raised: self.raised, ..Interrupts::new() };
        self.alarm.cancel();
        if let Some(strict) = cx.strict() {
            (0..regs::VECTORS).for_each(|vector| strict.forget_vector(Vector(vector)));
        }
        self.update(cx);
    }

    /// IMS and EIMS.
    pub(super) fn masks(&self) -> (u32, u32) {
        (self.mask, self.bit_mask)
    }

    /// Whether the driver has asked for interrupts since the last reset.
    pub(super) fn is_asked_for(&self) -> bool {
        self.asked_for
    }

    /// Interrupts that went out since this was last asked.
    pub(super) fn take_count(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    /// Whether each bit has a vector of its own.
    fn has_many_vectors(&self, cx: &NicContext<'_>) -> bool {
        cx.has_msix() && self.gpie & regs::GPIE_MANY_VECTORS != 0
    }

    /// The bit of the causes of ICR.
    fn other_bit(&self, cx: &NicContext<'_>) -> u32 {
        if self.has_many_vectors(cx) { self.other } else { OTHER }
    }

    /// What ICR holds, by a look.
    pub(super) fn causes(&self) -> u32 {
        self.causes | if self.asserted { regs::INT_ASSERTED } else { 0 }
    }

    /// What EICR holds, by a look.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The driver reads ICR.
    pub(super) fn read(&mut self, cx: &mut NicContext<'_>) -> u32 {
        let value = self.causes();
        let any_read = self.gpie & regs::GPIE_CLEARED_BY_ANY_READ != 0;
        if self.asserted || self.mask == 0 || any_read {
            self.mask_at_read();
            (self.causes, self.asserted) = (0, false);
            self.bits &= !self.other_bit(cx);
            self.update(cx);
        }
        value
    }

    /// It reads EICR, which clears it unless each bit has a vector of its own (i210, 8.8.3 and 8.8.17).
    pub(super) fn read_bits(&mut self, cx: &mut NicContext<'_>) -> u32 {
        let value = self.bits;
        if self.gpie & regs::GPIE_MANY_VECTORS == 0 {
            self.acknowledge_bits(cx, value);
        }
        value
    }

    fn acknowledge(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.mask_at_read();
        self.causes &= !bits;
        self.asserted &= self.causes != 0;
        if self.causes & self.mask == 0 {
            self.bits &= !self.other_bit(cx);
        }
        self.update(cx);
    }

    fn acknowledge_bits(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        if self.gpie & regs::GPIE_AUTO_MASK == 0 {
            self.bit_mask &= !(self.masks & self.bits);
        }
        self.bits &= !bits;
        self.update(cx);
    }

    /// Once it stands for an interrupt, a look at ICR masks what IAM says (Linux, igb_intr).
    fn mask_at_read(&mut self) {
        if self.asserted {
            self.mask &= !self.masks_at_read;
        }
    }

    /// It writes a register of interrupts; whether this is one.
    pub(super) fn write(&mut self, cx: &mut NicContext<'_>, register: u16, value: u32) -> bool {
        match register {
            regs::ICR => self.acknowledge(cx, value),
            regs::ICS => self.report(cx, value),
            regs::IMS => self.unmask(cx, value),
            regs::IMC => self.mask &= !value,
            regs::EICR => self.acknowledge_bits(cx, value),
            regs::EICS => self.bits |= value & ALL,
            regs::EIMS => {
                self.bit_mask |= value & (ALL | OTHER);
                self.asked_for |= self.bit_mask != 0;
            }
            regs::EIMC => self.bit_mask &= !value,
            _ => return false,
        }
        self.update(cx);
        true
    }

    fn unmask(&mut self, cx: &NicContext<'_>, bits: u32) {
        self.mask |= bits & regs::CAUSES;
        self.asked_for |= self.mask != 0;
        if self.causes & self.mask & bits != 0 {
            self.bits |= self.other_bit(cx);
        }
    }

    /// It has written one of the registers of interrupts that only store.
    pub(super) fn set(&mut self, cx: &mut NicContext<'_>, register: u16, file: &Registers) {
        let value = file.get(register);
        match register {
            regs::IAM => self.masks_at_read = value,
            regs::EIAC => self.clears = value,
            regs::EIAM => self.masks = value,
            regs::GPIE => self.gpie = value,
            regs::IVAR..=regs::IVAR_LAST => {
                // Queue n and queue n + 8, of either direction.
                let row = usize::from(register - regs::IVAR) / 4;
                let [rx, tx, upper_rx, upper_tx] = value.to_le_bytes().map(bit);
                (self.rx[row], self.rx[row + 8]) = (rx, upper_rx);
                (self.tx[row], self.tx[row + 8]) = (tx, upper_tx);
            }
            regs::IVAR_MISC => self.other = bit(value.to_le_bytes()[1]),
            regs::EITR..=regs::EITR_LAST => {
                self.throttles[usize::from(register - regs::EITR) / 4].set(interval(value));
            }
            _ => return,
        }
        self.update(cx);
    }

    /// Something happened.
    #[inline]
    pub(super) fn report(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.happened(cx, bits);
        self.update(cx);
    }

    #[inline]
    fn happened(&mut self, cx: &NicContext<'_>, bits: u32) {
        self.causes |= bits & regs::CAUSES;
        if bits & self.mask != 0 {
            self.bits |= self.other_bit(cx);
        }
    }

    /// A frame is on the ring of a receive queue.
    #[inline]
    pub(super) fn report_received(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        self.happened(cx, regs::RXT0);
        self.bits |= self.rx[usize::from(queue)];
        self.update(cx);
    }

    /// Descriptors of a transmit queue are written back that say that they want it told.
    pub(super) fn report_sent(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        self.happened(cx, regs::TXDW);
        self.bits |= self.tx[usize::from(queue)];
        self.update(cx);
    }

    /// The timer of throttles.
    pub(super) fn timer(&mut self, cx: &mut NicContext<'_>) {
        if self.alarm.event(cx) {
            self.update(cx);
        }
    }

    /// Works out the levels, which everything does that changes a cause, a mask or the way of messages.
    pub(super) fn update(&mut self, cx: &mut NicContext<'_>) {
        let mut due = Time::NEVER;
        if self.has_many_vectors(cx) {
            // Nothing changes for the others.
            let mut left = (self.bits & self.bit_mask | self.raised) & ((1 << VECTORS) - 1);
            while left != 0 {
                due = due.min(self.update_vector(cx, left.trailing_zeros() as usize));
                left &= left - 1;
            }
        } else {
            if self.raised & !1 != 0 {
                (1..regs::VECTORS).for_each(|vector| cx.lower(Vector(vector)));
            }
            due = self.update_only_vector(cx);
            self.raised = u32::from(cx.is_asserted(Vector(0)));
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
        let by_causes = self.causes & self.mask != 0;
        let pending = by_causes || self.bits & self.bit_mask != 0;
        if !pending || cx.is_asserted(VECTOR) {
            self.asserted |= by_causes && pending;
            cx.set_level(VECTOR, pending);
            return Time::NEVER;
        }
        let opens = self.throttles[0].opens();
        if opens > cx.now() {
            return opens;
        }
        self.throttles[0].passed(cx.now());
        self.asserted |= by_causes;
        self.count += 1;
        cx.raise(VECTOR);
        Time::NEVER
    }

    /// The same of one of several.
    fn update_vector(&mut self, cx: &mut NicContext<'_>, number: usize) -> Time {
        let (vector, bit) = (Vector(number as u16), 1 << number);
        if self.bits & self.bit_mask & bit == 0 {
            self.lower(cx, vector);
            return Time::NEVER;
        }
        if !cx.is_asserted(vector) {
            let opens = self.throttles[number].opens();
            if opens > cx.now() {
                return opens;
            }
            self.throttles[number].passed(cx.now());
            self.asserted |= self.other & bit != 0;
            self.count += 1;
            self.raised |= bit;
            cx.raise(vector);
        }
        if cx.is_reported(vector) {
            self.bits &= !(self.clears & bit);
            if self.gpie & regs::GPIE_AUTO_MASK != 0 {
                self.bit_mask &= !(self.masks & bit);
            }
            if self.bits & self.bit_mask & bit == 0 {
                self.lower(cx, vector);
            }
        }
        Time::NEVER
    }

    fn lower(&mut self, cx: &mut NicContext<'_>, vector: Vector) {
        self.raised &= !(1 << vector.0);
        cx.lower(vector);
    }
}

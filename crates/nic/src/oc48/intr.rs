//! Interrupt status and mask. The level is worked out anew after every change of either.

use warikomi_pci::Vector;

use super::regs;
use crate::NicContext;

/// The card has one.
pub(super) const VECTOR: Vector = Vector(0);

#[derive(Debug, Default)]
pub(super) struct Interrupts {
    status: u32,
    mask: u32,
    /// The driver has asked for interrupts since the last reset.
    pub(super) asked_for: bool,
}

impl Interrupts {
    pub(super) fn reset(&mut self, cx: &mut NicContext<'_>) {
        *self = Interrupts::default();
        self.update(cx);
    }

    pub(super) fn status(&self) -> u32 {
        self.status
    }

    pub(super) fn mask(&self) -> u32 {
        self.mask
    }

    /// The driver writes INTR_MASK.
    pub(super) fn set_mask(&mut self, cx: &mut NicContext<'_>, mask: u32) {
        self.mask = mask & regs::INTR_ALL;
        self.asked_for |= self.mask != 0;
        self.update(cx);
    }

    /// The driver writes INTR_STATUS: a 1 clears.
    pub(super) fn acknowledge(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.status &= !bits;
        self.update(cx);
    }

    /// Something happened.
    #[inline]
    pub(super) fn report(&mut self, cx: &mut NicContext<'_>, bits: u32) {
        self.status |= bits;
        self.update(cx);
    }

    #[inline]
    fn update(&self, cx: &mut NicContext<'_>) {
        cx.set_level(VECTOR, self.status & self.mask != 0);
    }
}

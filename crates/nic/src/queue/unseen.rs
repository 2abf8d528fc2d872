//! What a driver cannot have known of when it wrote an acknowledgement.
//!
//! A driver does not wait for its writes. It acknowledges, looks at its ring, finds nothing, and enables its interrupt;
//! only then, if the side that plays the card was not running meanwhile, is the acknowledgement carried out. A frame
//! that was placed in between must not be acknowledged by it: its interrupt would be lost, and the frame left on the
//! ring. On a real bus that time is short; here it can be as long as a core is taken away for.
//!
//! An acknowledgement comes behind what it acknowledges if the driver has read a register in between: a read is
//! answered behind what was placed before it. For a driver that reads none, [`LOOKS`] looks at
//! what it has written must lie between the report and the acknowledgement.

use crate::NicContext;

/// Looks after which whatever was written before something was reported has been found, and whatever either processor
/// still held back has reached memory. A look takes 10 ns at least.
const LOOKS: u64 = 64;

/// Status bits that were reported since the driver last read a register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unseen {
    bits: u32,
    reads: u64,
    looks: u64,
}

impl Unseen {
    /// These are reported. Where no write can be on its way, all that was reported is seen.
    #[inline]
    pub(super) fn add(&mut self, cx: &NicContext<'_>, bits: u32) {
        match *cx.looks {
            None => *self = Unseen::default(),
            Some(_) if bits == 0 => {}
            Some(looks) => {
                let before = self.bits(cx);
                *self = Unseen { bits: before | bits, reads: cx.lent.counters.reads, looks };
            }
        }
    }

    /// Those that a write which is carried out now cannot acknowledge.
    #[inline]
    pub(super) fn bits(&self, cx: &NicContext<'_>) -> u32 {
        let is_seen = |looks: u64| looks.saturating_sub(self.looks) > LOOKS;
        if cx.lent.counters.reads != self.reads || cx.looks.is_none_or(is_seen) {
            0
        } else {
            self.bits
        }
    }
}

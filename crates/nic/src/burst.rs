//! Frames that come one right behind the other.
//!
//! A driver that polls reads the descriptor that the card will give it next, again and again, and each look takes the
//! cache line away from the card, which is about to fill the descriptors beside it. So the words that give
//! descriptors to the driver are held back in a burst, and written in order at its end, as a card with a write-back
//! threshold does (Linux igb.h, IGB_RX_WTHRESH).

use warikomi_pci::Host;

use crate::{Frame, Nic, Reception};

/// Frames that come at one time. What the driver gets of them it gets when this is dropped, or before, if the card
/// interrupts or comes to a descriptor again.
pub struct Burst<'a, 'h> {
    nic: &'a mut dyn Nic,
    host: &'a mut Host<'h>,
}

impl<'a, 'h> Burst<'a, 'h> {
    /// A burst that begins.
    pub fn new(nic: &'a mut dyn Nic, host: &'a mut Host<'h>) -> Burst<'a, 'h> {
        nic.begin_burst();
        Burst { nic, host }
    }

    /// The next frame arrives; see [`Nic::receive`].
    #[inline]
    pub fn receive(&mut self, frame: Frame<'_>) -> Reception {
        self.nic.receive(self.host, frame)
    }
}

impl Drop for Burst<'_, '_> {
    fn drop(&mut self) {
        self.nic.end_burst(self.host);
    }
}

//! Frames that come one right behind the other.
//!
//! A driver that polls reads the descriptor that the card will give it next, again and again, and each look takes the
//! cache line away from the card, which is about to fill the descriptors beside it. So the words that give
//! descriptors to the driver are held back in a burst, and written in order at its end, as a card with a write-back
//! threshold does (Linux igb.h, IGB_RX_WTHRESH). For the same reason the descriptors are read at its beginning, as by a
//! card with a prefetch threshold (IGB_RX_PTHRESH).

use warikomi_pci::Host;

use crate::{Frame, Nic, Reception};

/// Frames that come at one time. What the driver gets of them it gets when this is dropped, or before, if the card
/// interrupts or reads another descriptor.
pub struct Burst<'a, 'h> {
    nic: &'a mut dyn Nic,
    host: &'a mut Host<'h>,
    found: usize,
}

impl<'a, 'h> Burst<'a, 'h> {
    /// A burst of `frames` frames of `bytes` bytes begins. More may come, fewer or others: for them descriptors are read
    /// one by one, or have been read in vain.
    pub fn new(
        nic: &'a mut dyn Nic,
        host: &'a mut Host<'h>,
        frames: usize,
        bytes: usize,
    ) -> Burst<'a, 'h> {
        let found = nic.begin_burst(host, frames, bytes);
        Burst { nic, host, found }
    }

    /// How many of the frames find a descriptor.
    pub fn found(&self) -> usize {
        self.found
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

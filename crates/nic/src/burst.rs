//! Frames that come one right behind the other.
//!
//! A driver that polls reads the descriptor that the card will give it next, again and again, and each look takes the
//! cache line away from the card, which is about to fill the descriptors beside it. So the words that give descriptors to
//! the driver are held back in a burst, and written in order at its end, as a card with a write-back threshold does (Linux
//! igb.h, IGB_RX_WTHRESH).

use warikomi_pci::{DmaError, DmaMemory, Host};

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

/// Words that are held back.
#[derive(Debug, Default)]
pub(crate) struct Held {
    open: bool,
    /// Room for [`Held::MOST`] of them once the first burst has begun.
    words: Vec<(u64, u32)>,
    count: usize,
    /// The first address of them, and the last.
    lowest: u64,
    highest: u64,
}

impl Held {
    /// More are written at once.
    const MOST: usize = 64;

    /// Words are held back from now on.
    pub(crate) fn open(&mut self) {
        self.words.resize(Held::MOST, (0, 0));
        self.open = true;
    }

    /// No longer.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Whether words are held back.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Holds a word back; `false` if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, word: u32) -> bool {
        let Some(place) = self.words.get_mut(self.count) else { return false };
        *place = (address, word);
        self.lowest = if self.count == 0 { address } else { self.lowest.min(address) };
        self.highest = self.highest.max(address);
        self.count += 1;
        true
    }

    /// Whether one of them may be in these bytes.
    #[inline]
    pub(crate) fn may_be_in(&self, address: u64, bytes: usize) -> bool {
        let end = address.saturating_add(bytes as u64);
        // Of none, the highest is 0.
        address <= self.highest.saturating_add(3) && end > self.lowest && self.count > 0
    }

    /// Writes them, in order; why the last one that could not be written could not.
    pub(crate) fn write(&mut self, memory: &dyn DmaMemory) -> Result<(), DmaError> {
        let count = std::mem::take(&mut self.count);
        (self.lowest, self.highest) = (0, 0);
        let mut failed = None;
        for &(address, word) in &self.words[..count] {
            if let Err(error) = memory.store_u32(address, word) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

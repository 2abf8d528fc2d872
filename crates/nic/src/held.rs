//! Words that give descriptors to the driver, held back until the end of a [`Burst`](crate::Burst).

use warikomi_pci::{DmaError, DmaMemory};

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

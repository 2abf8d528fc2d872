//! Words that give descriptors to the driver, held back until the end of a [`Burst`](crate::Burst).

use warikomi_pci::{DmaError, DmaMemory};

/// Words that are held back.
#[derive(Debug, Default)]
pub(crate) struct Held {
    open: bool,
    words: Vec<(u64, u32)>,
}

impl Held {
    /// More are written at once.
    const MOST: usize = 64;

    /// Words are held back from now on.
    pub(crate) fn open(&mut self) {
        self.words.reserve(Held::MOST);
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

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.words.len() >= Held::MOST
    }

    /// Holds a word back.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, word: u32) {
        self.words.push((address, word));
    }

    /// Writes them, in order; why the last one that could not be written could not.
    pub(crate) fn write(&mut self, memory: &dyn DmaMemory) -> Result<(), DmaError> {
        let written = memory.store_words(&self.words);
        self.words.clear();
        written
    }
}

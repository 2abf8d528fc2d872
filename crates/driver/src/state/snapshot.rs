//! A state area as a copy of its words, for a successor that gets it through a store.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use warikomi_pci::attach::area::{MOST_SLOTS, RX_SLOTS, TX_SLOTS, header, record};

use super::error::{StateError, invalid};
use super::words::StateArea;

/// The words that a copy has, in order: header and settings, record, slots.
const PARTS: [Range<usize>; 4] = [
    header::MAGIC..header::CHECKSUM + 1,
    record::CHECKSUM..record::END,
    RX_SLOTS..RX_SLOTS + MOST_SLOTS,
    TX_SLOTS..TX_SLOTS + MOST_SLOTS,
];

/// Words of a copy.
pub const SNAPSHOT_WORDS: usize =
    header::CHECKSUM + 1 + record::END - record::CHECKSUM + 2 * MOST_SLOTS;

impl StateArea {
    /// Copies what a successor needs, after [`hand_over`](crate::NicDriver::hand_over):
    /// [`SNAPSHOT_WORDS`] words.
    pub fn snapshot(&self) -> Vec<u64> {
        PARTS.into_iter().flatten().map(|at| self.word(at)).collect()
    }

    /// Writes such a copy. Whether it makes sense is seen when it is read.
    pub fn restore(&self, snapshot: &[u64]) -> Result<(), StateError> {
        if snapshot.len() != SNAPSHOT_WORDS {
            let words = snapshot.len();
            return invalid(format!(
                "its copy has {words} words, and should have {SNAPSHOT_WORDS}"
            ));
        }
        let places = PARTS.into_iter().flatten();
        places.zip(snapshot).for_each(|(at, word)| self.words.store(at, *word, Relaxed));
        Ok(())
    }
}

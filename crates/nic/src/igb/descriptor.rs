//! What a transmit descriptor is (82576, 7.2.2), as far as its kind does not matter.

use super::offload;
use crate::intel::tx_ring::TxWords;
use crate::strict::Misuse;

// The third word of a descriptor: command, kind and length.
const LENGTH: u32 = 0xffff;
const EXTENDED: u32 = 1 << 29;
const KIND: u32 = EXTENDED | 0xf << 20;
pub(super) const CONTEXT: u32 = EXTENDED | 2 << 20;
pub(super) const DATA: u32 = EXTENDED | 3 << 20;

/// The four words of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(pub(super) [u32; 4]);

impl Words {
    /// It is an advanced data descriptor.
    pub(super) fn is_data(self) -> bool {
        self.0[2] & KIND == DATA
    }
}

impl TxWords for Words {
    const SOURCE: &'static str = "82576 (321027), section 7.2.2, transmit descriptors";

    fn new(words: [u32; 4]) -> Words {
        Words(words)
    }

    fn words(self) -> [u32; 4] {
        self.0
    }

    fn is_context(self) -> bool {
        self.0[2] & KIND == CONTEXT
    }

    fn bytes(self) -> usize {
        if self.is_context() { 0 } else { (self.0[2] & LENGTH) as usize }
    }

    fn misuse(self, before: Option<Words>) -> Option<Misuse> {
        offload::misuse(self, before)
    }
}

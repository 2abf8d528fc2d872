//! What a transmit descriptor is (82574, 7.2.10), as far as its kind does not matter.

use super::offload;
use crate::intel::tx_ring::TxWords;
use crate::strict::Misuse;

// The third word of a descriptor: command, and length.
const LEGACY_LENGTH: u32 = 0xffff;
const LENGTH: u32 = 0x000f_ffff;
const TYPE: u32 = 0xf << 20;
const EXTENDED: u32 = 1 << 29;
const DELAYED: u32 = 1 << 31;

/// The four words of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(pub(super) [u32; 4]);

impl Words {
    /// What it wants to be told may come later.
    pub(super) fn is_delayed(self) -> bool {
        self.0[2] & DELAYED != 0
    }
}

impl TxWords for Words {
    const SOURCE: &'static str = "82574 (317694), section 7.2, transmit descriptors";

    fn new(words: [u32; 4]) -> Words {
        Words(words)
    }

    fn words(self) -> [u32; 4] {
        self.0
    }

    fn is_context(self) -> bool {
        self.0[2] & (EXTENDED | TYPE) == EXTENDED
    }

    fn bytes(self) -> usize {
        match self.is_legacy() {
            true => (self.0[2] & LEGACY_LENGTH) as usize,
            false if self.is_context() => 0,
            false => (self.0[2] & LENGTH) as usize,
        }
    }

    fn misuse(self, before: Option<Words>) -> Option<Misuse> {
        offload::misuse(self, before)
    }
}

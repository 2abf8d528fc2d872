//! What a transmit descriptor is (82574, 7.2.10), as far as its kind does not matter.

// The third word of a descriptor: command, and length.
const LEGACY_LENGTH: u32 = 0xffff;
const LENGTH: u32 = 0x000f_ffff;
const TYPE: u32 = 0xf << 20;
const END_OF_PACKET: u32 = 1 << 24;
const REPORT: u32 = 1 << 27;
const EXTENDED: u32 = 1 << 29;
const DELAYED: u32 = 1 << 31;
/// The status, in the fourth word, and the bit that the card sets in it.
pub(super) const STATUS: u32 = 0xf;
pub(super) const DONE: u32 = 1 << 0;

/// The four words of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(pub(super) [u32; 4]);

impl Words {
    pub(super) fn is_context(self) -> bool {
        self.0[2] & (EXTENDED | TYPE) == EXTENDED
    }

    pub(super) fn is_legacy(self) -> bool {
        self.0[2] & EXTENDED == 0
    }

    /// It wants to be written back.
    pub(super) fn reports(self) -> bool {
        self.0[2] & REPORT != 0
    }

    /// What it wants to be told may come later.
    pub(super) fn is_delayed(self) -> bool {
        self.0[2] & DELAYED != 0
    }

    pub(super) fn bytes(self) -> usize {
        match self.is_legacy() {
            true => (self.0[2] & LEGACY_LENGTH) as usize,
            false if self.is_context() => 0,
            false => (self.0[2] & LENGTH) as usize,
        }
    }

    pub(super) fn is_last(self) -> bool {
        self.is_context() || self.0[2] & END_OF_PACKET != 0
    }

    pub(super) fn buffer(self) -> u64 {
        u64::from(self.0[1]) << 32 | u64::from(self.0[0])
    }
}

//! What a transmit descriptor is (82574, 7.2.10), as far as its kind does not matter.

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
    /// It says how frames behind it are made.
    pub(super) fn is_context(self) -> bool {
        self.0[2] & (EXTENDED | TYPE) == EXTENDED
    }

    /// What it wants to be told may come later.
    pub(super) fn is_delayed(self) -> bool {
        self.0[2] & DELAYED != 0
    }

    /// Bytes that it names.
    pub(super) fn bytes(self) -> usize {
        match self.0[2] {
            command if command & EXTENDED == 0 => (command & LEGACY_LENGTH) as usize,
            _ if self.is_context() => 0,
            command => (command & LENGTH) as usize,
        }
    }
}

//! What a transmit descriptor is (82576, 7.2.2), as far as its kind does not matter.

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
    /// It says how frames behind it are made.
    pub(super) fn is_context(self) -> bool {
        self.0[2] & KIND == CONTEXT
    }

    /// It is an advanced data descriptor.
    pub(super) fn is_data(self) -> bool {
        self.0[2] & KIND == DATA
    }

    /// Bytes that it names.
    pub(super) fn bytes(self) -> usize {
        if self.is_context() { 0 } else { (self.0[2] & LENGTH) as usize }
    }
}

//! What lies where in the state area: memory that belongs to the device rather than to one of its drivers,
//! in which a driver notes what the next one must know. Places are numbers of 64-bit words.
//!
//! | words | written by | what |
//! |---|---|---|
//! | 0 to 15 | the driver that set the device up | header and settings, under a checksum |
//! | 32 | the owner of the baton; the support side, once that process is dead | the baton |
//! | 48 | the driver that took the baton | its generation |
//! | 64 to 127 | the driver that hands over, right before the baton | record, under a checksum |
//! | 128 | a driver with no layer above | frames that it has counted |
//! | 512 to 1535 | the driver | receive slots |
//! | 1536 to 2559 | the driver | transmit slots |
//!
//! What is written in which order, and what a successor makes of it, is in docs/replacement.md.
//! `include/warikomi_layout.h` is made from this file, too.

/// First word: "WKSTATE1", little-endian.
pub const MAGIC: u64 = 0x3145_5441_5453_4b57;
/// Version that is written: 2 carries counters over, 1 does not.
pub const VERSION: u64 = 2;
/// The oldest version that can be read.
pub const OLDEST_VERSION: u64 = 1;
/// Words of the area.
pub const WORDS: usize = 4_096;
/// Bytes of the state area.
pub const BYTES: u64 = 0x8000;

/// Header and settings.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 1;
    /// The least version that a reader must know: it may leave newer parts aside.
    pub const READABLE_FROM: usize = 2;
    /// [`BYTES`](super::BYTES).
    pub const BYTES: usize = 3;
    /// Vendor number in bits 16 to 31, device number in bits 0 to 15: for whose rings the slots are.
    pub const DEVICE: usize = 4;
    /// Bus address of the rings.
    pub const RINGS: usize = 5;
    /// Receive slots in use.
    pub const RX_SLOTS: usize = 6;
    /// Transmit slots in use.
    pub const TX_SLOTS: usize = 7;
    /// The device's own address: its first byte in bits 0 to 7.
    pub const MAC_ADDRESS: usize = 8;
    /// The driver that set the device up: up to 8 characters of its name.
    pub const SET_UP_BY: usize = 9;
    /// [`checksum`](super::checksum) of the words before.
    pub const CHECKSUM: usize = 10;
}

/// Whose the device is: a generation in bits 0 to 31, [`how`] in bits 32 to 63. A process waits for a
/// change of the lower half (a futex, on little-endian machines).
pub const BATON: usize = 32;

/// How the baton was come by.
pub mod how {
    /// The predecessor has written its record, and has left the device alone since.
    pub const HANDED_OVER: u64 = 0;
    /// The predecessor is dead, at whatever instruction: its slots are there, its record is not.
    pub const DIED: u64 = 1;
    /// The device is to be reset, and what a predecessor held goes back to the layer above.
    pub const START: u64 = 2;
}

/// The generation that has accepted the baton: written before it stores anything else.
pub const OWNER: usize = 48;

/// What a driver that hands over knows.
pub mod record {
    /// [`checksum`](super::checksum) of the record's other words, the receive slots in use (those of
    /// `RX_GIVEN` up to `RX_POSTED`, in order), and the transmit slots in use.
    pub const CHECKSUM: usize = 64;
    /// The generation that wrote it.
    pub const GENERATION: usize = 65;
    /// Frames given to the layer above, returned buffers included: the count of the next receive slot.
    pub const RX_GIVEN: usize = 66;
    /// Buffers that were put on the ring: the count of the next buffer.
    pub const RX_POSTED: usize = 67;
    /// Index of the descriptor of `RX_GIVEN`.
    pub const RX_INDEX: usize = 68;
    /// Frames given back as sent: the count of the next transmit slot.
    pub const TX_GIVEN: usize = 69;
    /// Frames that were put on the ring: the count of the next frame.
    pub const TX_PUT: usize = 70;
    /// Index of the descriptor of `TX_GIVEN`.
    pub const TX_INDEX: usize = 71;
    /// The version that its writer knows: from 2 on there are counters.
    pub const VERSION: usize = 72;
    /// First of the counters that version 2 carries over; see [`counters`](super::counters).
    pub const COUNTERS: usize = 80;
    /// Behind the last word.
    pub const END: usize = 128;
}

/// Words from [`record::COUNTERS`] on.
pub mod counters {
    /// Frames received.
    pub const RX_PACKETS: usize = 0;
    /// Bytes of the received frames.
    pub const RX_BYTES: usize = 1;
    /// Frames refused for an error.
    pub const RX_ERRORS: usize = 2;
    /// Frames transmitted.
    pub const TX_PACKETS: usize = 3;
    /// Bytes of the transmitted frames.
    pub const TX_BYTES: usize = 4;
    /// Frames that could not be transmitted.
    pub const TX_ERRORS: usize = 5;
    /// Number of these counts.
    pub const COUNT: usize = 6;
}

/// Frames that a driver with no layer above has counted: it stands for the channel's count.
pub const ALONE_GIVEN: usize = 128;

/// First receive slot. Slot *i* is that of descriptor *i*: the count of the buffer in bits 32 to 63
/// (modulo 2^32), [`PRESENT`], and its token in bits 0 to 23. 0 if there never was one.
pub const RX_SLOTS: usize = 512;
/// First transmit slot, of the same form: the count is that of the frame, its place is its last
/// descriptor.
pub const TX_SLOTS: usize = 1_536;
/// Slots that there is room for, each way.
pub const MOST_SLOTS: usize = 1_024;
/// In every slot that holds something.
pub const PRESENT: u64 = 0x8000_0000;
/// Bits of a slot with the buffer's token.
pub const TOKEN_MASK: u64 = 0xff_ffff;

/// What a checksum begins with: the offset basis of FNV-1a.
pub const CHECKSUM_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// What it is multiplied by after each word: the prime of FNV-1a.
pub const CHECKSUM_PRIME: u64 = 0x0100_0000_01b3;

const _: () = assert!(MAGIC == u64::from_le_bytes(*b"WKSTATE1") && BYTES == WORDS as u64 * 8);
const _: () = assert!(TX_SLOTS + MOST_SLOTS <= WORDS && RX_SLOTS + MOST_SLOTS <= TX_SLOTS);

/// FNV-1a, a word of 64 bits at a time: short enough to be written again in C.
pub fn checksum(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(CHECKSUM_BASIS, checksum_with)
}

/// The checksum of words that have the checksum `sum`, and of `word` behind them.
#[inline]
pub fn checksum_with(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(CHECKSUM_PRIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(checksum([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum([0xcbf2_9ce4_8422_2325 ^ 1]), 0x0100_0000_01b3);
    }
}

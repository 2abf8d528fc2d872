/// The shortest Ethernet frame in bytes, without its check sequence (IEEE 802.3, 4A.4.2).
pub const MIN_FRAME_BYTES: usize = 60;

/// Bytes of a frame's check sequence (IEEE 802.3, 3.2.9).
pub const FCS_BYTES: usize = 4;

/// The longest frame in bytes, without its check sequence, that every model takes whose MTU allows it: the length
/// field of an rtl8168's receive descriptor has 14 bits and counts the check sequence.
pub const MAX_FRAME_BYTES: usize = 0x3fff - 4;

/// The longest frame in bytes, without its check sequence, that any model takes: an IP packet of 65,535 bytes.
pub const LONGEST_FRAME_BYTES: usize = 65_535 + HEADER_BYTES;

/// Bytes of an Ethernet header without a tag.
pub const HEADER_BYTES: usize = 14;

/// A frame on its way to a NIC.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// From the destination address to the end of the padding.
    pub bytes: &'a [u8],
    /// The frame check sequence, as a NIC stores it behind the frame (little-endian). Whoever makes
    /// the frame supplies it, because an injector can derive it from the previous frame's at a
    /// fraction of the cost, and a fault can make it wrong.
    pub fcs: u32,
}

impl<'a> Frame<'a> {
    /// A frame with the check sequence that belongs to it.
    pub fn new(bytes: &'a [u8]) -> Self {
        Frame { bytes, fcs: fcs(bytes) }
    }
}

/// The Ethernet frame check sequence (IEEE 802.3, 3.2.9).
pub fn fcs(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

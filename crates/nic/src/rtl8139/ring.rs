//! What the descriptor rings of the C+ mode share: sizes, ownership, and where a descriptor stands.

// First word of a descriptor (Linux 6.1 8139cp.c, "Tx and Rx status descriptors").
pub(super) const OWN: u32 = 1 << 31;
pub(super) const RING_END: u32 = 1 << 30;
pub(super) const FIRST: u32 = 1 << 29;
pub(super) const LAST: u32 = 1 << 28;

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: u64 = 16;
/// Descriptors that a ring has at most (8139cp.c, CP_RX_RING_SIZE and CP_TX_RING_SIZE); one without an end mark wraps
/// here.
pub(super) const RING_LIMIT: u16 = 64;
/// Rings start at multiples of this.
pub(super) const RING_ALIGNMENT: u64 = 256;

/// The address of descriptor `index` of the ring at `base`.
#[inline]
pub(super) fn descriptor(base: u64, index: u16) -> u64 {
    base.wrapping_add(DESCRIPTOR * u64::from(index))
}

/// The descriptor after `index`, whose first word is `opts1`.
#[inline]
pub(super) fn following(index: u16, opts1: u32) -> u16 {
    if opts1 & RING_END != 0 || index + 1 >= RING_LIMIT { 0 } else { index + 1 }
}

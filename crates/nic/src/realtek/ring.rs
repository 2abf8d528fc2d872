//! What the descriptor rings have in common: ownership, marks, and where a descriptor stands.

// First word of a descriptor (RTL8169 Rev. 1.21, pages 51 to 57; Linux 6.1 8139cp.c, "Tx and Rx status descriptors").
pub(crate) const OWN: u32 = 1 << 31;
pub(crate) const RING_END: u32 = 1 << 30;
pub(crate) const FIRST: u32 = 1 << 29;
pub(crate) const LAST: u32 = 1 << 28;

/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
/// Rings start at multiples of this.
pub(crate) const RING_ALIGNMENT: u64 = 256;

/// The address of descriptor `index` of the ring at `base`.
#[inline]
pub(crate) fn descriptor(base: u64, index: u16) -> u64 {
    base.wrapping_add(DESCRIPTOR * u64::from(index))
}

/// The descriptor after `index`, whose first word is `opts1`, on a ring of `limit` at most.
#[inline]
pub(crate) fn following(index: u16, opts1: u32, limit: u16) -> u16 {
    if opts1 & RING_END != 0 || index + 1 >= limit { 0 } else { index + 1 }
}

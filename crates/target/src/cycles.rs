//! Accesses of any length as the cycles of a bus.

use warikomi_pci::Width;

/// Splits an access into bus cycles. One of 1, 2, 4 or 8 bytes is one cycle, as the driver meant
/// it; anything else goes in the largest naturally aligned pieces, as a bridge would split it.
pub(crate) fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, Width)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = len - at;
        let width = match Width::from_bytes(left) {
            Some(whole) if at == 0 => whole,
            _ => [Width::B8, Width::B4, Width::B2, Width::B1].into_iter().find(|width| {
                width.bytes() <= left
                    && offset.wrapping_add(at as u64).is_multiple_of(width.bytes() as u64)
            })?,
        };
        if left == 0 {
            return None;
        }
        at += width.bytes();
        Some((at - width.bytes(), width))
    })
}

/// The number that these bytes are, eight at most.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

//! Accesses by whole registers of four bytes (82574, 10.1.1; 82576, 8.1.1).

use warikomi_pci::Width;

/// What an access of this width reads, of registers that `word` reads.
#[inline]
pub(crate) fn read(offset: u64, width: Width, mut word: impl FnMut(u64) -> u32) -> u64 {
    let begin = offset & !3;
    let low = word(begin);
    let high = match width {
        Width::B8 => word(begin.wrapping_add(4)),
        _ => 0,
    };
    (u64::from(high) << 32 | u64::from(low)) >> (8 * (offset & 3))
}

/// Hands what is written to `word`, a register at a time. A register is written whole or not at all.
#[inline]
pub(crate) fn write(offset: u64, width: Width, value: u64, mut word: impl FnMut(u64, u32)) {
    if offset & 3 != 0 || width.bytes() < 4 {
        return;
    }
    word(offset, value as u32);
    if width == Width::B8 {
        word(offset.wrapping_add(4), (value >> 32) as u32);
    }
}

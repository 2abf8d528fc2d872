//! Registers that lie one behind the other in a window, and what they hold where that is no more than what was
//! written to them.
//!
//! Chips that go by byte enables take an access of any width at any place: it touches some bytes of one register
//! or of several, each once.

use warikomi_pci::Width;

use super::Register;

/// A table of registers without gap or overlap from offset 0 of a BAR on, and which of them each byte belongs to.
#[derive(Debug)]
pub(crate) struct Window<const BYTES: usize> {
    rows: &'static [Register],
    row_of: [u8; BYTES],
}

/// What a write does to one register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenPart {
    pub(crate) row: &'static Register,
    /// The written bits, in their places in the register.
    pub(crate) value: u64,
    /// Ones where the write has bits.
    pub(crate) mask: u64,
}

impl<const BYTES: usize> Window<BYTES> {
    /// The window with these registers, at most 256.
    pub(crate) const fn new(rows: &'static [Register]) -> Self {
        let mut row_of = [0; BYTES];
        let mut index = 0;
        while index < rows.len() {
            let mut byte = 0;
            while byte < rows[index].width {
                row_of[(rows[index].offset + byte) as usize] = index as u8;
                byte += 1;
            }
            index += 1;
        }
        Window { rows, row_of }
    }

    /// The register that the byte at `offset`, below `BYTES`, belongs to.
    #[inline]
    pub(crate) fn row_at(&self, offset: usize) -> &'static Register {
        &self.rows[usize::from(self.row_of[offset])]
    }

    /// The registers that an access of `width` bytes at `offset` touches, each once, with the position of
    /// its first byte relative to the access (negative if the access starts behind it).
    #[inline]
    pub(crate) fn touched(
        &self,
        offset: u64,
        width: Width,
    ) -> impl Iterator<Item = (&'static Register, i32)> + use<'_, BYTES> {
        let end = offset.saturating_add(width.bytes() as u64).min(BYTES as u64);
        let mut at = offset.min(end);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let row = self.row_at(at as usize);
                at = u64::from(row.offset + row.width);
                (row, i32::from(row.offset) - offset as i32)
            })
        })
    }

    /// What a write of `width` bytes at `offset` does to each register that it touches.
    #[inline]
    pub(crate) fn written(
        &self,
        offset: u64,
        width: Width,
        value: u64,
    ) -> impl Iterator<Item = WrittenPart> + use<'_, BYTES> {
        self.touched(offset, width).map(move |(row, position)| {
            // Bring the access's bytes to where they belong in the register.
            let shifted = |bits: u64| {
                let shift = 8 * position.unsigned_abs();
                if position >= 0 { bits >> shift } else { bits << shift }
            };
            let whole = u64::MAX >> (64 - 8 * u32::from(row.width));
            let mask = shifted(width.mask()) & whole;
            WrittenPart { row, value: shifted(value) & mask, mask }
        })
    }
}

/// What the registers of a window hold.
#[derive(Debug)]
pub(crate) struct RegisterFile<const BYTES: usize> {
    pub(crate) window: &'static Window<BYTES>,
    bytes: [u8; BYTES],
}

impl<const BYTES: usize> RegisterFile<BYTES> {
    /// Every register as at power-on.
    pub(crate) fn new(window: &'static Window<BYTES>) -> Self {
        let mut file = RegisterFile { window, bytes: [0; BYTES] };
        window.rows.iter().for_each(|row| file.reset_row(row));
        file
    }

    fn reset_row(&mut self, row: &Register) {
        let (at, width) = (usize::from(row.offset), usize::from(row.width));
        self.bytes[at..at + width].copy_from_slice(&row.reset.to_le_bytes()[..width]);
    }

    /// The register that starts at `offset` as at power-on.
    pub(crate) fn reset(&mut self, offset: u16) {
        self.reset_row(self.window.row_at(offset.into()));
    }

    /// `width` bytes, at most 8, from `offset` on; bytes beyond the last register are 0.
    #[inline]
    pub(crate) fn get(&self, offset: usize, width: usize) -> u64 {
        let mut value = [0; 8];
        for (i, byte) in value[..width].iter_mut().enumerate() {
            *byte = self.bytes.get(offset + i).copied().unwrap_or(0);
        }
        u64::from_le_bytes(value)
    }

    /// What a register holds when a part of it is written.
    #[inline]
    pub(crate) fn merged(&self, part: &WrittenPart) -> u64 {
        let held = self.get(part.row.offset.into(), part.row.width.into());
        held & !part.mask | part.value
    }

    #[inline]
    pub(crate) fn u8(&self, offset: u16) -> u8 {
        self.bytes[usize::from(offset)]
    }

    #[inline]
    pub(crate) fn u16(&self, offset: u16) -> u16 {
        self.get(usize::from(offset), 2) as u16
    }

    #[inline]
    pub(crate) fn u32(&self, offset: u16) -> u32 {
        self.get(usize::from(offset), 4) as u32
    }

    /// Two registers of 32 bits as one number.
    pub(crate) fn pair(&self, low: u16, high: u16) -> u64 {
        u64::from(self.u32(high)) << 32 | u64::from(self.u32(low))
    }

    pub(crate) fn bytes<const N: usize>(&self, offset: u16) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[usize::from(offset) + i])
    }

    /// Sets the register that starts at `offset`, in its own width.
    #[inline]
    pub(crate) fn set(&mut self, offset: u16, value: u64) {
        let at = usize::from(offset);
        let width = usize::from(self.window.row_at(at).width);
        self.bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register::Access;

    const fn row(name: &'static str, offset: u16, width: u16, reset: u64) -> Register {
        let row = Register::new(name, (0, offset), width, Access::ReadWrite, "these tests");
        Register { reset, ..row }
    }

    const ROWS: &[Register] =
        &[row("A", 0, 4, 0x4433_2211), row("B", 4, 1, 0x55), row("C", 5, 3, 0x88_7766)];
    static WINDOW: Window<8> = Window::new(ROWS);

    #[test]
    fn the_file_starts_with_the_tables_values() {
        let file = RegisterFile::new(&WINDOW);
        for row in ROWS {
            assert_eq!(file.get(row.offset.into(), row.width.into()), row.reset, "{}", row.name);
        }
        assert_eq!(file.bytes(3), [0x44, 0x55, 0x66]);
    }

    #[test]
    fn a_read_beyond_the_last_register_gives_zeros() {
        let file = RegisterFile::new(&WINDOW);
        assert_eq!(file.get(6, 8), 0x8877);
        assert_eq!(file.get(0x1000, 8), 0);
    }

    #[test]
    fn a_write_across_registers_has_a_part_for_each() {
        let mut file = RegisterFile::new(&WINDOW);
        let parts: Vec<_> = WINDOW.written(2, Width::B4, 0xddcc_bbaa).collect();
        let seen: Vec<_> =
            parts.iter().map(|part| (part.row.name, part.value, part.mask)).collect();
        let expected = [("A", 0xbbaa_0000, 0xffff_0000), ("B", 0xcc, 0xff), ("C", 0xdd, 0xff)];
        assert_eq!(seen, expected);
        for part in &parts {
            file.set(part.row.offset, file.merged(part));
        }
        assert_eq!(file.get(0, 8), 0x8877_ddcc_bbaa_2211);
        assert_eq!(WINDOW.written(6, Width::B8, u64::MAX).count(), 1);
        assert_eq!(WINDOW.touched(8, Width::B1).count(), 0);
    }
}

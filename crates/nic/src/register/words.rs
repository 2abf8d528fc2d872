//! Registers of four bytes each, in a large window, and what they hold where that is no more than what was written
//! to them.
//!
//! Chips that take their registers whole answer an access by the word that it begins in; see
//! [`Window`](super::Window) for those that go by byte enables.

use super::Register;

/// Marks a word without a register.
const NONE: u16 = u16::MAX;

/// A table of registers of four bytes from offset 0 of a BAR on, and which of them each word is.
#[derive(Debug)]
pub(crate) struct WordTable<const WORDS: usize> {
    rows: &'static [Register],
    row_of: [u16; WORDS],
}

impl<const WORDS: usize> WordTable<WORDS> {
    /// The registers of this BAR among `rows`.
    pub(crate) const fn new(rows: &'static [Register], bar: u8) -> Self {
        let mut row_of = [NONE; WORDS];
        let mut index = 0;
        while index < rows.len() {
            if rows[index].bar == bar && rows[index].width == 4 {
                row_of[rows[index].offset as usize / 4] = index as u16;
            }
            index += 1;
        }
        WordTable { rows, row_of }
    }

    /// The register in the word at `offset`; `None` where there is none.
    #[inline]
    pub(crate) fn row_at(&self, offset: u64) -> Option<&'static Register> {
        let index = *self.row_of.get(usize::try_from(offset / 4).ok()?)?;
        self.rows.get(usize::from(index))
    }
}

/// What the registers of such a table hold.
#[derive(Debug)]
pub(crate) struct WordFile<const WORDS: usize> {
    pub(crate) table: &'static WordTable<WORDS>,
    words: Box<[u32]>,
}

impl<const WORDS: usize> WordFile<WORDS> {
    /// Every register as at power-on.
    pub(crate) fn new(table: &'static WordTable<WORDS>) -> Self {
        let mut file = WordFile { table, words: vec![0; WORDS].into() };
        for row in table.row_of.iter().filter_map(|index| table.rows.get(usize::from(*index))) {
            file.set(row.offset, row.reset as u32);
        }
        file
    }

    /// What the register at `offset` holds; 0 where there is none.
    #[inline]
    pub(crate) fn get(&self, offset: u16) -> u32 {
        self.words.get(usize::from(offset) / 4).copied().unwrap_or(0)
    }

    /// Sets it.
    #[inline]
    pub(crate) fn set(&mut self, offset: u16, value: u32) {
        if let Some(word) = self.words.get_mut(usize::from(offset) / 4) {
            *word = value;
        }
    }

    /// Sets some bits, and clears others.
    pub(crate) fn change(&mut self, offset: u16, clear: u32, set: u32) {
        self.set(offset, self.get(offset) & !clear | set);
    }

    /// Two registers as one number, the lower one first.
    #[inline]
    pub(crate) fn pair(&self, low: u16) -> u64 {
        u64::from(self.get(low + 4)) << 32 | u64::from(self.get(low))
    }

    /// Sets two registers, the lower one first.
    pub(crate) fn set_pair(&mut self, low: u16, value: u64) {
        self.set(low, value as u32);
        self.set(low + 4, (value >> 32) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Span, lay_out, row_count};
    use super::*;

    const fn span(offset: u16, reset: u64) -> Span {
        let row = Register::new("A", (0, offset), 4, Access::ReadWrite, "these tests");
        Span { first: Register { reset, ..row }, count: 1 }
    }

    const SPANS: &[Span] = &[span(0, 0x11), span(16, 0x22), span(20, 0x33)];
    static ROWS: [Register; row_count(SPANS)] = lay_out(SPANS, "these tests");
    static TABLE: WordTable<6> = WordTable::new(&ROWS, 0);

    #[test]
    fn the_file_starts_with_the_tables_values_and_knows_its_words() {
        let mut file = WordFile::new(&TABLE);
        assert_eq!([0, 4, 16, 20, 24].map(|at| file.get(at)), [0x11, 0, 0x22, 0x33, 0]);
        assert_eq!(file.pair(16), 0x33_0000_0022);
        file.set_pair(16, 5 << 32 | 4);
        file.change(16, 4, 0x80);
        assert_eq!(file.pair(16), 5 << 32 | 0x80);
        file.set(0x1000, 1);
        let offsets = [0, 4, 16, 23, 24, u64::MAX].map(|at| TABLE.row_at(at).map(|row| row.offset));
        assert_eq!(offsets, [Some(0), None, Some(16), Some(20), None, None]);
    }
}

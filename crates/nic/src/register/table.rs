//! Tables of large windows, in which registers stand far apart and in rows of like ones.
//!
//! Such a table is written as [`Span`]s; what lies between them is filled in as places without a register, so that
//! the whole table has neither gap nor overlap. That is done at compile time, where an overlap does not compile.

use super::{Access, Register};

/// A register, or as many like it as `count` says, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) first: Register,
    pub(crate) count: u16,
}

impl Span {
    const fn end(&self) -> u16 {
        self.first.offset + self.first.width * self.count
    }
}

/// Where the spans before number `index` end, in its BAR.
const fn begin(spans: &[Span], index: usize) -> u16 {
    if index == 0 || spans[index - 1].first.bar != spans[index].first.bar {
        return 0;
    }
    spans[index - 1].end()
}

/// Rows of the table that these spans make.
pub(crate) const fn row_count(spans: &[Span]) -> usize {
    let (mut rows, mut index) = (0, 0);
    while index < spans.len() {
        let gap = spans[index].first.offset - begin(spans, index);
        rows += spans[index].count as usize + if gap > 0 { 1 } else { 0 };
        index += 1;
    }
    rows
}

/// The table that these spans make.
pub(crate) const fn lay_out<const N: usize>(spans: &[Span], source: &'static str) -> [Register; N] {
    let mut table = [Register::new("reserved", (0, 0), 4, Access::ReadOnly, source); N];
    let (mut row, mut index) = (0, 0);
    while index < spans.len() {
        let Span { first, count } = spans[index];
        let from = begin(spans, index);
        if first.offset > from {
            let (at, width) = ((first.bar, from), first.offset - from);
            table[row] = Register::new("reserved", at, width, Access::ReadOnly, source);
            row += 1;
        }
        let mut nth = 0;
        while nth < count {
            let offset = first.offset + first.width * nth;
            table[row] = Register { offset, ..first };
            (row, nth) = (row + 1, nth + 1);
        }
        index += 1;
    }
    table
}

/// How many spans these parts have together.
pub(crate) const fn joined_count(parts: &[&[Span]]) -> usize {
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// The spans of these parts, one behind the other.
pub(crate) const fn join<const N: usize>(parts: &[&[Span]]) -> [Span; N] {
    let mut all = [parts[0][0]; N];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[at] = parts[part][index];
            (at, index) = (at + 1, index + 1);
        }
        part += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn span(offset: u16, count: u16) -> Span {
        let first = Register::new("A", (0, offset), 4, Access::ReadWrite, "these tests");
        Span { first, count }
    }

    const SPANS: &[Span] = &[span(0, 1), span(8, 3), span(0x40, 1)];
    static TABLE: [Register; row_count(SPANS)] = lay_out(SPANS, "these tests");

    #[test]
    fn gaps_are_filled_and_rows_are_counted_out() {
        let rows: Vec<_> = TABLE.iter().map(|row| (row.name, row.offset, row.width)).collect();
        let expected = [
            ("A", 0, 4),
            ("reserved", 4, 4),
            ("A", 8, 4),
            ("A", 12, 4),
            ("A", 16, 4),
            ("reserved", 20, 44),
            ("A", 64, 4),
        ];
        assert_eq!(rows, expected);
        assert!(TABLE[5].is_empty() && !TABLE[1].is_empty());
    }
}

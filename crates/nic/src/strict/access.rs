//! Accesses against the table of registers.
//!
//! An access begins at a multiple of its width and takes in one whole register. A register of 8 bytes may be
//! accessed by halves, as buses of 32 bits do. Where the table says so, an access may take in several whole
//! registers at once ([`Register::joined`]), and a read a part of one ([`Register::bytes`]). A reserved bit may be written as 0, or as it is.

use warikomi_pci::Width;

use super::{FindingKind, Place};
use crate::NicContext;
use crate::register::{Access, Register, Role};

/// What says that nothing answers outside of a BAR.
const BARS: &str = "PCI 3.0, 6.2.2 and 6.2.5.1";

/// An access: BAR, offset and width.
pub(crate) type At = (u8, u64, Width);

/// The registers of which an access takes in at least a byte.
fn rows((bar, offset, width): At, table: &'static [Register]) -> &'static [Register] {
    let end = offset.saturating_add(width.bytes() as u64);
    let ends = |row: &Register| u64::from(row.offset + row.width);
    let first = table.partition_point(|row| (row.bar, ends(row)) <= (bar, offset));
    let behind = table.partition_point(|row| (row.bar, u64::from(row.offset)) < (bar, end));
    &table[first.min(behind)..behind]
}

/// The bits of an access's value that belong to a register, in their places there.
fn part_of(row: &Register, (_, offset, width): At, value: u64) -> u64 {
    let value = value & width.mask();
    let row_bit = 8 * (i64::from(row.offset) - offset as i64);
    let shift = row_bit.unsigned_abs() as u32;
    // A row without registers can be longer than an access, and begin far from it.
    let moved = if row_bit >= 0 { value.checked_shr(shift) } else { value.checked_shl(shift) };
    moved.unwrap_or(0) & (u64::MAX >> (64 - 8 * u32::from(row.width.min(8))))
}

fn text(what: &str, (_, offset, width): At) -> String {
    format!("{width} {what} at {offset:#x}")
}

/// Notes what is wrong with the width and the place of an access; the registers that it takes in.
fn check_shape(
    cx: &mut NicContext<'_>,
    table: &'static [Register],
    at: At,
    what: &str,
    by_bytes: bool,
) -> &'static [Register] {
    let (bar, offset, width) = at;
    let rows = rows(at, table);
    let ([first, ..], [.., last]) = (rows, rows) else {
        // Of a BAR that is not in the table nothing is known.
        if !table.iter().any(|row| row.bar == bar) {
            return rows;
        }
        let which = (FindingKind::NoRegister, Place::Bar(bar));
        cx.note(which, "the model's table of registers", || text(what, at));
        return rows;
    };
    if rows.iter().any(Register::is_empty) {
        let which = (FindingKind::NoRegister, Place::Bar(bar));
        cx.note(which, first.source, || text(what, at));
        return rows;
    }
    let which = (FindingKind::Width, Place::from(first));
    let bytes = width.bytes() as u64;
    let half = rows.len() == 1 && first.width == 8 && width == Width::B4;
    let part = half || by_bytes && first.bytes && last.bytes;
    let ends_within = u64::from(last.offset + last.width) > offset + bytes;
    if !offset.is_multiple_of(bytes) {
        cx.note(which, first.source, || format!("{}, which is no multiple of it", text(what, at)));
    } else if !part && (u64::from(first.offset) < offset || ends_within) {
        let of = if ends_within { last } else { first };
        let place = (FindingKind::Width, Place::from(of));
        cx.note(place, of.source, || {
            format!("{}, a part of {}, which has {} bytes", text(what, at), of.name, of.width)
        });
    } else if rows.len() > 1 && !rows.iter().all(|row| row.joined) {
        cx.note(which, first.source, || {
            format!("{}, of {} and {} at once", text(what, at), first.name, last.name)
        });
    }
    rows
}

/// Notes what is wrong with a read that gave `value`, and which causes of interrupts the driver knows by it.
pub(crate) fn check_read(cx: &mut NicContext<'_>, table: &'static [Register], at: At, value: u64) {
    for row in check_shape(cx, table, at, "read", true) {
        if let (Role::Status(vector), Some(strict)) = (row.role, cx.strict()) {
            strict.status_read(vector, part_of(row, at, value) as u32);
        }
        if row.access == Access::WriteOnly {
            let which = (FindingKind::Direction, row.into());
            cx.note(which, row.source, || format!("{} of a register to write", text("read", at)));
        }
    }
}

/// Notes what is wrong with a write. `read` reads a register without any effect.
pub(crate) fn check_write(
    cx: &mut NicContext<'_>,
    table: &'static [Register],
    at: At,
    value: u64,
    mut read: impl FnMut(&mut NicContext<'_>, &Register) -> u64,
) {
    for row in check_shape(cx, table, at, "write", false) {
        if row.access == Access::ReadOnly && !row.is_empty() {
            let which = (FindingKind::Direction, row.into());
            cx.note(which, row.source, || {
                format!("{} of {value:#x} to a register to read", text("write", at))
            });
            continue;
        }
        let set = part_of(row, at, value) & row.reserved;
        // A read must have no effect, and give what a write has left.
        let stands = if set != 0 && row.access.is_looked_at() { read(cx, row) } else { 0 };
        if set & !stands != 0 {
            let which = (FindingKind::ReservedBits, row.into());
            let bits = set & !stands;
            cx.note(which, row.source, || {
                format!("{} of {value:#x}: bits {bits:#x} are reserved", text("write", at))
            });
        }
    }
}

/// Notes an access that nothing answers.
pub(crate) fn nothing_there(cx: &mut NicContext<'_>, at: At, decoding: bool) {
    let why = if decoding { "outside of the BAR" } else { "while decoding is off" };
    let which = (FindingKind::NoRegister, Place::Bar(at.0));
    cx.note(which, BARS, || format!("{}, {why}", text("access", at)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor_fifo::OC48;

    fn names(offset: u64, width: Width) -> Vec<&'static str> {
        rows((0, offset, width), OC48.info.registers).iter().map(|row| row.name).collect()
    }

    #[test]
    fn far_into_a_row_that_is_longer_than_an_access_nothing_belongs_to_its_first_bytes() {
        let mut rows = crate::e1000e::INFO.registers.iter();
        let row = rows.find(|row| row.is_empty() && row.width >= 80).expect("a long gap");
        let within = |bytes: u64| (row.bar, u64::from(row.offset) + bytes, Width::B4);
        assert_eq!(part_of(row, within(0), 0xffff_ffff), 0xffff_ffff);
        assert_eq!(part_of(row, within(4), 0xffff_ffff), 0xffff_ffff << 32);
        for bytes in [8, 12, 64, 72] {
            assert_eq!(part_of(row, within(bytes), 0xffff_ffff), 0, "{bytes} bytes in");
        }
    }

    #[test]
    fn an_access_takes_in_every_register_of_which_it_has_a_byte() {
        assert_eq!(names(0x10, Width::B4), ["INTR_STATUS"]);
        assert_eq!(names(0x10, Width::B8), ["INTR_STATUS", "INTR_MASK"]);
        assert_eq!(names(0x13, Width::B2), ["INTR_STATUS", "INTR_MASK"]);
        assert_eq!(names(0x34, Width::B4), ["TX_ADDRESS"]);
        assert_eq!(names(0x6c, Width::B8), ["RX_RING"]);
        assert!(names(0x70, Width::B8).is_empty() && names(u64::MAX, Width::B8).is_empty());
        assert!(rows((1, 0, Width::B8), OC48.info.registers).is_empty());
    }

    #[test]
    fn a_register_has_its_own_bits_of_a_value() {
        let row = |name| OC48.info.registers.iter().find(|row| row.name == name).unwrap();
        let value = 0x1122_3344_5566_7788;
        assert_eq!(part_of(row("INTR_STATUS"), (0, 0x10, Width::B8), value), 0x5566_7788);
        assert_eq!(part_of(row("INTR_MASK"), (0, 0x10, Width::B8), value), 0x1122_3344);
        assert_eq!(part_of(row("TX_ADDRESS"), (0, 0x34, Width::B4), value), 0x5566_7788 << 32);
        assert_eq!(part_of(row("INTR_MASK"), (0, 0x16, Width::B2), value), 0x7788 << 16);
    }
}

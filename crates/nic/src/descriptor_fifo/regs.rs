//! The registers, row by row, as the data sheet (docs/descriptor-fifo.md) has them.

use warikomi_pci::{Vector, Width};

use crate::register::{Access, Register, Role};

/// The card has one.
pub(super) const VECTOR: Vector = Vector(0);

/// The BAR with the registers.
pub(super) const BAR: u8 = 0;

pub(super) const ID: u16 = 0x00;
pub(super) const CONTROL: u16 = 0x04;
pub(super) const LINK: u16 = 0x08;
pub(super) const LINE_MBPS: u16 = 0x0c;
pub(super) const INTR_STATUS: u16 = 0x10;
pub(super) const INTR_MASK: u16 = 0x14;
pub(super) const MTU: u16 = 0x18;
pub(super) const MAC: u16 = 0x20;
pub(super) const TX_ADDRESS: u16 = 0x30;
pub(super) const TX_PUSH: u16 = 0x38;
pub(super) const TX_SIZE: u16 = 0x3c;
pub(super) const TX_REMAINING: u16 = 0x40;
pub(super) const TX_SEGMENT: u16 = 0x44;
pub(super) const RX_ADDRESS: u16 = 0x50;
pub(super) const RX_PUSH: u16 = 0x58;
pub(super) const RX_SIZE: u16 = 0x5c;
pub(super) const RX_REMAINING: u16 = 0x60;
pub(super) const RX_RING: u16 = 0x68;

/// The station's address 02:57:4b:00:00:01, first byte lowest.
pub(super) const STATION: u64 = 0x0100_004b_5702;
/// The same, as it stands in frames.
pub(super) fn station() -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = STATION.to_le_bytes();
    [a, b, c, d, e, f]
}

/// Descriptors, and buffers, that a FIFO holds.
pub(super) const FIFO: usize = 256;

// CONTROL.
pub(super) const RESET: u32 = 1 << 0;
pub(super) const TX_ENABLE: u32 = 1 << 1;
pub(super) const RX_ENABLE: u32 = 1 << 2;

// INTR_STATUS and INTR_MASK.
pub(super) const TX_DONE: u32 = 1 << 0;
pub(super) const RX_DONE: u32 = 1 << 1;
pub(super) const RX_MISSED: u32 = 1 << 2;
pub(super) const LINK_CHANGED: u32 = 1 << 3;
pub(super) const SYS_ERROR: u32 = 1 << 4;
pub(super) const TX_OVERRUN: u32 = 1 << 5;
/// Every interrupt that exists; the other bits read as 0.
pub(super) const INTR_ALL: u32 =
    TX_DONE | RX_DONE | RX_MISSED | LINK_CHANGED | SYS_ERROR | TX_OVERRUN;

// TX_PUSH, RX_PUSH and the completion ring.
pub(super) const LENGTH: u32 = 0x000f_ffff;
pub(super) const FIRST: u32 = 1 << 31;
pub(super) const LAST: u32 = 1 << 30;

// TX_SEGMENT.
/// Bytes of payload of a segment; 0 for a packet that is not cut.
pub(super) const SEGMENT_BYTES: u32 = 0xffff;
/// Where the TCP header begins in the packet.
pub(super) const SEGMENT_HEADER_SHIFT: u32 = 16;
pub(super) const SEGMENT_HEADER: u32 = 0xff << SEGMENT_HEADER_SHIFT;

/// Alignment of the completion ring.
pub(super) const RING_ALIGNMENT: u64 = 4_096;

use Access::{ReadOnly as RO, ReadWrite as RW, Write1Clear as W1C, WriteOnly as WO};

const fn row(name: &'static str, offset: u16, width: u16, access: Access, reset: u64) -> Register {
    let source = "docs/descriptor-fifo.md, section 2";
    Register { reset, ..Register::new(name, (BAR, offset), width, access, source) }
}

const fn reserved(offset: u16, width: u16) -> Register {
    row("reserved", offset, width, RO, 0)
}

/// The rows of a card's table.
pub(super) type Registers = [Register; ROWS];

const ROWS: usize = 22;

/// Every byte up to the last register, once, of a card with this ID, line rate and MTU, which cuts segments or does
/// not.
pub(super) const fn registers(id: [u8; 4], line_bps: u64, mtu: u32, segments: bool) -> Registers {
    let id = u32::from_le_bytes(id) as u64;
    let tx_segment = match segments {
        true => row("TX_SEGMENT", TX_SEGMENT, 4, WO, 0)
            .with_reserved(!(SEGMENT_BYTES | SEGMENT_HEADER) as u64),
        false => reserved(TX_SEGMENT, 4),
    };
    [
        row("ID", ID, 4, RO, id),
        row("CONTROL", CONTROL, 4, RW, 0).with_reserved(!7 & 0xffff_ffff),
        row("LINK", LINK, 4, RO, 1),
        row("LINE_MBPS", LINE_MBPS, 4, RO, line_bps / 1_000_000),
        row("INTR_STATUS", INTR_STATUS, 4, W1C, 0).with_role(Role::Status(VECTOR)),
        row("INTR_MASK", INTR_MASK, 4, RW, 0)
            .with_reserved(!INTR_ALL as u64)
            .with_role(Role::Mask(VECTOR)),
        row("MTU", MTU, 4, RO, mtu as u64),
        reserved(0x1c, 4),
        row("MAC", MAC, 8, RO, STATION),
        reserved(0x28, 8),
        row("TX_ADDRESS", TX_ADDRESS, 8, WO, 0),
        row("TX_PUSH", TX_PUSH, 4, WO, 0)
            .with_reserved(!(FIRST | LAST | LENGTH) as u64)
            .with_role(Role::Doorbell(0)),
        row("TX_SIZE", TX_SIZE, 4, RO, FIFO as u64),
        row("TX_REMAINING", TX_REMAINING, 4, RO, 0),
        tx_segment,
        reserved(0x48, 8),
        row("RX_ADDRESS", RX_ADDRESS, 8, WO, 0),
        row("RX_PUSH", RX_PUSH, 4, WO, 0).with_reserved(!LENGTH as u64),
        row("RX_SIZE", RX_SIZE, 4, RO, FIFO as u64),
        row("RX_REMAINING", RX_REMAINING, 4, RO, 0),
        reserved(0x64, 4),
        row("RX_RING", RX_RING, 8, RW, 0).with_reserved(RING_ALIGNMENT - 1),
    ]
}

/// Words of 4 bytes that the registers take up.
const WORDS: usize = 0x70 / 4;

/// Offset and width of the register that each word belongs to, which are every card's.
const PLACES: [(u16, u16); WORDS] = {
    let rows = registers([0; 4], 0, 0, false);
    let mut places = [(0, 0); WORDS];
    let mut index = 0;
    while index < ROWS {
        let (offset, width) = (rows[index].offset, rows[index].width);
        let mut byte = 0;
        while byte < width {
            places[(offset + byte) as usize / 4] = (offset, width);
            byte += 4;
        }
        index += 1;
    }
    places
};

/// What an access touches: a register, or one half of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The register's offset.
    pub(super) offset: u16,
    /// Where its bits begin that are meant, and which these are.
    shift: u32,
    mask: u64,
}

impl Part {
    /// `None` for an access of a width that the register does not have, or where there is none.
    #[inline]
    pub(super) fn at(offset: u64, width: Width) -> Option<Part> {
        let word = usize::try_from(offset / 4).ok()?;
        let &(register, register_bytes) = PLACES.get(word)?;
        let within = offset - u64::from(register);
        let whole = within == 0 && width.bytes() == usize::from(register_bytes);
        let half = within.is_multiple_of(4) && width == Width::B4;
        let shift = 8 * within as u32;
        (whole || half).then_some(Part { offset: register, shift, mask: width.mask() })
    }

    /// These bits of the register's value.
    #[inline]
    pub(super) fn of(self, value: u64) -> u64 {
        value >> self.shift & self.mask
    }

    /// The register's value with these bits anew.
    #[inline]
    pub(super) fn merged(self, old: u64, written: u64) -> u64 {
        old & !(self.mask << self.shift) | (written & self.mask) << self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_of_another_width_or_elsewhere_touches_nothing() {
        let rows = registers(*b"NONE", 0, 0, true);
        for offset in 0..0x100 {
            let row = rows.iter().find(|row| u64::from(row.offset) == offset);
            for width in [Width::B1, Width::B2, Width::B4, Width::B8] {
                let half = width == Width::B4 && offset % 4 == 0 && offset < 0x70;
                let whole = row.is_some_and(|row| usize::from(row.width) == width.bytes());
                assert_eq!(Part::at(offset, width).is_some(), half || whole, "{offset:#x} {width}");
            }
        }
        assert!(Part::at(u64::MAX, Width::B8).is_none());
    }

    #[test]
    fn halves_make_a_whole() {
        let [low, high] =
            [0, 4].map(|half| Part::at(u64::from(TX_ADDRESS) + half, Width::B4).unwrap());
        let value = high.merged(low.merged(u64::MAX, 0x1111_2222), 0x3333_4444);
        assert_eq!(value, 0x3333_4444_1111_2222);
        assert_eq!((low.of(value), high.of(value)), (0x1111_2222, 0x3333_4444));
    }
}

//! The registers of the queues (82576, 8.10 and 8.12): a block for each.

use crate::intel::regs::{holding, row, with_role};
use crate::register::{Access, Role, Span};

/// Queues of each direction.
pub(super) const QUEUES: u16 = 16;

/// Where the blocks of receive and transmit queues begin, and how long one is.
pub(super) const RX: u16 = 0xc000;
pub(super) const TX: u16 = 0xe000;
pub(super) const BLOCK: u16 = 0x40;
/// The second places of those of the first queues, and how far these are from each other.
const LOW_QUEUES: u16 = 4;
const RX_SECOND: u16 = 0x2800;
const TX_SECOND: u16 = 0x3800;
const LOW_STRIDE: u16 = 0x100;

/// What a block has, by the offset in it: of either direction, but for the last of each.
pub(super) mod at {
    pub(in super::super) const BASE: u16 = 0x00;
    pub(in super::super) const BASE_HIGH: u16 = 0x04;
    pub(in super::super) const LENGTH: u16 = 0x08;
    /// SRRCTL, of a receive queue.
    pub(in super::super) const SPLIT: u16 = 0x0c;
    pub(in super::super) const HEAD: u16 = 0x10;
    pub(in super::super) const CACHE: u16 = 0x14;
    pub(in super::super) const TAIL: u16 = 0x18;
    pub(in super::super) const CONTROL: u16 = 0x28;
    /// RQDPC, of a receive queue.
    pub(in super::super) const DROPPED: u16 = 0x30;
    /// TDWBAL and TDWBAH, of a transmit queue.
    pub(in super::super) const WRITE_BACK: u16 = 0x38;
}

/// RXDCTL and TXDCTL: the queue is on.
pub(super) const ENABLED: u32 = 1 << 25;
/// SRRCTL at power-on: legacy descriptors, 256 bytes of header, buffers as RCTL says.
pub(super) const SPLIT_INITIAL: u32 = 0x400;

const RX_REGISTERS: usize = 9;
const TX_REGISTERS: usize = 9;

const RECEIVE: &str = "82576 (321027), section 8.10, receive registers";
const TRANSMIT: &str = "82576 (321027), section 8.12, transmit registers";

const fn receive(begin: u16) -> [Span; RX_REGISTERS] {
    use Access::{ReadClear, ReadWrite};
    let split = row("SRRCTL", begin + at::SPLIT, ReadWrite, RECEIVE);
    [
        row("RDBAL", begin + at::BASE, ReadWrite, RECEIVE),
        row("RDBAH", begin + at::BASE_HIGH, ReadWrite, RECEIVE),
        row("RDLEN", begin + at::LENGTH, ReadWrite, RECEIVE),
        holding(split, SPLIT_INITIAL),
        row("RDH", begin + at::HEAD, ReadWrite, RECEIVE),
        row("RXCTL", begin + at::CACHE, ReadWrite, RECEIVE),
        row("RDT", begin + at::TAIL, ReadWrite, RECEIVE),
        row("RXDCTL", begin + at::CONTROL, ReadWrite, RECEIVE),
        row("RQDPC", begin + at::DROPPED, ReadClear, RECEIVE),
    ]
}

const fn transmit(begin: u16, queue: u16) -> [Span; TX_REGISTERS] {
    use Access::ReadWrite;
    let tail = row("TDT", begin + at::TAIL, ReadWrite, TRANSMIT);
    [
        row("TDBAL", begin + at::BASE, ReadWrite, TRANSMIT),
        row("TDBAH", begin + at::BASE_HIGH, ReadWrite, TRANSMIT),
        row("TDLEN", begin + at::LENGTH, ReadWrite, TRANSMIT),
        row("TDH", begin + at::HEAD, ReadWrite, TRANSMIT),
        row("TXCTL", begin + at::CACHE, ReadWrite, TRANSMIT),
        with_role(tail, Role::Doorbell(queue)),
        row("TXDCTL", begin + at::CONTROL, ReadWrite, TRANSMIT),
        row("TDWBAL", begin + at::WRITE_BACK, ReadWrite, TRANSMIT),
        row("TDWBAH", begin + at::WRITE_BACK + 4, ReadWrite, TRANSMIT),
    ]
}

const fn all<const N: usize>(begin: u16, stride: u16, queues: u16, to_send: bool) -> [Span; N] {
    let mut spans = [row("RDBAL", 0, Access::ReadWrite, RECEIVE); N];
    let (mut queue, mut next) = (0, 0);
    while queue < queues {
        let place = begin + stride * queue;
        let block = if to_send { transmit(place, queue) } else { receive(place) };
        let mut index = 0;
        while index < block.len() {
            spans[next] = block[index];
            (next, index) = (next + 1, index + 1);
        }
        queue += 1;
    }
    spans
}

const LOW_COUNT: usize = LOW_QUEUES as usize;
const COUNT: usize = QUEUES as usize;

pub(super) const RX_LOW: [Span; RX_REGISTERS * LOW_COUNT] =
    all(RX_SECOND, LOW_STRIDE, LOW_QUEUES, false);
pub(super) const TX_LOW: [Span; TX_REGISTERS * LOW_COUNT] =
    all(TX_SECOND, LOW_STRIDE, LOW_QUEUES, true);
pub(super) const RX_HIGH: [Span; RX_REGISTERS * COUNT] = all(RX, BLOCK, QUEUES, false);
pub(super) const TX_HIGH: [Span; TX_REGISTERS * COUNT] = all(TX, BLOCK, QUEUES, true);

/// The first place of a register, if it may have two.
pub(super) fn first_place(offset: u64) -> u64 {
    for (second, first) in [(RX_SECOND, RX), (TX_SECOND, TX)] {
        let within = offset.wrapping_sub(second.into());
        let (queue, rest) = (within / u64::from(LOW_STRIDE), within % u64::from(LOW_STRIDE));
        if queue < LOW_QUEUES.into() && rest < BLOCK.into() {
            return u64::from(first) + u64::from(BLOCK) * queue + rest;
        }
    }
    offset
}

/// The queue and the register of its block that this is, if it is one of a queue of the direction that begins at
/// `first`.
pub(super) fn of_queue(offset: u16, first: u16) -> Option<(u16, u16)> {
    let within = offset.checked_sub(first)?;
    let queue = within / BLOCK;
    (queue < QUEUES).then_some((queue, within % BLOCK))
}

/// A register of a queue.
pub(super) const fn register(first: u16, queue: u16, at: u16) -> u16 {
    first + BLOCK * queue + at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_queues_have_two_places_and_no_others() {
        assert_eq!(first_place(0x2818), 0xc018);
        assert_eq!(first_place(0x2b30), 0xc0f0);
        assert_eq!(first_place(0x3928), 0xe068);
        for own in [0x27fc, 0x2840, 0x2c00, 0x3c18, 0xc018, u64::MAX - 3] {
            assert_eq!(first_place(own), own, "{own:#x}");
        }
        assert_eq!(of_queue(0xc3d8, RX), Some((15, 0x18)));
        assert_eq!((of_queue(0xc400, RX), of_queue(0xbffc, RX)), (None, None));
    }
}

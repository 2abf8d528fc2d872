//! The registers of the card duo, whose data sheet is the documentation of [`super`].

use warikomi_nic::register::{Access, Register, Role};
use warikomi_pci::{Vector, Width};

/// The BAR with the registers.
pub(super) const BAR: u8 = 0;
/// The BAR with the doorbells, and the MSI-X table behind them.
pub(super) const DOORBELL_BAR: u8 = 2;
/// Where in it the table and the pending bits are.
pub(super) const TABLE: u32 = 0x800;
pub(super) const PENDING: u32 = 0xc00;

/// Queues of each direction, and vectors.
pub(super) const QUEUES: u16 = 2;
/// Messages that it may be granted: more than it has vectors, so that a driver can ask for an odd number of them.
pub(super) const MESSAGES: u16 = 4;

pub(super) const ID: u64 = 0x00;
pub(super) const CONTROL: u64 = 0x04;
pub(super) const LINK: u64 = 0x08;
pub(super) const QUEUE_COUNT: u64 = 0x0c;
pub(super) const MAC: u64 = 0x10;
const VECTORS: u64 = 0x20;
const QUEUE_REGISTERS: u64 = 0x40;

/// "DUO1".
pub(super) const ID_VALUE: u32 = 0x314f_5544;
/// The station's address 02:57:4b:00:00:02, first byte lowest.
pub(super) const STATION: u64 = 0x0200_004b_5702;

// CONTROL.
pub(super) const RESET: u32 = 1 << 0;
pub(super) const TX_ENABLE: u32 = 1 << 1;
pub(super) const RX_ENABLE: u32 = 1 << 2;
/// Frames are steered to both queues; otherwise all go to the first.
pub(super) const STEER: u32 = 1 << 3;

// INTR_STATUS and INTR_MASK of a vector.
pub(super) const RX_DONE: u32 = 1 << 0;
pub(super) const TX_DONE: u32 = 1 << 1;
pub(super) const RX_MISSED: u32 = 1 << 2;
/// Vector 0 only, as the next.
pub(super) const LINK_CHANGED: u32 = 1 << 3;
pub(super) const SYS_ERROR: u32 = 1 << 4;
pub(super) const TX_ERROR: u32 = 1 << 5;
pub(super) const INTR_ALL: u32 = 0x3f;

// The first word of a descriptor; the second is 0, the third and fourth are the buffer's address.
pub(super) const OWN: u32 = 1 << 31;
pub(super) const FIRST: u32 = 1 << 30;
pub(super) const LAST: u32 = 1 << 29;
pub(super) const ERROR: u32 = 1 << 28;
pub(super) const CHECKSUMS_GOOD: u32 = 1 << 27;
pub(super) const LENGTH: u32 = 0x0001_ffff;

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: u64 = 16;
/// Descriptors of a ring.
pub(super) const RING: u16 = 256;
/// Alignment of a ring.
pub(super) const RING_ALIGNMENT: u64 = 4_096;

/// INTR_STATUS of a vector.
pub(super) const fn status(vector: u16) -> u64 {
    VECTORS + 0x10 * vector as u64
}

/// INTR_MASK of a vector.
pub(super) const fn mask(vector: u16) -> u64 {
    status(vector) + 4
}

/// HOLD_NS of a vector.
pub(super) const fn hold_ns(vector: u16) -> u64 {
    status(vector) + 8
}

/// RX_RING of a queue.
pub(super) const fn rx_ring(queue: u16) -> u64 {
    QUEUE_REGISTERS + 0x10 * queue as u64
}

/// TX_RING of a queue.
pub(super) const fn tx_ring(queue: u16) -> u64 {
    rx_ring(queue) + 8
}

/// DOORBELL of a transmit queue, in its own BAR.
pub(super) const fn doorbell(queue: u16) -> u64 {
    4 * queue as u64
}

use Access::{ReadOnly as RO, ReadWrite as RW, Write1Clear as W1C, WriteOnly as WO};

const fn row(name: &'static str, offset: u64, width: u16, access: Access, reset: u64) -> Register {
    let source = "documentation of warikomi_testbench::cards::duo";
    Register { reset, ..Register::new(name, (BAR, offset as u16), width, access, source) }
}

const fn status_row(name: &'static str, vector: u16) -> Register {
    row(name, status(vector), 4, W1C, 0).with_role(Role::Status(Vector(vector)))
}

const fn mask_row(name: &'static str, vector: u16) -> Register {
    row(name, mask(vector), 4, RW, 0)
        .with_reserved(!INTR_ALL as u64)
        .with_role(Role::Mask(Vector(vector)))
}

const fn ring_row(name: &'static str, offset: u64) -> Register {
    row(name, offset, 8, RW, 0).with_reserved(RING_ALIGNMENT - 1)
}

const fn doorbell_row(name: &'static str, queue: u16) -> Register {
    let row = row(name, doorbell(queue), 4, WO, 0).with_role(Role::Doorbell(queue));
    Register { bar: DOORBELL_BAR, ..row }
}

/// Every byte up to the last register of each BAR, once.
pub(super) const REGISTERS: &[Register] = &[
    row("ID", ID, 4, RO, ID_VALUE as u64),
    row("CONTROL", CONTROL, 4, RW, 0).with_reserved(!0xf & 0xffff_ffff),
    row("LINK", LINK, 4, RO, 1),
    row("QUEUES", QUEUE_COUNT, 4, RO, QUEUES as u64),
    row("MAC", MAC, 8, RO, STATION),
    row("reserved", 0x18, 8, RO, 0),
    status_row("INTR_STATUS0", 0),
    mask_row("INTR_MASK0", 0),
    row("HOLD_NS0", hold_ns(0), 4, RW, 0),
    row("reserved", 0x2c, 4, RO, 0),
    status_row("INTR_STATUS1", 1),
    mask_row("INTR_MASK1", 1),
    row("HOLD_NS1", hold_ns(1), 4, RW, 0),
    row("reserved", 0x3c, 4, RO, 0),
    ring_row("RX_RING0", rx_ring(0)),
    ring_row("TX_RING0", tx_ring(0)),
    ring_row("RX_RING1", rx_ring(1)),
    ring_row("TX_RING1", tx_ring(1)),
    doorbell_row("DOORBELL0", 0),
    doorbell_row("DOORBELL1", 1),
];

/// The register that an access of its own width reaches; a register of 8 bytes also by halves, of which
/// the shift says where it begins.
pub(super) fn find(bar: u8, offset: u64, width: Width) -> Option<(&'static Register, u32)> {
    let row =
        REGISTERS.iter().rev().find(|row| row.bar == bar && u64::from(row.offset) <= offset)?;
    let within = offset - u64::from(row.offset);
    let whole = within == 0 && width.bytes() == usize::from(row.width);
    let half = row.width == 8 && width == Width::B4 && matches!(within, 0 | 4);
    (whole || half).then_some((row, 8 * within as u32))
}

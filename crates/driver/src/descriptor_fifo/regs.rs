//! The registers that the driver uses, and their bits: docs/descriptor-fifo.md.

pub(super) const ID: u64 = 0x00;
pub(super) const CONTROL: u64 = 0x04;
pub(super) const LINK: u64 = 0x08;
pub(super) const LINE_MBPS: u64 = 0x0c;
pub(super) const INTR_STATUS: u64 = 0x10;
pub(super) const INTR_MASK: u64 = 0x14;
pub(super) const MTU: u64 = 0x18;
pub(super) const MAC: u64 = 0x20;
pub(super) const TX_ADDRESS: u64 = 0x30;
pub(super) const TX_PUSH: u64 = 0x38;
pub(super) const TX_SIZE: u64 = 0x3c;
pub(super) const TX_REMAINING: u64 = 0x40;
pub(super) const TX_SEGMENT: u64 = 0x44;
pub(super) const RX_ADDRESS: u64 = 0x50;
pub(super) const RX_PUSH: u64 = 0x58;
pub(super) const RX_SIZE: u64 = 0x5c;
pub(super) const RX_RING: u64 = 0x68;

// CONTROL.
pub(super) const RESET: u32 = 1 << 0;
pub(super) const TX_ENABLE: u32 = 1 << 1;
pub(super) const RX_ENABLE: u32 = 1 << 2;

/// LINK.
pub(super) const LINK_UP: u32 = 1 << 0;

// INTR_STATUS and INTR_MASK.
pub(super) const TX_DONE: u32 = 1 << 0;
pub(super) const RX_DONE: u32 = 1 << 1;
pub(super) const RX_MISSED: u32 = 1 << 2;
pub(super) const LINK_CHANGED: u32 = 1 << 3;
pub(super) const SYS_ERROR: u32 = 1 << 4;
pub(super) const TX_OVERRUN: u32 = 1 << 5;

// TX_PUSH; its lowest bits are the length.
pub(super) const LAST: u32 = 1 << 30;
pub(super) const FIRST: u32 = 1 << 31;

// An entry of the completion ring; its lowest bits are the length.
pub(super) const CHECKSUMS_GOOD: u32 = 1 << 29;
pub(super) const TOO_LONG: u32 = 1 << 30;
pub(super) const DONE: u32 = 1 << 31;

/// TX_SEGMENT: where the TCP header's offset stands; its lowest bits are the payload of a segment.
pub(super) const SEGMENT_HEADER_SHIFT: u32 = 16;

/// Length in bytes, of a piece, a buffer or a frame.
pub(super) const LENGTH: u32 = 0xf_ffff;
/// An entry of the completion ring.
pub(super) const ENTRY_BYTES: u64 = 4;
/// Descriptors and buffers that the FIFOs hold, and entries of the completion ring.
pub(super) const FIFO: usize = 256;
/// RX_RING is a multiple of this.
pub(super) const RING_ALIGNMENT: u64 = 4_096;
/// Ethernet's header, which an MTU does not count.
pub(super) const HEADER_BYTES: usize = 14;

//! What a driver must know of each card of the family before it asks the card.

use super::{regs, rx};
use crate::DriverInfo;

/// A card of the family.
#[derive(Debug)]
pub struct Card {
    /// The description of its driver.
    pub info: DriverInfo,
    /// What ID reads.
    pub(super) id: u32,
}

impl Card {
    const fn of(
        name: &'static str,
        summary: &'static str,
        device: &'static [(u16, u16)],
        id: u32,
        mtu: usize,
        most_segment_bytes: u16,
    ) -> Card {
        let max_frame_bytes = mtu + regs::HEADER_BYTES;
        let info = DriverInfo {
            name,
            summary,
            devices: device,
            rx_descriptors: rx::MOST_BUFFERS,
            tx_descriptors: regs::FIFO,
            ring_bytes: regs::RING_ALIGNMENT as usize,
            max_buffer_bytes: max_frame_bytes,
            max_frame_bytes,
            most_segment_bytes,
            vectors: 1,
            live: false,
        };
        Card { info, id }
    }

    /// The largest MTU that it can have.
    pub(super) fn max_mtu(&self) -> usize {
        self.info.max_frame_bytes - regs::HEADER_BYTES
    }
}

/// Packet over SONET at OC-48c. Its ID reads "OC48".
pub static OC48: Card = Card::of(
    "oc48",
    "OC-48c card with a FIFO of descriptors (scatter/gather, frames of up to 64 KB)",
    &[(0x1234, 0x0c48)],
    0x3834_434f,
    65_535,
    0,
);

/// Packet over SONET at OC-192c. Its ID reads "O192".
pub static OC192: Card = Card::of(
    "oc192",
    "OC-192c card with a FIFO of descriptors (scatter/gather, frames of up to 64 KB)",
    &[(0x1234, 0x0192)],
    0x3239_314f,
    65_535,
    0,
);

/// 10 Gigabit Ethernet. Its ID reads "GE10".
pub static GE10: Card = Card::of(
    "ge10",
    "10 Gigabit Ethernet card with a FIFO of descriptors (scatter/gather, MTU of up to 16,114, TSO)",
    &[(0x1234, 0x10e0)],
    0x3031_4547,
    16_114,
    u16::MAX,
);

//! A card for tests with two queues each way, two vectors and two BARs, and its driver. It shows what the
//! contracts of cards must carry, and is small enough to be read in one go.
//!
//! # Data sheet
//!
//! **PCI**: 1234:0d02, class Ethernet. BAR 0, 4 KB of 32-bit memory: registers. BAR 2, 4 KB of 64-bit memory:
//! a doorbell of 4 bytes for each transmit queue, the MSI-X table at 0x800 and the pending bits at 0xc00. MSI with
//! four messages, which can be masked; the last two it never sends. Vector *n* tells of both queues with number *n*;
//! vector 0 also tells of the link and of a failed transfer.
//!
//! **Registers** ([`regs::REGISTERS`]): little-endian, to be accessed in their own width; those of 8 bytes also by
//! halves. CONTROL: RESET (1), TX_ENABLE (2), RX_ENABLE (4), STEER (8). INTR_STATUS (a 1 clears) and INTR_MASK:
//! RX_DONE (1), TX_DONE (2), RX_MISSED (4), LINK_CHANGED (8), SYS_ERROR (0x10), TX_ERROR (0x20). HOLD_NS holds
//! RX_DONE of its vector back for so many nanoseconds since the first frame. After SYS_ERROR (a failed transfer)
//! nothing goes on before RESET. RX_RING and TX_RING: bus address, a multiple of 4,096; written, the
//! queue begins at its first descriptor.
//!
//! **Descriptors**: 256 a ring, of four words: the first has OWN (bit 31), FIRST (30), LAST (29), ERROR (28),
//! CHECKSUMS_GOOD (27) and the length in bytes (0 to 16); the second is 0; third and fourth are the buffer's
//! address. The card writes the first word of a receive descriptor anew when a frame, or its part, is in the
//! buffer, and 0 into the first word of a transmit descriptor that is done.
//!
//! **Steering**: with STEER on, the receive queue is the low bit of the Toeplitz hash of addresses and TCP or UDP
//! ports, with the key of Microsoft's "RSS Hashing Functions"; what is no IP packet goes to queue 0. With
//! STEER off everything does.

mod card;
mod driver;
mod regs;

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use warikomi_driver::NicDriver;
use warikomi_nic::strict::FindingKind;
use warikomi_nic::{Frame, Link, Nic, NicError, NicFunction, NicOptions};
use warikomi_pci::{DmaMemory, SharedMemory, Width};
use warikomi_wire::Wire;

pub use self::card::{Duo, INFO};
pub use self::driver::DuoDriver;
use self::driver::LINK_MBPS;
use super::misstep::{Handler, opened};
use super::step::{BUFFER, RX_RING, Step, TX_RING, TxRequest};
use super::test_card::{TestCard, Write};

/// Makes the card of its options, for sessions with a target.
pub fn make(options: &NicOptions, wire: Box<dyn Wire>) -> Result<Box<dyn Nic>, NicError> {
    Ok(Box::new(NicFunction::new(Duo::new(options), wire).made_strict(options.strict)))
}

/// The card for suites, and how it is driven.
pub(super) struct DuoCard;

const HANDLER: Handler =
    Handler { bar: 0, status: 0x20, mask: 0x24, width: Width::B4, received: 1, all: 0x3f };

fn rings(base: u64) -> impl Iterator<Item = u64> {
    (base..).step_by(16).take(256)
}

/// Where the ring of the second receive queue is.
const SECOND_RX_RING: u64 = RX_RING + 0x1000;
/// The second receive queue has buffers of its own.
const SECOND_BUFFER: u64 = BUFFER + 0x8000;

impl TestCard for DuoCard {
    fn name(&self) -> &'static str {
        "duo"
    }

    fn build(&self, options: &NicOptions, wire: Box<dyn Wire>) -> Box<dyn Nic> {
        make(options, wire).expect("a card of any options")
    }

    fn driver(&self) -> Box<dyn NicDriver> {
        Box::<DuoDriver>::default()
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn link_mbps(&self) -> u32 {
        LINK_MBPS
    }

    fn check_sequence_bytes(&self) -> usize {
        0
    }

    fn first_queue_share(&self, buffers: usize) -> usize {
        driver::first_share(buffers)
    }

    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write> {
        let command = prop::sample::select(vec![
            (0, 0x04, Width::B4, 0x0e_u64),
            (0, 0x04, Width::B4, 0x06),
            (0, 0x04, Width::B4, 0x04),
            (0, 0x04, Width::B4, 0x01),
            (0, 0x24, Width::B4, 0x3f),
            (0, 0x34, Width::B4, 0x3f),
            (0, 0x28, Width::B4, 10_000),
            (0, 0x38, Width::B4, 0),
            (0, 0x20, Width::B4, 0xffff),
            (0, 0x30, Width::B4, 0xffff),
            (2, 0x00, Width::B4, 1),
            (2, 0x04, Width::B4, 1),
            (2, 0x80c, Width::B4, 0),
            (2, 0x81c, Width::B4, 0),
        ]);
        let rings = (prop::sample::select(vec![0x40_u64, 0x48, 0x50, 0x58]), address)
            .prop_map(|(offset, at)| (0, offset, Width::B8, at));
        prop_oneof![3 => command, 1 => rings].boxed()
    }

    fn open(&self, length: u64, size: u32) -> Vec<Step> {
        let mut steps = vec![
            Step::Config { offset: 4, width: Width::B2, value: 0x0406 },
            Step::Plug(Link::Up { mbps: LINK_MBPS }),
            Step::write(0, 0x04, Width::B4, 1),
        ];
        let word = 1 << 31 | size & 0x1_ffff;
        for (base, buffer) in [(RX_RING, BUFFER), (SECOND_RX_RING, SECOND_BUFFER)] {
            let words = [word, 0, buffer as u32, (buffer >> 32) as u32];
            steps.extend(rings(base).map(|address| Step::Memory { address, word: 0 }));
            steps.push(Step::Ring { address: base, words, length: length.min(256), end: false });
        }
        steps.extend(rings(TX_RING).map(|address| Step::Memory { address, word: 0 }));
        steps.push(Step::write(0, 0x40, Width::B8, RX_RING));
        steps.push(Step::write(0, 0x50, Width::B8, SECOND_RX_RING));
        steps.push(Step::write(0, 0x48, Width::B8, TX_RING));
        steps.push(Step::write(0, 0x04, Width::B4, 0x0e));
        steps.push(Step::write(0, 0x24, Width::B4, 0x3f));
        steps.push(Step::write(0, 0x34, Width::B4, 0x3f));
        steps
    }

    fn give_back(
        &self,
        memory: &SharedMemory,
        _look: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<Step> {
        let used = |at: &u64| memory.load_u32(*at).is_ok_and(|word| word != 0 && word >> 31 == 0);
        let give_back = |address| Step::Memory { address, word: 1 << 31 | 2_000 };
        let all = rings(RX_RING).chain(rings(SECOND_RX_RING));
        all.filter(used).map(give_back).collect()
    }

    fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)> {
        let ring = Step::write(2, 0, Width::B4, 1);
        let transmit = |words| {
            let descriptor = Step::Ring { address: TX_RING, words, length: 1, end: false };
            vec![opened(1), descriptor, ring.clone()]
        };
        let memory_and_master = Step::Config { offset: 4, width: Width::B2, value: 0x0406 };
        let control = |value| Step::write(0, 0x04, Width::B4, value);
        let (own, first, last) = (1 << 31, 1 << 30, 1 << 29);
        let of_the_other = [1 << 31 | 2_000, 0, BUFFER as u32, (BUFFER >> 32) as u32];
        let second = SECOND_RX_RING + 16;
        let second = Step::Ring { address: second, words: of_the_other, length: 1, end: false };
        let mut all = HANDLER.missteps();
        all.extend([
            HANDLER.given_twice(),
            HANDLER.given_to_two(vec![second]),
            HANDLER.changed(),
            (FindingKind::RingNotSet, vec![memory_and_master, control(6), control(0)]),
            (FindingKind::Descriptor, transmit([own | last | 200, 0, BUFFER as u32, 0])),
            (FindingKind::Dma, transmit([own | first | last | 200, 0, 0, 0xff])),
            (FindingKind::EmptyDoorbell, vec![opened(1), ring.clone()]),
        ]);
        all
    }

    /// Of the requests of other chips one has a meaning: a frame that lacks its first mark.
    fn transmit(
        &self,
        _memory: &SharedMemory,
        next: &mut u64,
        TxRequest { opts, pieces, bytes }: TxRequest,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for piece in (0..pieces).rev() {
            let at = TX_RING + 16 * ((*next + piece) % 256);
            let first = if piece == 0 && opts[0] == 0 { 1 << 30 } else { 0 };
            let last = if piece + 1 == pieces { 1 << 29 } else { 0 };
            let word = 1 << 31 | first | last | bytes & 0x1_ffff;
            steps.push(Step::Memory { address: at + 8, word: (BUFFER + piece) as u32 & !3 });
            steps.push(Step::Memory { address: at + 12, word: 0 });
            steps.push(Step::Memory { address: at, word });
        }
        *next += pieces;
        steps.push(Step::write(2, 0x00, Width::B4, 1));
        steps
    }
}

/// A UDP datagram from this port; its checksum is left out.
pub fn datagram(port: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].fill(0xff);
    frame[12] = 8;
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    frame[14..34].copy_from_slice(&header);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..42].copy_from_slice(&[0, 9, 0, 26, 0, 0]);
    frame
}

/// A port whose datagrams go to this queue; `receive` gives a frame to the card, and says to which it went.
///
/// # Panics
///
/// If all go to others.
pub fn port_of(queue: u16, mut receive: impl FnMut(Frame<'_>) -> u16) -> u16 {
    (1..100)
        .find(|&port| receive(Frame::new(&datagram(port))) == queue)
        .expect("flows are spread over both queues")
}

#[cfg(test)]
mod tests;

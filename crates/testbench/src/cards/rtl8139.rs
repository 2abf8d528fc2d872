use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use warikomi_nic::Link;
use warikomi_nic::strict::FindingKind;
use warikomi_pci::{DmaMemory, SharedMemory, Width};

use super::misstep::{Handler, opened};
use super::step::{BUFFER, RX_RING, Step, TX_RING, TxRequest};
use super::test_card::{Abilities, TestCard, Write};

/// The BAR with its registers.
const BAR: u8 = 1;
/// The ring of bytes is the smallest.
const RING_BYTES: u64 = 8 << 10;
const SLOTS: u64 = 4;

/// The RTL8139C, with its ring of bytes.
pub(super) struct Rtl8139;

pub(super) const HANDLER: Handler =
    Handler { bar: BAR, status: 0x3e, mask: 0x3c, width: Width::B2, received: 1, all: 0x7f };

/// What both chips are told before anything is received: a link, the station's address, and no locks.
pub(super) fn begun() -> Vec<Step> {
    vec![
        Step::Config { offset: 4, width: Width::B2, value: 0x0406 },
        Step::Plug(Link::Up { mbps: 100 }),
        Step::write(BAR, 0x50, Width::B1, 0xc0),
        Step::write(BAR, 0x66, Width::B2, 0x01e1),
        Step::write(BAR, 0x62, Width::B2, 0x3300),
        Step::Wait { us: 50_000 },
        // A station that frames of these histories are for, whatever was written there before.
        Step::write(BAR, 0x50, Width::B1, 0x40),
        Step::write(BAR, 0x37, Width::B1, 0x10),
    ]
}

/// Register writes at which something happens in either mode.
pub(super) fn commands() -> Vec<(u64, Width, u64)> {
    vec![
        (0x37, Width::B1, 0x0c),
        (0x37, Width::B1, 0x10),
        (0x37, Width::B1, 0x04),
        (0x44, Width::B4, 0x008f),
        (0x44, Width::B4, 0x188f),
        (0x44, Width::B4, 0x003f),
        (0x3c, Width::B2, 0xffff),
        (0x3e, Width::B2, 0xffff),
        (0x50, Width::B1, 0xc0),
        (0x50, Width::B1, 0x8c),
        (0x50, Width::B1, 0x88),
        (0x62, Width::B2, 0x3300),
        (0x54, Width::B4, 1_000),
    ]
}

/// Slots with frames of all lengths, and how far was read.
pub(super) fn of_c_mode(address: BoxedStrategy<u64>) -> BoxedStrategy<(u64, Width, u64)> {
    let length = prop_oneof![4 => 0u64..2_000, 1 => any::<u64>()];
    let status = (0..SLOTS, length).prop_map(|(slot, length)| (0x10 + 4 * slot, Width::B4, length));
    let places = (prop::sample::select(vec![0x20_u64, 0x24, 0x28, 0x2c, 0x30]), address)
        .prop_map(|(offset, at)| (offset, Width::B4, at));
    let read = any::<u16>().prop_map(|read| (0x38, Width::B2, u64::from(read & !3)));
    prop_oneof![2 => status, 1 => places, 1 => read].boxed()
}

impl TestCard for Rtl8139 {
    fn name(&self) -> &'static str {
        "rtl8139"
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn abilities(&self) -> Abilities {
        Abilities { buffers: false, checksums: false, messages: false, wide: false }
    }

    fn link_mbps(&self) -> u32 {
        100
    }

    /// It stays in the ring.
    fn check_sequence_bytes(&self) -> usize {
        0
    }

    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write> {
        prop_oneof![1 => prop::sample::select(commands()), 2 => of_c_mode(address)]
            .prop_map(|(offset, width, value)| (BAR, offset, width, value))
            .boxed()
    }

    /// Its ring has room for bytes, not for buffers.
    fn open(&self, _length: u64, _size: u32) -> Vec<Step> {
        let mut steps = begun();
        let writes = [
            (0x30, Width::B4, RX_RING),
            (0x37, Width::B1, 0x0c),
            (0x44, Width::B4, 0xe78f),
            (0x20, Width::B4, BUFFER),
            (0x24, Width::B4, BUFFER + 0x800),
            (0x28, Width::B4, BUFFER + 0x1000),
            (0x2c, Width::B4, BUFFER + 0x1800),
            (0x3c, Width::B2, 0x007f),
        ];
        steps.extend(writes.map(|(offset, width, value)| Step::write(BAR, offset, width, value)));
        steps
    }

    /// It has read all that was written.
    fn give_back(
        &self,
        _memory: &SharedMemory,
        look: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<Step> {
        let written = look(0x3a).unwrap_or(0);
        vec![Step::write(BAR, 0x38, Width::B2, written.wrapping_sub(16) & 0xffff)]
    }

    fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)> {
        let memory_and_master = Step::Config { offset: 4, width: Width::B2, value: 0x0406 };
        let command = |value| Step::write(BAR, 0x37, Width::B1, value);
        let send = |bytes| Step::write(BAR, 0x10, Width::B4, bytes);
        let nowhere = Step::write(BAR, 0x20, Width::B4, 0xff00_0000);
        let read = |at| Step::write(BAR, 0x38, Width::B2, at);
        let mut all = HANDLER.missteps();
        all.extend([
            (FindingKind::RingNotSet, vec![memory_and_master, command(0x08), command(0)]),
            (FindingKind::Descriptor, vec![opened(1), send(0)]),
            (FindingKind::Descriptor, vec![opened(1), send(1_793)]),
            (FindingKind::Dma, vec![opened(1), nowhere, send(60)]),
            (FindingKind::EmptyDoorbell, vec![opened(1), command(0x08), send(60)]),
            (FindingKind::ReadPointer, vec![opened(1), read(RING_BYTES / 2)]),
        ]);
        all
    }

    /// Of the requests of other chips none has a meaning, and a frame has one piece: as many frames as there are pieces.
    fn transmit(
        &self,
        memory: &SharedMemory,
        next: &mut u64,
        TxRequest { pieces, bytes, .. }: TxRequest,
    ) -> Vec<Step> {
        memory.write(BUFFER, &[0x5a; 256]).expect("buffers are in memory");
        let mut steps = Vec::new();
        for _ in 0..pieces {
            let slot = *next % SLOTS;
            *next += 1;
            steps.push(Step::write(BAR, 0x20 + 4 * slot, Width::B4, BUFFER));
            steps.push(Step::write(BAR, 0x10 + 4 * slot, Width::B4, u64::from(bytes & 0x1fff)));
        }
        steps
    }
}

/// The RTL8139C+, with its descriptor rings.
pub(super) struct Rtl8139Cp;

const OWN: u32 = 1 << 31;
const END: u32 = 1 << 30;
const FIRST: u32 = 1 << 29;
const LAST: u32 = 1 << 28;
const DESCRIPTORS: u64 = 64;

/// Puts a descriptor at the head of the transmit ring, and rings.
fn transmitted(words: [u32; 4]) -> Vec<Step> {
    vec![
        opened(1),
        Step::Ring { address: TX_RING, words, length: 1, end: false },
        Step::write(BAR, 0xd9, Width::B1, 0x40),
    ]
}

impl TestCard for Rtl8139Cp {
    fn name(&self) -> &'static str {
        "rtl8139cp"
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn abilities(&self) -> Abilities {
        Abilities { messages: false, ..Abilities::ALL }
    }

    fn link_mbps(&self) -> u32 {
        100
    }

    fn check_sequence_bytes(&self) -> usize {
        4
    }

    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write> {
        let mut all = commands();
        all.extend([
            (0xd9, Width::B1, 0x40),
            (0xd9, Width::B1, 0xc1),
            (0xe0, Width::B2, 0x0063),
            (0xe0, Width::B2, 0x0063),
            (0xe0, Width::B2, 0x0001),
            (0xe0, Width::B2, 0),
            (0x10, Width::B4, 0x2008),
        ]);
        let ring = (prop::sample::select(vec![0x20_u64, 0x28, 0xe4, 0x10]), address.clone())
            .prop_map(|(offset, at)| (offset, Width::B8, at));
        prop_oneof![3 => prop::sample::select(all), 2 => ring, 1 => of_c_mode(address)]
            .prop_map(|(offset, width, value)| (BAR, offset, width, value))
            .boxed()
    }

    fn open(&self, length: u64, size: u32) -> Vec<Step> {
        let (length, words) = (length.min(DESCRIPTORS), [OWN | size & 0x1fff, 0, BUFFER as u32, 0]);
        let mut steps = begun();
        steps.extend([
            Step::Ring { address: RX_RING, words, length, end: true },
            Step::Ring { address: TX_RING, words: [0; 4], length: DESCRIPTORS, end: true },
        ]);
        let writes = [
            (0xe0, Width::B2, 0x006b),
            (0x28, Width::B8, 0),
            (0xe4, Width::B4, RX_RING),
            (0xe8, Width::B4, 0),
            (0x20, Width::B8, TX_RING),
            (0x37, Width::B1, 0x0c),
            (0x44, Width::B4, 0xa40f),
            (0x3c, Width::B2, 0x007f),
        ];
        steps.extend(writes.map(|(offset, width, value)| Step::write(BAR, offset, width, value)));
        steps
    }

    fn give_back(
        &self,
        memory: &SharedMemory,
        _look: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for address in (RX_RING..).step_by(16).take(DESCRIPTORS as usize) {
            let Ok(opts1) = memory.load_u32(address) else { break };
            steps.push(Step::Memory { address, word: opts1 & END | OWN | 2_000 });
            if opts1 & END != 0 {
                break;
            }
        }
        steps
    }

    fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)> {
        let whole = OWN | FIRST | LAST | 200;
        let memory_and_master = Step::Config { offset: 4, width: Width::B2, value: 0x0406 };
        let switched = |value| Step::write(BAR, 0x37, Width::B1, value);
        let cplus = Step::write(BAR, 0xe0, Width::B2, 3);
        let ring = Step::write(BAR, 0xd9, Width::B1, 0x40);
        let mut all = HANDLER.missteps();
        all.extend([
            HANDLER.given_twice(),
            HANDLER.changed(),
            (FindingKind::RingNotSet, vec![memory_and_master, cplus, switched(0x0c), switched(0)]),
            (FindingKind::Descriptor, transmitted([OWN | LAST | 200, 0, BUFFER as u32, 0])),
            (FindingKind::OffloadFlags, transmitted([whole | 7 << 16, 0, BUFFER as u32, 0])),
            (FindingKind::ReservedBits, transmitted([whole | 1 << 24, 0, BUFFER as u32, 0])),
            (FindingKind::Dma, transmitted([whole, 0, 0, 0xff])),
            (FindingKind::EmptyDoorbell, vec![opened(1), ring]),
        ]);
        all
    }

    fn transmit(
        &self,
        memory: &SharedMemory,
        next: &mut u64,
        TxRequest { opts, pieces, bytes }: TxRequest,
    ) -> Vec<Step> {
        // Headers in front, so that the requests find something to work on.
        let mut frame = vec![0x5a; 256];
        frame[..15].copy_from_slice(&[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0, 0x45]);
        (frame[16], frame[17], frame[23], frame[46]) = (0, 200, 6, 0x50);
        memory.write(BUFFER, &frame).expect("buffers are in memory");
        let mut steps = Vec::new();
        for i in 0..pieces {
            let at = TX_RING + 16 * (*next % DESCRIPTORS);
            let end = if *next % DESCRIPTORS == DESCRIPTORS - 1 { END } else { 0 };
            *next += 1;
            let marks =
                if i == 0 { FIRST } else { 0 } | if i + 1 == pieces { LAST } else { 0 } | OWN | end;
            // A large send, or checksums.
            let words = [opts[0] << 1 & 0x0fff_0000 | bytes | marks, opts[1], BUFFER as u32, 0];
            let places = (at..).step_by(4);
            steps.extend(places.zip(words).map(|(address, word)| Step::Memory { address, word }));
        }
        steps.push(Step::write(BAR, 0xd9, Width::B1, 0x40));
        steps
    }
}

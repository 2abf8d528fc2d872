use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use warikomi_nic::Link;
use warikomi_nic::strict::FindingKind;
use warikomi_pci::{DmaMemory, SharedMemory, Width};

use super::misstep::{Handler, frame, opened};
use super::step::{BUFFER, RX_RING, Step, TX_RING, TxRequest};
use super::test_card::{TestCard, Write};

/// The BAR with its registers, and the one with its MSI-X table.
const BAR: u8 = 0;
const MSIX_BAR: u8 = 3;
/// Where its MSI-X capability has its control word.
const MSIX_CONTROL: u16 = 0xa2;

/// Descriptors of the rings that an orderly driver has.
const RX_DESCRIPTORS: u64 = 304;
const TX_DESCRIPTORS: u64 = 1_024;

// The third word of a transmit descriptor.
const EOP: u32 = 1 << 24;
const IFCS: u32 = 1 << 25;
const TSE: u32 = 1 << 26;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const VLE: u32 = 1 << 30;
const DATA: u32 = DEXT | 1 << 20;

// Registers.
const CTRL: u64 = 0x0000;
const CTRL_EXT: u64 = 0x0018;
const MDIC: u64 = 0x0020;
const IMS: u64 = 0x00d0;
const RCTL: u64 = 0x0100;
const TCTL: u64 = 0x0400;
const RDBAL: u64 = 0x2800;
const RDLEN: u64 = 0x2808;
const RDH: u64 = 0x2810;
const RDT: u64 = 0x2818;
/// How far behind them those of the second queue are.
const SECOND_RX: u64 = 0x100;
const TDBAL: u64 = 0x3800;
const TDLEN: u64 = 0x3808;
const TDH: u64 = 0x3810;
const TDT: u64 = 0x3818;

pub(super) struct E1000e;

const HANDLER: Handler =
    Handler { bar: BAR, status: 0xc0, mask: IMS, width: Width::B4, received: 0x80, all: 0x9d };

fn write(offset: u64, value: u64) -> Step {
    Step::write(BAR, offset, Width::B4, value)
}

/// Puts a descriptor at the head of the transmit ring, and moves the tail behind it.
fn transmitted(words: [u32; 4]) -> Vec<Step> {
    let descriptor = Step::Ring { address: TX_RING, words, length: 1, end: false };
    vec![opened(1), descriptor, write(TDT, 1)]
}

/// What RCTL says of buffers of so many bytes: the size itself, or the next one that there is.
fn buffer_size(bytes: u32) -> u64 {
    match bytes {
        0..=256 => 3 << 16,
        257..=2_048 => 0,
        _ => 1 << 25 | 1 << 16,
    }
}

/// Switches MSI-X on as Linux uses it: three vectors, which the card masks and clears by itself.
fn msix() -> Vec<Step> {
    let mut steps = vec![Step::Config { offset: MSIX_CONTROL, width: Width::B2, value: 0x8000 }];
    for vector in 0..3 {
        for (at, value) in [(0, 0xfee0_0000), (4, 0), (8, vector), (12, 0)] {
            steps.push(Step::write(MSIX_BAR, 16 * vector + at, Width::B4, value));
        }
    }
    let writes = [(0xe4, 0x800a_0908), (0xe8, 195), (0xec, 195), (0xf0, 195), (0xe0, 0xffff_ffff)];
    steps.extend(writes.map(|(offset, value)| write(offset, value)));
    steps.push(write(CTRL_EXT, 1 << 24));
    steps.push(write(0xdc, 0x0050_0000));
    steps.push(write(IMS, 0x0157_0204 | 0x40));
    steps
}

impl TestCard for E1000e {
    fn name(&self) -> &'static str {
        "e1000e"
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn link_mbps(&self) -> u32 {
        1_000
    }

    fn check_sequence_bytes(&self) -> usize {
        0
    }

    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write> {
        let command = prop::sample::select(vec![
            (CTRL, 0x0400_0241_u64),
            (CTRL, 0x4000_0241),
            (CTRL, 0x8000_0241),
            (CTRL, 0x0000_0201),
            (CTRL_EXT, 0x0100_0000),
            (CTRL_EXT, 0x0800_2000),
            (MDIC, 0x0420_1340),
            (MDIC, 0x0420_0800),
            (0xc0, 0xffff_ffff),
            (0xc4, 195),
            (0xc8, 0x01f0_0095),
            (IMS, 0x01f0_00ff),
            (0xd8, 0xffff_ffff),
            (0xdc, 0x01f0_0000),
            (0xe4, 0x800c_ba98),
            (0xe8, 195),
            (RCTL, 0x0402_803e),
            (RCTL, 0x0000_843e),
            (RCTL, 0x0204_8026),
            (0x5008, 0x8000),
            (0x5008, 0),
            (0x2170, 0x0104_0402),
            (0x2820, 8),
            (0x282c, 20),
            (0x3820, 8),
            (0x5000, 0x300),
            (0x5000, 0x2300),
            (0x5818, 0x0033_0001),
            (0x5c00, 0x0080_8000),
            (0x5c84, 0x1234_5678),
            (0xb608, 1 << 24 | 40 << 18),
            (0xb620, 0x18),
        ]);
        let place = prop::sample::select(vec![RDT, RDH, TDT, TDH, RDT + 0x100, TDT + 0x100]);
        let place = (place, 0_u64..1_030).prop_map(|(offset, value)| (offset, Width::B4, value));
        let length = prop::sample::select(vec![RDLEN, TDLEN, RDLEN + 0x100, TDLEN + 0x100]);
        let length = (length, any::<u32>())
            .prop_map(|(offset, bytes)| (offset, Width::B4, u64::from(bytes & 0xfff80)));
        let ring = prop::sample::select(vec![RDBAL, TDBAL, RDBAL + 0x100, TDBAL + 0x100]);
        let ring = (ring, address).prop_map(|(offset, at)| (offset, Width::B8, at));
        let command = command.prop_map(|(offset, value)| (offset, Width::B4, value));
        prop_oneof![4 => command, 2 => place, 1 => length, 1 => ring]
            .prop_map(|(offset, width, value)| (BAR, offset, width, value))
            .boxed()
    }

    /// Buffers of 2,048 bytes come with MSI-X, others with INTA#.
    fn open(&self, length: u64, size: u32) -> Vec<Step> {
        let words = [BUFFER as u32, (BUFFER >> 32) as u32, 0, 0];
        let mut steps = vec![
            Step::Config { offset: MSIX_CONTROL, width: Width::B2, value: 0 },
            Step::Config { offset: 4, width: Width::B2, value: 0x0406 },
            Step::Plug(Link::Up { mbps: 1_000 }),
            // The PHY's first page, and its reset.
            write(MDIC, 0x0436_0000),
            write(MDIC, 0x0420_9340),
            Step::Wait { us: 2_000 },
            write(CTRL, 0x0400_0241),
            Step::Ring { address: RX_RING, words, length: RX_DESCRIPTORS, end: false },
            Step::Ring { address: TX_RING, words: [0; 4], length: TX_DESCRIPTORS, end: false },
        ];
        let everything = 0x0400_803a;
        let writes = [
            // A station that frames of these histories are for, whatever was written there before.
            (0x5400, 0x004b_5702),
            (0x5404, 0x8000_0100),
            (0x5008, 0x8000),
            (0x5000, 0x2300),
            (RDBAL, RX_RING),
            (RDBAL + 4, 0),
            (RDLEN, 16 * RX_DESCRIPTORS),
            (RDH, 0),
            (RDT, length.min(RX_DESCRIPTORS - 1)),
            (RCTL, everything | buffer_size(size)),
            (TDBAL, TX_RING),
            (TDBAL + 4, 0),
            (TDLEN, 16 * TX_DESCRIPTORS),
            (TDH, 0),
            (TDT, 0),
            (TCTL, 0x0003_f0fa),
        ];
        steps.extend(writes.map(|(offset, value)| write(offset, value)));
        match size {
            2_048 => steps.extend(msix()),
            _ => steps.push(write(IMS, HANDLER.all)),
        }
        steps
    }

    /// The tail goes on by as many descriptors as the card has used, and no further than to the one before its head.
    fn give_back(
        &self,
        memory: &SharedMemory,
        look: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<Step> {
        let mut register = |offset| look(offset).unwrap_or(0);
        let (base, count) = (register(RDBAL), (register(RDLEN) / 16).min(RX_DESCRIPTORS));
        let (head, tail) = (register(RDH), register(RDT));
        if head >= count || tail >= count {
            return Vec::new();
        }
        let used = |at: &u64| memory.load_u32(*at).is_ok_and(|word| word & 1 != 0);
        let status = (base + 8..).step_by(16).take(count as usize);
        let used: Vec<_> = status.filter(used).collect();
        let room = (head + count - 1 - tail) % count;
        let tail = (tail + room.min(used.len() as u64)) % count;
        let clear = |address| Step::Memory { address, word: 0 };
        used.into_iter().map(clear).chain([write(RDT, tail)]).collect()
    }

    fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)> {
        let whole = EOP | IFCS | RS | 200;
        let buffer = BUFFER as u32;
        let memory_and_master = Step::Config { offset: 4, width: Width::B2, value: 0x0406 };
        let again = transmitted([buffer, 0, whole, 0]).into_iter();
        let again = again.chain([Step::Next, Step::Next, write(TDT, 1)]).collect();
        // Once a negotiation is over, which takes the PHY 20 ms.
        let unanswered =
            [opened(1), Step::Wait { us: 50_000 }, frame(), Step::Wait { us: 2_000_000 }];
        // The second queue on the ring of the first.
        let second = [(RDBAL, RX_RING), (RDLEN, 16 * RX_DESCRIPTORS), (RDT, 1)];
        let second = second.map(|(offset, value)| write(offset + SECOND_RX, value));
        vec![
            (FindingKind::NotAcknowledged, unanswered.into()),
            HANDLER.given_twice(),
            HANDLER.given_to_two(second.into()),
            HANDLER.changed(),
            (
                FindingKind::RingNotSet,
                vec![memory_and_master, write(RDT, 5), write(RCTL, 2), write(RCTL, 0)],
            ),
            (FindingKind::Descriptor, transmitted([buffer, 0, EOP | IFCS | RS, 0])),
            (FindingKind::OffloadFlags, transmitted([0, 34, DEXT | TSE | EOP | RS, 54 << 8])),
            (FindingKind::ReservedBits, transmitted([buffer, 0, whole | DEXT | 2 << 20, 0])),
            (FindingKind::Dma, transmitted([0, 0xff, whole, 0])),
            (FindingKind::EmptyDoorbell, vec![opened(1), write(TDT, 0)]),
            (FindingKind::DoorbellAgain, again),
        ]
    }

    /// The requests are those of another chip: what they ask for is asked for here by a context.
    fn transmit(
        &self,
        memory: &SharedMemory,
        next: &mut u64,
        TxRequest { opts: [first, second], pieces, bytes }: TxRequest,
    ) -> Vec<Step> {
        // Headers in front, so that the requests find something to work on.
        let mut frame = vec![0x5a; 256];
        frame[..15].copy_from_slice(&[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0, 0x45]);
        frame[46] = 0x50;
        memory.write(BUFFER, &frame).expect("buffers are in memory");
        let segments = first & 1 << 26 != 0;
        let start = if segments { first >> 18 & 0x7f } else { second >> 18 & 0xff };
        let mss = if segments { second >> 18 & 0x7ff } else { 0 };
        let mut descriptors = Vec::new();
        let with_context = first != 0 || second != 0;
        if with_context {
            let command =
                DEXT | if segments { TSE } else { 0 } | (second >> 30 & 1) << 24 | 1 << 25;
            let (ip, transport) = (14 | 24 << 8 | 33 << 16, start | ((start + 16) & 0xff) << 8);
            descriptors.push([ip, transport, command | EOP, mss << 16 | 54 << 8]);
        }
        for piece in 0..pieces {
            let kind = if with_context { DATA | IFCS } else { IFCS };
            let tag = if second & 1 << 17 != 0 { VLE } else { 0 };
            let segment = if segments { TSE } else { 0 };
            let last = if piece + 1 == pieces { EOP | RS } else { 0 };
            let options = if segments || second != 0 { 0x300 | second << 16 } else { 0 };
            descriptors.push([
                BUFFER as u32,
                0,
                kind | tag | segment | last | bytes & 0xffff,
                options,
            ]);
        }
        let mut steps = Vec::new();
        for words in descriptors {
            let at = TX_RING + 16 * *next;
            *next = (*next + 1) % TX_DESCRIPTORS;
            let places = (at..).step_by(4);
            steps.extend(places.zip(words).map(|(address, word)| Step::Memory { address, word }));
        }
        steps.push(write(TDT, *next));
        steps
    }
}

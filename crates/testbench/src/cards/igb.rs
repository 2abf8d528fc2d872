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
const MSIX_CONTROL: u16 = 0x72;

/// Descriptors of the rings that an orderly driver has.
const RX_DESCRIPTORS: u64 = 304;
const TX_DESCRIPTORS: u64 = 1_024;

// The third word of a transmit descriptor.
const EOP: u32 = 1 << 24;
const IFCS: u32 = 1 << 25;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const VLE: u32 = 1 << 30;
const TSE: u32 = 1 << 31;
const CONTEXT: u32 = DEXT | 2 << 20;
const DATA: u32 = DEXT | 3 << 20;

// Registers; those of a queue are of the first one, in the second of their two places.
const CTRL: u64 = 0x0000;
const CTRL_EXT: u64 = 0x0018;
const MDIC: u64 = 0x0020;
const IMS: u64 = 0x00d0;
const RCTL: u64 = 0x0100;
const TCTL: u64 = 0x0400;
const RDBAL: u64 = 0x2800;
const RDLEN: u64 = 0x2808;
const SRRCTL: u64 = 0x280c;
const RDH: u64 = 0x2810;
const RDT: u64 = 0x2818;
const RXDCTL: u64 = 0x2828;
const TDBAL: u64 = 0x3800;
const TDLEN: u64 = 0x3808;
const TDH: u64 = 0x3810;
const TDT: u64 = 0x3818;
const TXDCTL: u64 = 0x3828;
/// The same of the second queue, in the first of their places.
const SECOND_RX: u64 = 0xc040;
const SECOND_TX: u64 = 0xe040;
const ENABLE: u64 = 1 << 25;

pub(super) struct Igb;

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

/// What RCTL and SRRCTL say of buffers of this size: the size itself, or the next one that there is.
fn buffer_size(bytes: u32) -> (u64, u64) {
    const ONE_BUFFER: u64 = 1 << 25;
    match bytes {
        0..=256 => (3 << 16, ONE_BUFFER),
        257..=2_048 => (0, ONE_BUFFER | 2),
        _ => (0, ONE_BUFFER | 16),
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
    let writes = [
        (0x1514, 0xc000_0011),
        (0x1740, 0x8000),
        (0x1700, 0x8281),
        (0x1684, 0x8000_00c4),
        (0x1688, 0x8000_00c4),
        (0x152c, 7),
        (0x1530, 7),
        (0x1524, 7),
        (IMS, 0x5000_0004),
    ];
    steps.extend(writes.map(|(offset, value)| write(offset, value)));
    steps
}

/// Register writes at which something happens.
const COMMANDS: [(u64, u64); 46] = [
    (CTRL, 0x0400_0241),
    (CTRL, 0x4000_0241),
    (CTRL, 0x8000_0241),
    (CTRL, 0x0000_0201),
    (CTRL_EXT, 0x0000_2000),
    (MDIC, 0x0420_1340),
    (MDIC, 0x0420_0800),
    (0xc0, 0xffff_ffff),
    (0xc8, 0x1000_0095),
    (IMS, 0x5000_00ff),
    (0xd8, 0xffff_ffff),
    (0xe0, 0x5000_009d),
    (0x1514, 0xc000_0011),
    (0x1514, 0),
    (0x1520, 0x3ff),
    (0x1524, 0x8000_03ff),
    (0x1528, 0x3ff),
    (0x152c, 0x3ff),
    (0x1530, 0x3ff),
    (0x1580, 0x3ff),
    (0x1684, 0xc4),
    (0x1700, 0x8384_8281),
    (0x1704, 0x8988_8786),
    (0x1740, 0x8080),
    (RCTL, 0x0402_803e),
    (RCTL, 0x0400_803e),
    (RCTL, 0x0004_8026),
    (SRRCTL, 0x0200_0002),
    (SRRCTL, 0x8211_0001),
    (SRRCTL, 0),
    (SECOND_RX + 0x0c, 0x0200_0001),
    (RXDCTL, ENABLE),
    (RXDCTL, 0),
    (TXDCTL, ENABLE),
    (SECOND_RX + 0x28, ENABLE),
    (SECOND_TX + 0x28, ENABLE),
    (0x5000, 0x300),
    (0x5000, 0x2300),
    (0x5004, 0x2600),
    (0x5004, 100),
    (0x5818, 0x0073_0002),
    (0x5818, 0x0000_0008),
    (0x5c00, 0x0100_0100),
    (0x5c84, 0x1234_5678),
    (0xb608, 1 << 24 | 16 << 19),
    (0xb620, 0x18),
];

impl TestCard for Igb {
    fn name(&self) -> &'static str {
        "igb"
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
        let command = prop::sample::select(COMMANDS.to_vec());
        let place = prop::sample::select(vec![
            RDT,
            RDH,
            TDT,
            TDH,
            SECOND_RX + 0x18,
            SECOND_TX + 0x18,
            SECOND_TX + 0x10,
        ]);
        let place = (place, 0_u64..1_030).prop_map(|(offset, value)| (offset, Width::B4, value));
        let length = prop::sample::select(vec![RDLEN, TDLEN, SECOND_RX + 8, SECOND_TX + 8]);
        let length = (length, any::<u32>())
            .prop_map(|(offset, bytes)| (offset, Width::B4, u64::from(bytes & 0xfff80)));
        let ring = prop::sample::select(vec![RDBAL, TDBAL, SECOND_RX, SECOND_TX]);
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
            write(MDIC, 0x043f_0000),
            write(MDIC, 0x0420_9340),
            Step::Wait { us: 2_000 },
            write(CTRL, 0x0400_0241),
            Step::Ring { address: RX_RING, words, length: RX_DESCRIPTORS, end: false },
            Step::Ring { address: TX_RING, words: [0; 4], length: TX_DESCRIPTORS, end: false },
        ];
        let everything = 0x0400_803a;
        let (in_rctl, in_srrctl) = buffer_size(size);
        let writes = [
            // A station that frames of these histories are for, whatever was written there before.
            (0x5400, 0x004b_5702),
            (0x5404, 0x8000_0100),
            (0x5000, 0x2300),
            (RDBAL, RX_RING),
            (RDBAL + 4, 0),
            (RDLEN, 16 * RX_DESCRIPTORS),
            (RDH, 0),
            (RDT, length.min(RX_DESCRIPTORS - 1)),
            (SRRCTL, in_srrctl),
            (RXDCTL, ENABLE),
            (RCTL, everything | in_rctl),
            (TDBAL, TX_RING),
            (TDBAL + 4, 0),
            (TDLEN, 16 * TX_DESCRIPTORS),
            (TDH, 0),
            (TDT, 0),
            (TXDCTL, ENABLE),
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
        let used = |at: &u64| memory.load_u32(*at + 12).is_ok_and(|word| word & 0xffff != 0);
        let used: Vec<_> = (base..).step_by(16).take(count as usize).filter(used).collect();
        let room = (head + count - 1 - tail) % count;
        let tail = (tail + room.min(used.len() as u64)) % count;
        let words = [BUFFER as u32, (BUFFER >> 32) as u32, 0, 0];
        let clear = |at| {
            let places = (at..).step_by(4).zip(words);
            places.map(|(address, word)| Step::Memory { address, word })
        };
        used.into_iter().flat_map(clear).chain([write(RDT, tail)]).collect()
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
        let without_a_ring =
            [memory_and_master, write(RDT, 5), write(RXDCTL, ENABLE), write(RCTL, 2)];
        // The second queue on the ring of the first.
        let second = [
            (0x00, RX_RING),
            (0x08, 16 * RX_DESCRIPTORS),
            (0x0c, buffer_size(2_000).1),
            (0x18, 1),
            (0x28, ENABLE),
        ];
        let second = second.map(|(offset, value)| write(SECOND_RX + offset, value));
        vec![
            (FindingKind::NotAcknowledged, unanswered.into()),
            HANDLER.given_twice(),
            HANDLER.given_to_two(second.into()),
            HANDLER.changed(),
            (FindingKind::RingNotSet, without_a_ring.into_iter().chain([write(RCTL, 0)]).collect()),
            (FindingKind::Descriptor, transmitted([buffer, 0, EOP | IFCS | RS, 0])),
            (
                FindingKind::OffloadFlags,
                transmitted([14 << 9 | 10, 0, CONTEXT | 1 << 11, 1_000 << 16]),
            ),
            (FindingKind::ReservedBits, transmitted([buffer, 0, whole | DEXT | 4 << 20, 0])),
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
            let lengths = second << 16 | 14 << 9 | start.saturating_sub(14);
            let command = CONTEXT | 1 << 10 | (second >> 30 & 3) << 11;
            descriptors.push([lengths, 0, command, mss << 16 | 20 << 8]);
        }
        for piece in 0..pieces {
            let kind = if with_context { DATA | IFCS } else { IFCS };
            let tag = if second & 1 << 17 != 0 { VLE } else { 0 };
            let segment = if segments { TSE } else { 0 };
            let last = if piece + 1 == pieces { EOP | RS } else { 0 };
            let options = if with_context && piece == 0 { 0x300 | bytes << 14 } else { 0 };
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

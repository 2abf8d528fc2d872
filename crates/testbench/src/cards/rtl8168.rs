use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use warikomi_nic::Link;
use warikomi_nic::strict::FindingKind;
use warikomi_pci::{DmaMemory, SharedMemory, Width};

use super::misstep::{Handler, opened};
use super::step::{BUFFER, RX_RING, Step, TX_RING, TxRequest};
use super::test_card::{TestCard, Write};

const OWN: u32 = 1 << 31;
const END: u32 = 1 << 30;
const FIRST: u32 = 1 << 29;
const LAST: u32 = 1 << 28;
const DESCRIPTORS: u64 = 1_024;

/// The BAR with its registers.
const BAR: u8 = 2;

pub(super) struct Rtl8168;

const HANDLER: Handler =
    Handler { bar: BAR, status: 0x3e, mask: 0x3c, width: Width::B2, received: 1, all: 0x3f };

/// Puts a descriptor at the head of the transmit ring, and rings.
fn transmitted(words: [u32; 4]) -> Vec<Step> {
    vec![
        opened(1),
        Step::Ring { address: TX_RING, words, length: 1, end: false },
        Step::write(BAR, 0x38, Width::B1, 0x40),
    ]
}

impl TestCard for Rtl8168 {
    fn name(&self) -> &'static str {
        "rtl8168"
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn link_mbps(&self) -> u32 {
        1_000
    }

    fn check_sequence_bytes(&self) -> usize {
        4
    }

    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write> {
        let command = prop::sample::select(vec![
            (0x37_u64, Width::B1, 0x0c_u64),
            (0x37, Width::B1, 0x10),
            (0x38, Width::B1, 0x40),
            (0x38, Width::B1, 0xc1),
            (0x44, Width::B4, 0xc70f),
            (0x44, Width::B4, 0xc73f),
            (0x3c, Width::B2, 0xffff),
            (0x3e, Width::B2, 0xffff),
            (0x50, Width::B1, 0xc0),
            (0xe0, Width::B2, 0x2060),
            (0xe2, Width::B2, 0x1234),
            (0x10, Width::B4, 0x2008),
            (0x60, Width::B4, 0x8000_1340),
        ]);
        let ring = (prop::sample::select(vec![0x20_u64, 0x28, 0xe4, 0x10]), address)
            .prop_map(|(offset, at)| (offset, Width::B8, at));
        prop_oneof![2 => command, 1 => ring]
            .prop_map(|(offset, width, value)| (BAR, offset, width, value))
            .boxed()
    }

    fn open(&self, length: u64, size: u32) -> Vec<Step> {
        let words = [OWN | size, 0, BUFFER as u32, 0];
        let mut steps = vec![
            Step::Config { offset: 4, width: Width::B2, value: 0x0406 },
            Step::Plug(Link::Up { mbps: 1_000 }),
            Step::write(BAR, 0x60, Width::B4, 0x801f_0000),
            Step::write(BAR, 0x60, Width::B4, 0x8000_9340),
            Step::Wait { us: 2_000 },
            Step::write(BAR, 0x37, Width::B1, 0x10),
            Step::Ring { address: RX_RING, words, length, end: true },
            Step::Ring { address: TX_RING, words: [0; 4], length: DESCRIPTORS, end: false },
        ];
        let writes = [
            // A station that frames of these histories are for, whatever was written there before.
            (0x50, Width::B1, 0x40),
            (0xec, Width::B1, 0x7f),
            (0xe0, Width::B2, 0x2060),
            (0xda, Width::B2, 0x4000),
            (0x20, Width::B8, TX_RING),
            (0xe8, Width::B4, 0),
            (0xe4, Width::B4, RX_RING),
            (0x37, Width::B1, 0x0c),
            (0x44, Width::B4, 0xc70f),
            (0x3c, Width::B2, 0x003f),
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
        let tcp_and_udp = 0xe000_0000 | 34 << 18;
        let memory_and_master = Step::Config { offset: 4, width: Width::B2, value: 0x0406 };
        let switched = |value| Step::write(BAR, 0x37, Width::B1, value);
        let ring = Step::write(BAR, 0x38, Width::B1, 0x40);
        let again = transmitted([whole, 0, BUFFER as u32, 0]).into_iter();
        let again = again.chain([Step::Next, Step::Next, ring.clone()]).collect();
        let mut all = HANDLER.missteps();
        all.extend([
            HANDLER.given_twice(),
            HANDLER.changed(),
            (FindingKind::RingNotSet, vec![memory_and_master, switched(0x0c), switched(0)]),
            (FindingKind::Descriptor, transmitted([OWN | LAST | 200, 0, BUFFER as u32, 0])),
            (FindingKind::OffloadFlags, transmitted([whole, tcp_and_udp, BUFFER as u32, 0])),
            (FindingKind::ReservedBits, transmitted([whole | 1 << 27, 0, BUFFER as u32, 0])),
            (FindingKind::Dma, transmitted([whole, 0, 0, 0xff])),
            (FindingKind::EmptyDoorbell, vec![opened(1), ring]),
            (FindingKind::DoorbellAgain, again),
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
        frame[46] = 0x50;
        memory.write(BUFFER, &frame).expect("buffers are in memory");
        let mut steps = Vec::new();
        for i in 0..pieces {
            let at = TX_RING + 16 * *next;
            *next = (*next + 1) % DESCRIPTORS;
            let marks =
                if i == 0 { FIRST } else { 0 } | if i + 1 == pieces { LAST } else { 0 } | OWN;
            let words = [opts[0] | bytes | marks, opts[1], BUFFER as u32, 0];
            let places = (at..).step_by(4);
            steps.extend(places.zip(words).map(|(address, word)| Step::Memory { address, word }));
        }
        steps.push(Step::write(BAR, 0x38, Width::B1, 0x40));
        steps
    }
}

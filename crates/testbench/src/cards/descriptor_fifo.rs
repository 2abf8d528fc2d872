use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use warikomi_nic::Link;
use warikomi_nic::strict::FindingKind;
use warikomi_pci::{DmaMemory, SharedMemory, Width};

use super::misstep::{Handler, opened};
use super::step::{BUFFER, RX_RING, Step, TxRequest};
use super::test_card::{TestCard, Write};

const CONTROL: u64 = 0x04;
const FIRST: u32 = 1 << 31;
const LAST: u32 = 1 << 30;
const DONE: u32 = 1 << 31;
const COMPLETIONS: usize = 256;

/// The BAR with its registers.
const BAR: u8 = 0;

/// A card of the family, as suites must know it.
pub(super) struct FifoCard {
    pub(super) name: &'static str,
    pub(super) line_mbps: u32,
}

const HANDLER: Handler =
    Handler { bar: BAR, status: 0x10, mask: 0x14, width: Width::B4, received: 2, all: 0x3f };

fn push_buffer(size: u32) -> [Step; 2] {
    [Step::write(BAR, 0x50, Width::B8, BUFFER), Step::write(BAR, 0x58, Width::B4, size.into())]
}

fn completions() -> impl Iterator<Item = u64> {
    (RX_RING..).step_by(4).take(COMPLETIONS)
}

impl TestCard for FifoCard {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn link_mbps(&self) -> u32 {
        self.line_mbps
    }

    fn check_sequence_bytes(&self) -> usize {
        0
    }

    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write> {
        let command = prop::sample::select(vec![
            (CONTROL, Width::B4, 0x06_u64),
            (CONTROL, Width::B4, 0x04),
            (CONTROL, Width::B4, 0x01),
            (0x14, Width::B4, 0x3f),
            (0x10, Width::B4, 0xffff),
        ]);
        let addresses = (prop::sample::select(vec![0x30_u64, 0x50, 0x68]), address)
            .prop_map(|(offset, at)| (offset, Width::B8, at));
        let marks = prop::sample::select(vec![3_u64 << 30, 1 << 31, 1 << 30, 0]);
        let length = prop_oneof![3 => 0u64..3_000, 1 => 0u64..0x10_0000];
        let push = (prop::sample::select(vec![0x38_u64, 0x58]), marks, length)
            .prop_map(|(offset, marks, length)| (offset, Width::B4, marks | length));
        prop_oneof![1 => command, 1 => addresses, 2 => push]
            .prop_map(|(offset, width, value)| (BAR, offset, width, value))
            .boxed()
    }

    fn open(&self, length: u64, size: u32) -> Vec<Step> {
        let mut steps = vec![
            Step::Config { offset: 4, width: Width::B2, value: 0x0406 },
            Step::Plug(Link::Up { mbps: self.line_mbps }),
            Step::write(BAR, CONTROL, Width::B4, 1),
        ];
        steps.extend(completions().map(|address| Step::Memory { address, word: 0 }));
        steps.push(Step::write(BAR, 0x68, Width::B8, RX_RING));
        steps.extend((0..length).flat_map(|_| push_buffer(size)));
        steps.push(Step::write(BAR, CONTROL, Width::B4, 6));
        steps.push(Step::write(BAR, 0x14, Width::B4, 0x3f));
        steps
    }

    fn give_back(
        &self,
        memory: &SharedMemory,
        _look: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<Step> {
        let is_done = |at: &u64| memory.load_u32(*at).is_ok_and(|entry| entry & DONE != 0);
        let give_back = |address| {
            let [buffer, push] = push_buffer(2_000);
            [Step::Memory { address, word: 0 }, buffer, push]
        };
        completions().filter(is_done).flat_map(give_back).collect()
    }

    fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)> {
        let transmit = |address, marks: u32| {
            vec![
                opened(1),
                Step::write(BAR, 0x30, Width::B8, address),
                Step::write(BAR, 0x38, Width::B4, (marks | 200).into()),
                HANDLER.look(),
                Step::Next,
            ]
        };
        let memory_and_master = Step::Config { offset: 4, width: Width::B2, value: 0x0406 };
        let control = |value| Step::write(BAR, CONTROL, Width::B4, value);
        let one_byte_at = |place| {
            let address = Step::write(BAR, 0x50, Width::B8, BUFFER + 0x1000 + place);
            [address, Step::write(BAR, 0x58, Width::B4, 1)]
        };
        let pushes = (0..256).flat_map(one_byte_at);
        let mut all = HANDLER.missteps();
        all.extend([
            HANDLER.given_twice(),
            (FindingKind::RingNotSet, vec![memory_and_master, control(4), control(0)]),
            (FindingKind::Descriptor, transmit(BUFFER, LAST)),
            (FindingKind::Dma, transmit(0xff_0000_0000, FIRST | LAST)),
            (FindingKind::FifoFull, [opened(1)].into_iter().chain(pushes).collect()),
        ]);
        all
    }

    /// Of the requests of other chips one has a meaning: a packet that lacks a mark.
    fn transmit(
        &self,
        _memory: &SharedMemory,
        _next: &mut u64,
        TxRequest { opts, pieces, bytes }: TxRequest,
    ) -> Vec<Step> {
        let push = |i| {
            let first = if i == 0 && opts[0] == 0 { FIRST } else { 0 };
            let last = if i + 1 == pieces { LAST } else { 0 };
            [
                Step::write(BAR, 0x30, Width::B8, BUFFER + i),
                Step::write(BAR, 0x38, Width::B4, (bytes | first | last).into()),
            ]
        };
        (0..pieces).flat_map(push).collect()
    }
}

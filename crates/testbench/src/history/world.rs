//! A card with memory, a wire and a line of its own, and what must hold after each step.

use proptest::prelude::*;
use warikomi_clock::{Span, Time};
use warikomi_nic::strict::Findings;
use warikomi_nic::{Burst, Frame, Nic, RxCounters};
use warikomi_pci::{DmaMemory, Host};
use warikomi_wire::{Wire, WireCounters};

use crate::bench::{Bench, MEMORY_AND_MASTER};
use crate::cards::step::{BASE, MEMORY, Step};
use crate::cards::{Subject, TestCard};
use crate::memory::CountingMemory;

/// DMA transfers that one call may need: both rings of 1,024 descriptors, each looked at twice,
/// with up to four transfers a look, and some.
const TRANSFERS_PER_CALL: u64 = 20_000;

/// Frames that can be with the driver: in a ring of 1,024 descriptors, ...
const MOST_ON_DESCRIPTORS: u64 = 1_024;
/// ... or the shortest in 64 KB.
const MOST_IN_BYTES: u64 = 2_730;

/// Sends every eighth frame back.
#[derive(Default)]
struct Echo {
    back: Vec<Vec<u8>>,
    counters: WireCounters,
}

impl Wire for Echo {
    fn transmit(&mut self, _now: Time, frame: &[u8]) {
        assert!((1..=65_549).contains(&frame.len()), "{} bytes", frame.len());
        self.counters.tx_frames += 1;
        if self.counters.tx_frames.is_multiple_of(8) && self.back.len() < 16 {
            self.back.push(frame.to_vec());
        }
    }
    fn next_arrival(&self) -> Time {
        if self.back.is_empty() { Time::NEVER } else { Time::ZERO }
    }
    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        self.back.pop()
    }
    fn counters(&self) -> WireCounters {
        self.counters
    }
}

pub(crate) struct World {
    card: &'static dyn TestCard,
    pub(crate) bench: Bench,
    /// The bench's memory, as the card sees it.
    counting: CountingMemory,
    /// Its transfers take time.
    paced: bool,
    /// It looks at descriptors within every write.
    strict: bool,
    /// Frames that this test has put on the ring.
    pub(super) on_ring: u64,
    /// Where the orderly driver is in its transmit ring.
    tx_next: u64,
    /// The account after the last step.
    pub(super) last: RxCounters,
}

impl World {
    pub(crate) fn new(subject: &Subject) -> World {
        let bench = Bench::around(subject.build(Box::<Echo>::default()))
            .with_memory(BASE, MEMORY)
            .at(Time::ZERO + Span::from_ms(1))
            .commanded(MEMORY_AND_MASTER);
        World {
            card: subject.card,
            counting: CountingMemory::new(bench.memory.clone()),
            bench,
            paced: subject.is_paced(),
            strict: subject.options.strict,
            on_ring: 0,
            tx_next: 0,
            last: RxCounters::default(),
        }
    }

    /// What a strict card has found so far.
    pub(super) fn findings(&mut self) -> Findings {
        self.bench.nic.strict().expect("a strict card").findings()
    }

    /// What the driver sees of the card besides its registers: memory, and how many messages it has got.
    pub(super) fn seen(&self) -> (Vec<u8>, u64) {
        (self.bench.bytes(BASE, MEMORY), self.bench.raised())
    }

    /// Takes a step.
    pub(crate) fn apply(&mut self, step: &Step) {
        let World { card, bench: Bench { memory, nic, now, .. }, tx_next, .. } = self;
        match step {
            Step::Open { length, size } => {
                *tx_next = 0;
                let steps = card.open(*length, *size);
                self.apply_all(&steps);
            }
            Step::GiveBack => {
                let (card, memory) = (*card, memory.clone());
                let bar = self.bench.register_bar();
                let steps = card.give_back(&memory, &mut |offset| {
                    self.with(|nic, host| nic.register(host, bar, offset))
                });
                self.apply_all(&steps);
            }
            Step::Transmit(request) => {
                let steps = card.transmit(memory, tx_next, *request);
                self.apply_all(&steps);
            }
            Step::Memory { address, word } => {
                let _ = memory.store_u32(*address, *word);
            }
            Step::Ring { address, words, length, end } => {
                self.write_ring(*address, *words, *length, *end);
            }
            Step::Wait { us } => {
                let time = *now + Span::from_us(*us);
                self.go_to(time);
            }
            Step::Next => {
                let due = nic.next_due();
                if due != Time::NEVER {
                    self.go_to(due);
                }
            }
            _ => self.call(step),
        }
    }

    fn apply_all(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.apply(step));
    }

    fn write_ring(&mut self, address: u64, words: [u32; 4], length: u64, end: bool) {
        for i in 0..length {
            let mark = if end && i + 1 == length { 0x4000_0000 } else { 0 };
            for (j, word) in words.iter().enumerate() {
                let word = if j == 0 { word | mark } else { *word };
                let at = address.wrapping_add(16 * i + 4 * j as u64);
                let _ = self.bench.memory.store_u32(at & !3, word);
            }
        }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let Bench { nic, line, now, .. } = &mut self.bench;
        call(
            &mut **nic,
            &mut Host { now: *now, memory: &self.counting, interrupts: line, looks: None },
        )
    }

    fn go_to(&mut self, time: Time) {
        self.bench.now = self.bench.now.max(time);
        self.with(|nic, host| nic.poll(host));
    }

    /// What a register write must not do if transfers take time.
    fn done(&mut self) -> (u64, u64) {
        (self.counting.reads(), self.bench.nic.wire().counters().tx_frames)
    }

    /// A step that is a call of the card.
    fn call(&mut self, step: &Step) {
        match step {
            Step::Read { bar, offset, width } => {
                let value = self.with(|nic, host| nic.bar_read(host, *bar, *offset, *width));
                assert!(value <= width.mask());
            }
            Step::Write { bar, offset, width, value } => {
                let before = self.done();
                self.with(|nic, host| nic.bar_write(host, *bar, *offset, *width, *value));
                let may = !self.paced || self.strict || self.done() == before;
                assert!(may, "a transfer within a register write");
            }
            Step::Config { offset, width, value } => {
                self.with(|nic, host| nic.config_write(host, *offset, *width, *value));
            }
            Step::Frame { bytes, fault } => {
                let frame = Frame { bytes, fcs: 0 };
                let reception = self.with(|nic, host| match fault {
                    None => nic.receive(host, frame),
                    Some(fault) => nic.receive_faulty(host, frame, *fault),
                });
                self.on_ring += u64::from(reception.outcome.is_on_ring());
            }
            Step::Burst { bytes, frames, announced } => self.burst(bytes, *frames, *announced),
            Step::Plug(link) => self.with(|nic, host| nic.set_link(host, *link)),
            Step::Progress { limit } => {
                self.with(|nic, host| nic.rx_progress(host, *limit));
            }
            Step::Free { limit } => {
                assert!(self.with(|nic, host| nic.rx_free(host, *limit)) <= *limit);
            }
            Step::PowerOn => self.with(|nic, host| nic.power_on(host)),
            _ => unreachable!("carried out by `apply`"),
        }
    }

    /// Each frame of a burst is a call.
    fn burst(&mut self, bytes: &[u8], frames: usize, announced: usize) {
        let World { bench: Bench { nic, line, now, .. }, counting, strict, on_ring, .. } = self;
        let mut host = Host { now: *now, memory: counting, interrupts: line, looks: None };
        let mut burst = Burst::new(&mut **nic, &mut host, announced, bytes.len());
        assert!(burst.found() <= announced);
        for _ in 0..frames {
            let outcome = burst.receive(Frame { bytes, fcs: 0 }).outcome;
            *on_ring += u64::from(outcome.is_on_ring());
            let transfers = counting.take_transfers();
            assert!(*strict || transfers < TRANSFERS_PER_CALL, "{transfers} for one frame");
        }
    }

    /// The account after a step, looked at without changing it.
    pub(super) fn check(&mut self) -> Result<(), TestCaseError> {
        let transfers = self.counting.take_transfers();
        let bounded = self.strict || transfers < TRANSFERS_PER_CALL;
        prop_assert!(bounded, "{transfers} transfers in one call");
        let seen = self.with(|nic, host| nic.rx_progress(host, 0));
        let last = self.last;
        prop_assert!(seen.on_ring >= seen.accepted + seen.abandoned, "{seen:?}");
        let outstanding = seen.on_ring - seen.accepted - seen.abandoned;
        let buffers = self.card.abilities().buffers;
        let most = if buffers { MOST_ON_DESCRIPTORS } else { MOST_IN_BYTES };
        prop_assert!(outstanding <= most, "{seen:?}");
        prop_assert!(seen.on_ring >= last.on_ring, "counts never go back");
        prop_assert!(seen.accepted >= last.accepted && seen.abandoned >= last.abandoned);
        self.last = seen;
        Ok(())
    }
}

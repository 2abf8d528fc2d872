//! A NIC with memory, a wire and a line of its own, and what must hold after each step.

use std::cell::Cell;

use proptest::prelude::*;
use warikomi_clock::{Span, Time};
use warikomi_nic::wire::{Wire, WireCounters};
use warikomi_nic::{Frame, Nic, NicOptions, RxCounters, build};
use warikomi_pci::{DmaError, DmaMemory, Host, Interrupt, IntrLine, SharedMemory, Width};

use super::steps::Step;

pub(crate) const BASE: u64 = 0x1000;
pub(crate) const MEMORY: usize = 0x2_0000;
pub(crate) const RX_RING: u64 = BASE;
pub(crate) const TX_RING: u64 = BASE + 0x8000;
pub(crate) const BUFFER: u64 = BASE + 0x1_0000;

/// DMA transfers that one call may need: both rings of 1,024 descriptors, each looked at twice,
/// with up to four transfers a look, and some.
const TRANSFERS_PER_CALL: u64 = 20_000;

/// Counts transfers, and of these the bytes' way to the device.
pub(crate) struct Counting {
    pub(crate) memory: SharedMemory,
    transfers: Cell<u64>,
    reads: Cell<u64>,
}

impl Counting {
    fn count(&self) {
        self.transfers.set(self.transfers.get() + 1);
    }
}

impl DmaMemory for Counting {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        self.count();
        self.reads.set(self.reads.get() + 1);
        self.memory.read(address, into)
    }
    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        self.count();
        self.memory.write(address, from)
    }
    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        self.count();
        self.memory.load_u32(address)
    }
    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        self.count();
        self.memory.store_u32(address, value)
    }
}

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

#[derive(Default)]
struct Line(u64);

impl IntrLine for Line {
    fn signal(&mut self, _interrupt: Interrupt) {
        self.0 += 1;
    }
}

pub(crate) struct World {
    nic: Box<dyn Nic>,
    pub(crate) memory: Counting,
    line: Line,
    now: Time,
    /// Its transfers take time.
    paced: bool,
    /// Frames that this test has put on the ring.
    pub(crate) on_ring: u64,
    /// The next transmit descriptor.
    pub(crate) tx_next: u64,
    /// The account after the last step.
    pub(crate) last: RxCounters,
}

impl World {
    pub(crate) fn new(options: &NicOptions) -> World {
        let memory = SharedMemory::anonymous(BASE, MEMORY).unwrap();
        let nic = build(options, Box::<Echo>::default()).unwrap();
        let takes_time = options.bus.is_some() || options.line_rate_bps.is_some();
        let mut world = World {
            paced: takes_time || nic.info().name == "oc48",
            nic,
            memory: Counting { memory, transfers: Cell::new(0), reads: Cell::new(0) },
            line: Line::default(),
            now: Time::ZERO + Span::from_ms(1),
            on_ring: 0,
            tx_next: 0,
            last: RxCounters::default(),
        };
        world.apply(&Step::Config { offset: 4, width: Width::B2, value: 0x0406 });
        world
    }

    pub(crate) fn write(&mut self, offset: u64, width: Width, value: u64) {
        self.apply(&Step::Write { offset, width, value });
    }

    pub(crate) fn word(&mut self, address: u64, word: u32) {
        self.apply(&Step::Memory { address, word });
    }

    /// Takes a step.
    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::Open { .. } | Step::GiveBack | Step::Transmit { .. } => {
                match self.nic.info().name {
                    "oc48" => self.drive_oc48(step),
                    _ => self.drive_rtl8168(step),
                }
            }
            Step::Memory { address, word } => {
                let _ = self.memory.memory.store_u32(*address, *word);
            }
            Step::Ring { address, words, length, end } => {
                self.write_ring(*address, *words, *length, *end);
            }
            Step::Wait { us } => self.go_to(self.now + Span::from_us(*us)),
            Step::Next if self.nic.next_due() != Time::NEVER => self.go_to(self.nic.next_due()),
            Step::Next => {}
            _ => self.call(step),
        }
    }

    fn write_ring(&mut self, address: u64, words: [u32; 4], length: u64, end: bool) {
        for i in 0..length {
            let mark = if end && i + 1 == length { 0x4000_0000 } else { 0 };
            for (j, word) in words.iter().enumerate() {
                let word = if j == 0 { word | mark } else { *word };
                let at = address.wrapping_add(16 * i + 4 * j as u64);
                let _ = self.memory.memory.store_u32(at & !3, word);
            }
        }
    }

    fn go_to(&mut self, time: Time) {
        self.now = self.now.max(time);
        let World { nic, memory, line, now, .. } = self;
        nic.poll(&mut Host { now: *now, memory, interrupts: line });
    }

    /// A step that is a call of the NIC.
    fn call(&mut self, step: &Step) {
        let World { nic, memory, line, now, on_ring, paced, .. } = self;
        let mut host = Host { now: *now, memory, interrupts: line };
        let bar = nic.info().register_bar;
        match step {
            Step::Read { offset, width } => {
                assert!(nic.bar_read(&mut host, bar, *offset, *width) <= width.mask());
            }
            Step::Write { offset, width, value } => {
                let done =
                    |nic: &mut dyn Nic| (memory.reads.get(), nic.wire().counters().tx_frames);
                let before = done(&mut **nic);
                nic.bar_write(&mut host, bar, *offset, *width, *value);
                assert!(
                    !*paced || done(&mut **nic) == before,
                    "a transfer within a register write"
                );
            }
            Step::Config { offset, width, value } => {
                nic.config_write(&mut host, *offset, *width, *value);
            }
            Step::Frame { bytes, fault } => {
                let frame = Frame { bytes, fcs: 0 };
                let outcome = match fault {
                    None => nic.receive(&mut host, frame),
                    Some(fault) => nic.receive_faulty(&mut host, frame, *fault),
                };
                *on_ring += u64::from(outcome.outcome.is_on_ring());
            }
            Step::Plug(link) => nic.set_link(&mut host, *link),
            Step::Progress { limit } => {
                nic.rx_progress(&mut host, *limit);
            }
            Step::Free { limit } => {
                assert!(nic.rx_free(&mut host, *limit) <= *limit);
            }
            Step::PowerOn => nic.power_on(&mut host),
            _ => {}
        }
    }

    /// The account after a step, looked at without changing it.
    pub(crate) fn check(&mut self) -> Result<(), TestCaseError> {
        let transfers = self.memory.transfers.replace(0);
        prop_assert!(transfers < TRANSFERS_PER_CALL, "{transfers} transfers in one call");
        let World { nic, memory, line, now, last, .. } = self;
        let mut host = Host { now: *now, memory, interrupts: line };
        let seen = nic.rx_progress(&mut host, 0);
        prop_assert!(seen.on_ring >= seen.accepted + seen.abandoned, "{seen:?}");
        prop_assert!(seen.on_ring - seen.accepted - seen.abandoned <= 1_024, "{seen:?}");
        prop_assert!(seen.on_ring >= last.on_ring, "counts never go back");
        prop_assert!(seen.accepted >= last.accepted && seen.abandoned >= last.abandoned);
        *last = seen;
        Ok(())
    }
}

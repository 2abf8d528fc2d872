//! Whatever a driver does, nothing panics, nothing runs without a bound, and the account adds up.
//!
//! A failure is shrunk, printed and kept in `tests/properties.regressions`; every later run starts
//! with what is kept there, so `cargo test -p warikomi-nic --test properties` repeats it. `PROPTEST_CASES` sets the number
//! of histories.

#![allow(missing_docs)]

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use warikomi_clock::{Span, Time};
use warikomi_nic::wire::{Wire, WireCounters};
use warikomi_nic::{Frame, Link, MODELS, Nic, NicOptions, RxCounters, RxError, RxFault, build};
use warikomi_pci::{DmaError, DmaMemory, Host, Interrupt, IntrLine, SharedMemory, Width};

const BASE: u64 = 0x1000;
const MEMORY: usize = 0x2_0000;
/// DMA transfers that one call may need: both rings of 1,024 descriptors, each looked at twice,
/// with up to four transfers a look, and some.
const TRANSFERS_PER_CALL: u64 = 20_000;

/// Counts transfers.
struct Counting {
    memory: SharedMemory,
    transfers: Cell<u64>,
}

impl Counting {
    fn count(&self) {
        self.transfers.set(self.transfers.get() + 1);
    }
}

impl DmaMemory for Counting {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        self.count();
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

#[derive(Clone, Debug)]
enum Step {
    Read {
        offset: u64,
        width: Width,
    },
    Write {
        offset: u64,
        width: Width,
        value: u64,
    },
    Config {
        offset: u16,
        width: Width,
        value: u64,
    },
    Memory {
        address: u64,
        word: u32,
    },
    /// A descriptor ring's worth of the same descriptor.
    Ring {
        address: u64,
        words: [u32; 4],
        length: u64,
        end: bool,
    },
    /// A driver that knows what it does opens the chip: its ring of this many descriptors with
    /// buffers of this size.
    Open {
        length: u64,
        size: u32,
    },
    /// It gives every descriptor of that ring back.
    GiveBack,
    /// It transmits, with these requests in its descriptors.
    Transmit {
        opts: [u32; 2],
        pieces: u64,
        bytes: u32,
    },
    Frame {
        bytes: Vec<u8>,
        fault: Option<RxFault>,
    },
    Wait {
        us: u64,
    },
    Plug(Link),
    Progress {
        limit: usize,
    },
    Free {
        limit: usize,
    },
    PowerOn,
}

fn width() -> impl Strategy<Value = Width> {
    prop::sample::select(vec![Width::B1, Width::B2, Width::B4, Width::B8])
}

/// Addresses: mostly inside memory, at its edges, and anywhere.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0..MEMORY as u64 / 256).prop_map(|page| BASE + 256 * page),
        1 => Just(BASE + MEMORY as u64 - 256),
        1 => BASE..BASE + MEMORY as u64,
        1 => any::<u64>(),
    ]
}

/// First words of descriptors: every mark, sizes mostly small.
fn opts1() -> impl Strategy<Value = u32> {
    (
        prop::sample::select(vec![0x8, 0xb, 0xa, 0x9, 0xf, 0x0, 0xc]),
        any::<u16>(),
        0u32..2_000,
        0u32..8,
    )
        .prop_map(|(marks, high, size, kind): (u32, u16, u32, u32)| {
            let middle = if kind == 0 { u32::from(high & 0x0fff) << 16 } else { 0 };
            let length = match kind {
                1 => 0,
                2 => 0xffff,
                _ => size,
            };
            marks << 28 | middle | length
        })
}

fn descriptor() -> impl Strategy<Value = [u32; 4]> {
    (opts1(), prop_oneof![3 => Just(0), 1 => any::<u32>()], address())
        .prop_map(|(opts1, opts2, at)| [opts1, opts2, at as u32, (at >> 32) as u32])
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 60..300),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (60usize..20_000).prop_map(|length| vec![0x11; length]),
    ];
    let start = prop::sample::select(vec![
        vec![],
        vec![0x02, 0x57, 0x4b, 0, 0, 1],
        vec![0xff; 6],
        vec![2, 0x57, 0x4b, 0, 0, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45],
        vec![2, 0x57, 0x4b, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0, 1, 0x86, 0xdd, 0x60],
    ]);
    (bytes, start).prop_map(|(mut bytes, start)| {
        for (byte, with) in bytes.iter_mut().zip(start) {
            *byte = with;
        }
        bytes
    })
}

fn fault() -> impl Strategy<Value = RxFault> {
    let errors = prop::sample::select(vec![RxError::Crc, RxError::Runt, RxError::TooLong]);
    prop_oneof![
        Just(RxFault::Crc),
        Just(RxFault::Alignment),
        errors.prop_map(RxFault::Reported),
        any::<u16>().prop_map(RxFault::Length),
        Just(RxFault::NeverCompleted),
        (0u64..5_000).prop_map(|us| RxFault::CompletedLate(Span::from_us(us))),
    ]
}

/// Accesses at which something happens, besides any access.
fn write() -> impl Strategy<Value = Step> {
    let any_write = (prop_oneof![9 => 0u64..0x108, 1 => any::<u64>()], width(), any::<u64>());
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
    let ring = (prop::sample::select(vec![0x20_u64, 0x28, 0xe4, 0x10]), address())
        .prop_map(|(offset, at)| (offset, Width::B8, at));
    prop_oneof![2 => any_write, 4 => command, 2 => ring]
        .prop_map(|(offset, width, value)| Step::Write { offset, width, value })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => write(),
        3 => (0u64..0x1010, width()).prop_map(|(offset, width)| Step::Read { offset, width }),
        1 => (any::<u16>(), width(), any::<u64>())
            .prop_map(|(offset, width, value)| Step::Config { offset, width, value }),
        1 => Just(Step::Config { offset: 4, width: Width::B2, value: 0x0406 }),
        3 => (address(), any::<u32>()).prop_map(|(at, word)| Step::Memory { address: at & !3, word }),
        4 => (address(), descriptor(), 1u64..1_100, any::<bool>())
            .prop_map(|(address, words, length, end)| Step::Ring { address, words, length, end }),
        8 => (frame(), prop::option::weighted(0.3, fault()))
            .prop_map(|(bytes, fault)| Step::Frame { bytes, fault }),
        2 => (0u64..5_000).prop_map(|us| Step::Wait { us }),
        1 => prop::sample::select(vec![
            Link::Down, Link::Up { mbps: 10 }, Link::Up { mbps: 1_000 }, Link::Up { mbps: 0 },
        ]).prop_map(Step::Plug),
        1 => any::<usize>().prop_map(|limit| Step::Progress { limit }),
        1 => any::<usize>().prop_map(|limit| Step::Free { limit }),
        1 => Just(Step::PowerOn),
        6 => open(),
        6 => Just(Step::GiveBack),
        8 => transmit(),
    ]
}

fn open() -> impl Strategy<Value = Step> {
    let size = prop::sample::select(vec![2_048, 16_383, 100, 0]);
    (1u64..300, size).prop_map(|(length, size)| Step::Open { length, size })
}

/// Plain, checksums, tags, large sends with all kinds of segment sizes and offsets.
fn transmit() -> impl Strategy<Value = Step> {
    let opts = prop_oneof![
        3 => Just([0, 0]),
        1 => Just([0, 0x6002_0500 | 34 << 18]),
        3 => (prop::sample::select(vec![34_u32, 54, 14, 0, 127]), 0u32..0x7ff)
            .prop_map(|(offset, mss)| [1 << 26 | offset << 18, mss << 18]),
        1 => any::<[u32; 2]>().prop_map(|[a, b]| [a & 0x07ff_0000, b]),
    ];
    let bytes = prop_oneof![4 => 1u32..3_000, 1 => 0u32..0x1_0000];
    (opts, 1u64..20, bytes).prop_map(|(opts, pieces, bytes)| Step::Transmit { opts, pieces, bytes })
}

const RX_RING: u64 = BASE;
const TX_RING: u64 = BASE + 0x8000;
const BUFFER: u64 = BASE + 0x1_0000;

struct World {
    nic: Box<dyn Nic>,
    memory: Counting,
    line: Line,
    now: Time,
    on_ring: u64,
    tx_next: u64,
    last: RxCounters,
}

impl World {
    fn new(model: &str) -> World {
        let memory = SharedMemory::anonymous(BASE, MEMORY).unwrap();
        let mut world = World {
            nic: build(&NicOptions::of(model), Box::<Echo>::default()).unwrap(),
            memory: Counting { memory, transfers: Cell::new(0) },
            line: Line::default(),
            now: Time::ZERO + Span::from_ms(1),
            on_ring: 0,
            tx_next: 0,
            last: RxCounters::default(),
        };
        world.apply(&Step::Config { offset: 4, width: Width::B2, value: 0x0406 });
        world
    }

    fn write(&mut self, offset: u64, width: Width, value: u64) {
        self.apply(&Step::Write { offset, width, value });
    }

    fn word(&mut self, address: u64, word: u32) {
        self.apply(&Step::Memory { address, word });
    }

    /// What an orderly driver of this chip does.
    fn open(&mut self, length: u64, size: u32) {
        self.apply(&Step::Config { offset: 4, width: Width::B2, value: 0x0406 });
        self.apply(&Step::Plug(Link::Up { mbps: 1_000 }));
        self.write(0x60, Width::B4, 0x801f_0000);
        self.write(0x60, Width::B4, 0x8000_9340);
        self.apply(&Step::Wait { us: 2_000 });
        self.write(0x37, Width::B1, 0x10);
        let words = [0x8000_0000 | size, 0, BUFFER as u32, 0];
        self.apply(&Step::Ring { address: RX_RING, words, length, end: true });
        self.apply(&Step::Ring { address: TX_RING, words: [0; 4], length: 1_024, end: false });
        // A station that frames of this test are for, whatever was written there before.
        self.write(0x50, Width::B1, 0x40);
        for (offset, width, value) in [
            (0xec, Width::B1, 0x7f),
            (0xe0, Width::B2, 0x2060),
            (0xda, Width::B2, 0x4000),
            (0x20, Width::B8, TX_RING),
            (0xe4, Width::B8, RX_RING),
            (0x37, Width::B1, 0x0c),
            (0x44, Width::B4, 0xc70f),
            (0x3c, Width::B2, 0x003f),
        ] {
            self.write(offset, width, value);
        }
        self.tx_next = 0;
    }

    fn give_back(&mut self) {
        for i in 0..1_024 {
            let at = RX_RING + 16 * i;
            let Ok(opts1) = self.memory.memory.load_u32(at) else { return };
            self.word(at, opts1 & 0x4000_0000 | 0x8000_0000 | 2_000);
            if opts1 & 0x4000_0000 != 0 {
                return;
            }
        }
    }

    fn transmit(&mut self, opts: [u32; 2], pieces: u64, bytes: u32) {
        // Headers in front, so that the requests find something to work on.
        let mut frame = vec![0x5a; 256];
        frame[..15].copy_from_slice(&[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0, 0x45]);
        frame[46] = 0x50;
        self.memory.memory.write(BUFFER, &frame).unwrap();
        for i in 0..pieces {
            let at = TX_RING + 16 * self.tx_next;
            self.tx_next = (self.tx_next + 1) % 1_024;
            let marks = if i == 0 { 0x2000_0000 } else { 0 }
                | if i + 1 == pieces { 0x1000_0000 } else { 0 };
            for (j, word) in [opts[0] | bytes, opts[1], BUFFER as u32, 0].into_iter().enumerate() {
                let word = if j == 0 { word | marks | 0x8000_0000 } else { word };
                self.word(at + 4 * j as u64, word);
            }
        }
        self.write(0x38, Width::B1, 0x40);
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Open { length, size } => return self.open(*length, *size),
            Step::GiveBack => return self.give_back(),
            Step::Transmit { opts, pieces, bytes } => {
                return self.transmit(*opts, *pieces, *bytes);
            }
            _ => {}
        }
        if let Step::Wait { us } = step {
            self.now += Span::from_us(*us);
        }
        let World { nic, memory, line, now, on_ring, .. } = self;
        let shared = &memory.memory;
        let mut host = Host { now: *now, memory, interrupts: line };
        let bar = nic.info().register_bar;
        match step {
            Step::Read { offset, width } => {
                assert!(nic.bar_read(&mut host, bar, *offset, *width) <= width.mask());
            }
            Step::Write { offset, width, value } => {
                nic.bar_write(&mut host, bar, *offset, *width, *value);
            }
            Step::Config { offset, width, value } => {
                nic.config_write(&mut host, *offset, *width, *value);
            }
            Step::Memory { address, word } => {
                let _ = shared.store_u32(*address, *word);
            }
            Step::Ring { address, words, length, end } => {
                for i in 0..*length {
                    let mark = if *end && i + 1 == *length { 0x4000_0000 } else { 0 };
                    for (j, word) in words.iter().enumerate() {
                        let word = if j == 0 { word | mark } else { *word };
                        let at = address.wrapping_add(16 * i + 4 * j as u64);
                        let _ = shared.store_u32(at & !3, word);
                    }
                }
            }
            Step::Frame { bytes, fault } => {
                let frame = Frame { bytes, fcs: 0 };
                let outcome = match fault {
                    None => nic.receive(&mut host, frame),
                    Some(fault) => nic.receive_faulty(&mut host, frame, *fault),
                };
                *on_ring += u64::from(outcome.is_on_ring());
            }
            Step::Wait { .. } => nic.poll(&mut host),
            Step::Plug(link) => nic.set_link(&mut host, *link),
            Step::Progress { limit } => {
                nic.rx_progress(&mut host, *limit);
            }
            Step::Free { limit } => {
                assert!(nic.rx_free(&mut host, *limit) <= *limit);
            }
            Step::PowerOn => nic.power_on(&mut host),
            Step::Open { .. } | Step::GiveBack | Step::Transmit { .. } => {}
        }
    }

    /// The account after a step, looked at without changing it.
    fn check(&mut self) -> Result<(), TestCaseError> {
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

fn config() -> ProptestConfig {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/properties.regressions");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(kept))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_wild_driver_breaks_nothing(steps in prop::collection::vec(step(), 1..150)) {
        for info in MODELS {
            let mut world = World::new(info.name);
            for step in &steps {
                world.apply(step);
                world.check()?;
            }
            // Frames that the wire delivered count as well, so there may be more on the ring.
            prop_assert!(world.last.on_ring >= world.on_ring);
            // What is still out is settled by a power cycle: nothing stays in the air.
            world.apply(&Step::PowerOn);
            world.check()?;
            let RxCounters { on_ring, accepted, abandoned } = world.last;
            prop_assert_eq!(on_ring, accepted + abandoned);
        }
    }
}

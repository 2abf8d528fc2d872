//! What only the rtl8168 has: descriptors in memory, and counters.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use warikomi_driver::rtl8168::Rtl8168;
use warikomi_driver::state::{LocalWords, Predecessor, Shown, StateArea};
use warikomi_driver::{Buffer, NicDriver, Received, RxSink, TxFrame};
use warikomi_nic::{RxError, RxFault, RxOutcome};
use warikomi_pci::DmaMemory;
use warikomi_pci::attach::area;
use warikomi_testbench::{RTL8168, Rig, Subject, frame};

fn open(buffers: usize, bytes: u32) -> Rig {
    Rig::open(&Subject::of(RTL8168), buffers, bytes)
}

#[test]
fn a_frame_longer_than_its_buffer_is_refused_once_and_its_buffers_come_back() {
    let mut rig = open(8, 512);
    assert_eq!(rig.bench.receive(&frame(1_514, 1)), RxOutcome::OnRing);
    assert_eq!(rig.bench.receive(&frame(500, 2)), RxOutcome::OnRing);
    assert_eq!(rig.poll(64), Ok(4));
    assert_eq!(rig.frames(), [frame(500, 2)]);
    assert_eq!((rig.driver.rx_errors(), rig.sink.returned), (1, 3));
    assert_eq!(rig.sink.out(), 8);
}

#[test]
fn damaged_frames_and_lengths_that_lie_are_refused_and_counted() {
    let mut rig = open(8, 256);
    let good = frame(100, 3);
    let faults = [
        RxFault::Reported(RxError::Crc),
        RxFault::Reported(RxError::Runt),
        RxFault::Length(0),
        RxFault::Length(4),
        RxFault::Length(257),
        RxFault::Length(0x3fff),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        rig.bench.receive_faulty(&good, fault);
        assert_eq!(rig.poll(64), Ok(1));
        assert_eq!((rig.frames().len(), rig.driver.rx_errors()), (0, number as u64 + 1));
    }
    rig.bench.receive(&good);
    assert_eq!(rig.poll(64), Ok(1));
    assert_eq!(rig.frames(), [good]);
}

#[test]
fn the_devices_counters_are_read() {
    let mut rig = Rig::new(&Subject::of(RTL8168), 2, 2_048);
    let mut driver = Rtl8168::new();
    rig.with_sink(|_, hw, sink| driver.init(hw, Rig::RINGS, 2, sink)).unwrap();
    for n in 0..5 {
        rig.bench.receive(&frame(60, n));
    }
    let statistics = rig.with(|_, hw| driver.statistics(hw)).unwrap();
    assert_eq!((statistics.rx_packets, statistics.rx_missed), (2, 3));
    assert_eq!(driver.mac_address(), [0x02, 0x57, 0x4b, 0, 0, 1]);
}

#[test]
fn the_rings_end_mark_stays_whatever_comes() {
    let mut rig = open(7, 1_024);
    for n in 0..50 {
        rig.bench.receive(&frame(60 + n, n));
        rig.poll(64).unwrap();
        let mut word = [0; 4];
        rig.memory.read(Rig::RINGS + 16 * 6, &mut word).unwrap();
        assert!(word[3] & 0x40 != 0);
    }
}

/// The doorbell of a driver that takes over, and what a strict card has against it: the frames that are sent then.
fn taken_over(predecessor: Predecessor, rung: usize, not_rung: usize) -> usize {
    let mut rig = Rig::new(&Subject::of(RTL8168).strict(), 4, 2_048);
    let state = StateArea::new(Rc::new(LocalWords::new()));
    rig.driver.keep_state(state.clone(), Shown::default()).unwrap();
    rig.init(4).unwrap();
    // Names of frames are none of buffers.
    let frames = |from: usize, count: usize| (100 + from..).take(count).map(|n| n as u32);
    let put = |rig: &mut Rig, token| assert!(rig.put(&[&[0x5a; 60]], token).unwrap());
    frames(0, rung).for_each(|token| put(&mut rig, token));
    rig.kick();
    frames(rung, not_rung).for_each(|token| put(&mut rig, token));
    rig.driver.hand_over(1).unwrap();
    assert_eq!(rig.bench.sent().len(), rung);
    rig.driver = Box::new(Rtl8168::new());
    rig.driver.keep_state(state, Shown::default()).unwrap();
    let held = rig.with(|driver, hw| driver.take_over(hw, predecessor, Shown::default())).unwrap();
    assert_eq!(held.sending.len(), rung + not_rung);
    rig.bench.settle();
    let found = rig.bench.nic.strict().expect("a strict card").findings();
    assert_eq!(found.list(), [], "{predecessor:?}, {rung} rung, {not_rung} not");
    rig.bench.sent().len()
}

#[test]
fn a_driver_that_takes_over_rings_only_for_frames_that_the_card_has() {
    for predecessor in [Predecessor::HandedOver, Predecessor::Died] {
        for rung in [0, 1, 5] {
            assert_eq!(taken_over(predecessor, rung, 0), 0, "a quiet ring");
            assert_eq!(taken_over(predecessor, rung, 3), 3, "a doorbell was missing");
        }
    }
}

/// Buffers by their names only, as for a driver that has taken over.
struct Names(u32);

impl RxSink for Names {
    fn buffer(&mut self) -> Option<Buffer> {
        None
    }
    fn received(&mut self, buffer: Buffer, frame: Received) {
        assert!(buffer.token() < self.0 && frame.bytes <= buffer.bytes());
    }
    fn returned(&mut self, buffer: Buffer) {
        assert!(buffer.token() < self.0);
    }
    fn named(&self, token: u32) -> Option<Buffer> {
        Buffer::new(Rig::RINGS, 700, token).filter(|_| token < self.0)
    }
}

proptest! {
    /// Whatever a predecessor has left, it is refused before anything is stored, or gone on with.
    #[test]
    fn garbage_that_a_predecessor_leaves_is_refused_or_gone_on_with(
        buffers in 1usize..12,
        writes in prop::collection::vec((0usize..16, 0u32..30, 0u32..30, any::<bool>()), 0..12),
        wild in prop::option::of((0usize..area::WORDS, any::<u64>())),
        descriptors in prop::collection::vec((0u64..24, any::<u32>(), any::<bool>()), 0..12),
        shown in (0u64..20, 0u64..4),
        handed_over: bool,
    ) {
        let mut rig = Rig::new(&Subject::of(RTL8168), buffers, 700);
        let state = StateArea::new(Rc::new(LocalWords::new()));
        rig.driver.keep_state(state.clone(), Shown::default()).unwrap();
        rig.init(buffers).unwrap();
        rig.driver.hand_over(1).unwrap();
        for (index, count, token, tx) in writes {
            let first = if tx { area::TX_SLOTS } else { area::RX_SLOTS };
            let word = u64::from(count) << 32 | area::PRESENT | u64::from(token);
            state.words().store(first + index, word, Relaxed);
        }
        if let Some((at, value)) = wild {
            state.words().store(at, value, Relaxed);
        }
        for (index, word, tx) in descriptors {
            let ring = if tx { Rig::RINGS + 16 * 1_024 } else { Rig::RINGS };
            rig.memory.store_u32(ring + 16 * index, word).unwrap();
        }
        let before = state.snapshot();
        let shown = Shown { given: shown.0, sent: shown.1 };
        let predecessor = if handed_over { Predecessor::HandedOver } else { Predecessor::Died };
        rig.driver = Box::new(Rtl8168::new());
        rig.driver.keep_state(state.clone(), shown).unwrap();
        let held = rig.with(|driver, hw| driver.take_over(hw, predecessor, shown));
        prop_assert_eq!(state.snapshot(), before, "nothing is stored");
        if let Ok(held) = held {
            prop_assert!(held.posted.len() <= buffers && held.sending.len() <= 1_024);
            prop_assert_eq!(held.posts_taken, shown.given + held.posted.len() as u64);
            prop_assert_eq!(held.transmits_taken, shown.sent + held.sending.len() as u64);
            for _ in 0..3 {
                // A name that nobody knows is an error; the driver then ends.
                let polled = rig.with(|driver, hw| driver.poll(hw, 64, &mut Names(20)));
                prop_assert!(polled.is_ok() || held.posted.iter().any(|token| *token >= 20));
                let mut back = Vec::new();
                rig.with(|driver, hw| driver.reclaim(hw, &mut |token| back.push(token))).unwrap();
                prop_assert!(back.iter().all(|token| held.sending.contains(token)));
            }
        }
    }

    #[test]
    fn garbage_in_descriptors_is_survived_and_every_buffer_is_accounted_for(
        buffers in 1usize..30,
        steps in prop::collection::vec((0u64..30, any::<u32>(), any::<[u32; 3]>(), 0usize..40, any::<bool>()), 1..60),
    ) {
        let mut rig = open(buffers, 700);
        for (index, status, rest, budget, hold) in steps {
            let at = Rig::RINGS + 16 * (index % buffers as u64);
            rig.memory.store_u32(at, status).unwrap();
            for (number, word) in rest.into_iter().enumerate() {
                rig.memory.store_u32(at + 4 + 4 * number as u64, word).unwrap();
            }
            if hold { rig.sink.hold = true } else { rig.sink.release() }
            prop_assert!(rig.poll(budget).unwrap() <= budget);
            for (buffer, frame) in rig.sink.frames.drain(..) {
                prop_assert!(frame.bytes + 4 <= buffer.bytes());
            }
            let elsewhere = rig.sink.free.len() + rig.sink.held.len();
            prop_assert_eq!(rig.sink.out() + elsewhere, buffers);
        }
        rig.sink.release();
        prop_assert_eq!(rig.quiesce().0, Ok(()));
        prop_assert_eq!((rig.sink.out(), rig.sink.free.len()), (0, buffers));
    }

    #[test]
    fn a_transmit_ring_that_is_scribbled_over_gives_every_name_back_once(
        steps in prop::collection::vec((1usize..5, 0u64..40, any::<u32>()), 1..60),
    ) {
        let mut rig = open(2, 700);
        let (mut names, mut back) = (0, Vec::new());
        for (pieces, index, word) in steps {
            let places = vec![(Rig::RINGS, 20); pieces];
            let frame = TxFrame { pieces: &places, token: names, segments: None };
            prop_assert_eq!(rig.with(|driver, hw| driver.transmit(hw, frame)), Ok(true));
            names += 1;
            rig.memory.store_u32(Rig::RINGS + 16 * 1_024 + 16 * index, word).unwrap();
            rig.with(|driver, hw| driver.reclaim(hw, &mut |token| back.push(token))).unwrap();
        }
        back.append(&mut rig.quiesce().1);
        prop_assert_eq!(back, (0..names).collect::<Vec<_>>());
    }
}

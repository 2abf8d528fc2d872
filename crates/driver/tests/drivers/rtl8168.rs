//! What only the rtl8168 has: descriptors in memory, and counters.

use proptest::prelude::*;
use warikomi_driver::rtl8168::Rtl8168;
use warikomi_driver::{Hardware, NicDriver, TxFrame};
use warikomi_nic::{RxError, RxFault, RxOutcome};
use warikomi_pci::DmaMemory;

use crate::bench::{Bench, RINGS, frame};

#[test]
fn a_frame_longer_than_its_buffer_is_refused_once_and_its_buffers_come_back() {
    let mut bench = Bench::open("rtl8168", 8, 512);
    assert_eq!(bench.device.inject(&frame(1_514, 1)), RxOutcome::OnRing);
    assert_eq!(bench.device.inject(&frame(500, 2)), RxOutcome::OnRing);
    assert_eq!(bench.poll(64), Ok(4));
    assert_eq!(bench.frames(), [frame(500, 2)]);
    assert_eq!((bench.driver.rx_errors(), bench.sink.returned), (1, 3));
    assert_eq!(bench.sink.out(), 8);
}

#[test]
fn damaged_frames_and_lengths_that_lie_are_refused_and_counted() {
    let mut bench = Bench::open("rtl8168", 8, 256);
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
        bench.device.inject_faulty(&good, fault);
        assert_eq!(bench.poll(64), Ok(1));
        assert_eq!((bench.frames().len(), bench.driver.rx_errors()), (0, number as u64 + 1));
    }
    bench.device.inject(&good);
    assert_eq!(bench.poll(64), Ok(1));
    assert_eq!(bench.frames(), [good]);
}

#[test]
fn the_devices_counters_are_read() {
    let mut bench = Bench::new("rtl8168", 2, 2_048);
    let mut driver = Rtl8168::new();
    let mut hw = Hardware { mmio: &mut bench.device, memory: &bench.memory };
    driver.init(&mut hw, RINGS, 2, &mut bench.sink).unwrap();
    for n in 0..5 {
        bench.device.inject(&frame(60, n));
    }
    let mut hw = Hardware { mmio: &mut bench.device, memory: &bench.memory };
    let statistics = driver.statistics(&mut hw).unwrap();
    assert_eq!((statistics.rx_packets, statistics.rx_missed), (2, 3));
    assert_eq!(driver.mac_address(), [0x02, 0x57, 0x4b, 0, 0, 1]);
}

#[test]
fn the_rings_end_mark_stays_whatever_comes() {
    let mut bench = Bench::open("rtl8168", 7, 1_024);
    for n in 0..50 {
        bench.device.inject(&frame(60 + n, n));
        bench.poll(64).unwrap();
        let mut word = [0; 4];
        bench.memory.read(RINGS + 16 * 6, &mut word).unwrap();
        assert!(word[3] & 0x40 != 0);
    }
}

proptest! {
    #[test]
    fn garbage_in_descriptors_is_survived_and_every_buffer_is_accounted_for(
        buffers in 1usize..30,
        steps in prop::collection::vec((0u64..30, any::<u32>(), any::<[u32; 3]>(), 0usize..40, any::<bool>()), 1..60),
    ) {
        let mut bench = Bench::open("rtl8168", buffers, 700);
        for (index, status, rest, budget, hold) in steps {
            let at = RINGS + 16 * (index % buffers as u64);
            bench.memory.store_u32(at, status).unwrap();
            for (number, word) in rest.into_iter().enumerate() {
                bench.memory.store_u32(at + 4 + 4 * number as u64, word).unwrap();
            }
            if hold { bench.sink.hold = true } else { bench.sink.release() }
            prop_assert!(bench.poll(budget).unwrap() <= budget);
            for frame in bench.sink.frames.drain(..) {
                prop_assert!(frame.bytes + 4 <= frame.buffer.bytes);
            }
            let elsewhere = bench.sink.free.len() + bench.sink.held.len();
            prop_assert_eq!(bench.sink.out() + elsewhere, buffers);
        }
        bench.sink.release();
        prop_assert_eq!(bench.quiesce().0, Ok(()));
        prop_assert_eq!((bench.sink.out(), bench.sink.free.len()), (0, buffers));
    }

    #[test]
    fn a_transmit_ring_that_is_scribbled_over_gives_every_name_back_once(
        steps in prop::collection::vec((1usize..5, 0u64..40, any::<u32>()), 1..60),
    ) {
        let mut bench = Bench::open("rtl8168", 2, 700);
        let (mut names, mut back) = (0, Vec::new());
        for (pieces, index, word) in steps {
            let places = vec![(RINGS, 20); pieces];
            let frame = TxFrame { pieces: &places, token: names };
            prop_assert_eq!(bench.with(|driver, hw| driver.transmit(hw, frame)), Ok(true));
            names += 1;
            bench.memory.store_u32(RINGS + 16 * 1_024 + 16 * index, word).unwrap();
            bench.with(|driver, hw| driver.reclaim(hw, &mut |token| back.push(token))).unwrap();
        }
        back.append(&mut bench.quiesce().1);
        prop_assert_eq!(back, (0..names).collect::<Vec<_>>());
    }
}

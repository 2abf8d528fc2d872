//! What only the oc48 has: long frames, a FIFO, and a ring of completions.

use proptest::prelude::*;
use warikomi_driver::{DriverError, Hardware, TxFrame, by_name};
use warikomi_nic::{RxFault, RxOutcome};
use warikomi_pci::{DmaMemory, Mmio, MmioError, Width};

use crate::bench::{Bench, RINGS, TX_BUFFERS, frame};

const TX_REMAINING: u64 = 0x40;

#[test]
fn the_longest_frame_goes_out_in_pieces_and_one_byte_more_is_refused() {
    let mut bench = Bench::open("oc48", 4, 2_048);
    let whole = frame(65_549, 3);
    bench.memory.write(TX_BUFFERS, &whole).unwrap();
    let mut pieces: Vec<_> = (0..33).map(|n| (TX_BUFFERS + 2_000 * n, 2_000)).collect();
    pieces[32].1 = 65_549 - 32 * 2_000;
    let put = |bench: &mut Bench, pieces: &[(u64, u32)]| {
        bench.with(|driver, hw| driver.transmit(hw, TxFrame { pieces, token: 1 }))
    };
    assert_eq!(put(&mut bench, &pieces), Ok(true));
    assert_eq!(bench.driver.tx_room(), 256 - 33);
    bench.device.settle();
    assert_eq!(bench.device.sent(), [whole]);
    pieces[32].1 += 1;
    let refused = put(&mut bench, &pieces).unwrap_err().to_string();
    assert!(refused.contains("33 pieces and 65550 bytes"), "{refused}");
    assert!(put(&mut bench, &[(TX_BUFFERS, 1); 257]).is_err());
}

#[test]
fn a_part_of_a_frame_that_is_transferred_frees_nothing_yet() {
    let mut bench = Bench::open("oc48", 4, 2_048);
    let pieces = [(TX_BUFFERS, 1_000); 3];
    let put = bench.with(|driver, hw| driver.transmit(hw, TxFrame { pieces: &pieces, token: 7 }));
    assert_eq!(put, Ok(true));
    let mut seen = Vec::new();
    while bench.device.step() {
        let found = bench.with(|driver, hw| driver.reclaim(hw, &mut |token| assert_eq!(token, 7)));
        seen.push((found.unwrap(), bench.driver.tx_room()));
    }
    seen.dedup();
    assert_eq!(seen, [(0, 254), (0, 255), (1, 256), (0, 256)][..seen.len()]);
    assert!(seen.contains(&(1, 256)));
}

#[test]
fn a_frame_longer_than_its_buffer_is_refused_once_and_its_buffer_comes_back() {
    let mut bench = Bench::open("oc48", 8, 512);
    assert_eq!(bench.device.inject(&frame(1_514, 1)), RxOutcome::OnRing);
    assert_eq!(bench.device.inject(&frame(512, 2)), RxOutcome::OnRing);
    assert_eq!(bench.poll(64), Ok(2));
    assert_eq!(bench.frames(), [frame(512, 2)]);
    assert_eq!((bench.driver.rx_errors(), bench.sink.returned, bench.sink.out()), (1, 1, 8));
}

#[test]
fn lengths_that_lie_are_refused_and_counted() {
    let mut bench = Bench::open("oc48", 8, 256);
    for (number, length) in [0, 257, 0xffff].into_iter().enumerate() {
        bench.device.inject_faulty(&frame(100, 3), RxFault::Length(length));
        assert_eq!(bench.poll(64), Ok(1));
        assert_eq!((bench.frames().len(), bench.driver.rx_errors()), (0, number as u64 + 1));
    }
}

/// The device, with a FIFO that says something else.
struct Lies<'a>(&'a mut dyn Mmio, u64);

impl Mmio for Lies<'_> {
    fn read(&mut self, offset: u64, width: Width) -> Result<u64, MmioError> {
        if offset == TX_REMAINING { Ok(self.1) } else { self.0.read(offset, width) }
    }
    fn write(&mut self, offset: u64, width: Width, value: u64) -> Result<(), MmioError> {
        self.0.write(offset, width, value)
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        self.0.config_read(offset, width)
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.0.config_write(offset, width, value)
    }
}

proptest! {
    #[test]
    fn garbage_in_completions_is_survived_and_every_buffer_is_accounted_for(
        buffers in 1usize..30,
        steps in prop::collection::vec((0u64..30, any::<u32>(), 0usize..40, any::<bool>()), 1..60),
    ) {
        let mut bench = Bench::open("oc48", buffers, 700);
        for (index, entry, budget, hold) in steps {
            bench.memory.store_u32(RINGS + 4 * index, entry).unwrap();
            if hold { bench.sink.hold = true } else { bench.sink.release() }
            prop_assert!(bench.poll(budget).unwrap() <= budget);
            for frame in bench.sink.frames.drain(..) {
                prop_assert!(frame.bytes <= frame.buffer.bytes);
            }
            let elsewhere = bench.sink.free.len() + bench.sink.held.len();
            prop_assert_eq!(bench.sink.out() + elsewhere, buffers);
        }
        bench.sink.release();
        prop_assert_eq!(bench.quiesce().0, Ok(()));
        prop_assert_eq!((bench.sink.out(), bench.sink.free.len()), (0, buffers));
    }

    /// More descriptors than were pushed are an error; otherwise each name comes back once, in order.
    #[test]
    fn a_fifo_that_lies_gives_every_name_back_once(
        steps in prop::collection::vec((0usize..5, 0u64..12), 1..60),
    ) {
        let mut bench = Bench::new("oc48", 2, 700);
        let mut driver = by_name("oc48").unwrap();
        let mut hw = Hardware { mmio: &mut bench.device, memory: &bench.memory };
        driver.init(&mut hw, RINGS, 2, &mut bench.sink).unwrap();
        let (mut names, mut back, mut pushed) = (0, Vec::new(), 0);
        for (pieces, remaining) in steps {
            let mut lies = Lies(&mut bench.device, remaining);
            let mut hw = Hardware { mmio: &mut lies, memory: &bench.memory };
            let places = vec![(TX_BUFFERS, 20); pieces];
            let frame = TxFrame { pieces: &places, token: names };
            if driver.transmit(&mut hw, frame) == Ok(true) {
                names += 1;
                pushed += pieces as u64;
            }
            match driver.reclaim(&mut hw, &mut |token| back.push(token)) {
                Ok(_) if pushed == 0 => {}
                Ok(_) => {
                    prop_assert!(remaining <= pushed);
                    pushed = remaining;
                }
                Err(error) => {
                    prop_assert!(matches!(error, DriverError::Invalid(_)) && remaining > pushed);
                }
            }
        }
        let mut hw = Hardware { mmio: &mut bench.device, memory: &bench.memory };
        let quiesced = driver.quiesce(&mut hw, &mut bench.sink, &mut |token| back.push(token));
        prop_assert_eq!((quiesced, back), (Ok(()), (0..names).collect::<Vec<_>>()));
    }
}

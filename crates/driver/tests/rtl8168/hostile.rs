//! A device that does as it likes: with its descriptors, with its registers.

use proptest::prelude::*;
use warikomi_driver::{DRIVERS, DriverError, Hardware, NicDriver, TxFrame};
use warikomi_pci::{DmaMemory, Mmio, MmioError, Width};

use crate::bench::{Bench, RINGS};

/// Registers that read as the test wants.
struct Wild {
    answers: Vec<u64>,
    next: usize,
    gone: bool,
}

impl Wild {
    fn answer(&mut self, offset: u64) -> Result<u64, MmioError> {
        self.next += 1;
        let gone = MmioError { offset, write: false, within_ms: 1 };
        if self.gone { Err(gone) } else { Ok(self.answers[self.next % self.answers.len()]) }
    }
}

impl Mmio for Wild {
    fn read(&mut self, offset: u64, width: Width) -> Result<u64, MmioError> {
        Ok(self.answer(offset)? & width.mask())
    }
    fn write(&mut self, offset: u64, _: Width, _: u64) -> Result<(), MmioError> {
        self.answer(offset).map(|_| ())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        if offset == 0 { Ok(0x8168_10ec) } else { self.read(offset.into(), width) }
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.write(offset.into(), width, value)
    }
}

proptest! {
    #[test]
    fn garbage_in_descriptors_is_survived_and_every_buffer_is_accounted_for(
        buffers in 1usize..30,
        steps in prop::collection::vec((0u64..30, any::<u32>(), any::<[u32; 3]>(), 0usize..40, any::<bool>()), 1..60),
    ) {
        let mut bench = Bench::open(buffers, 700);
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
        let mut bench = Bench::open(2, 700);
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

    /// Whatever registers read as, or if the device goes away at once: an error or a device that seems
    /// to work, soon, and every buffer comes back.
    #[test]
    fn registers_that_lie_are_an_error_and_never_a_hang(
        answers in prop::collection::vec(prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>(), Just(0x0c), Just(0x5005)], 1..40),
        gone_after_init: bool,
    ) {
        for info in DRIVERS {
            let mut bench = Bench::new(5, 700);
            let mut driver = warikomi_driver::by_name(info.name).unwrap();
            let mut wild = Wild { answers: answers.clone(), next: 0, gone: false };
            let mut hw = Hardware { mmio: &mut wild, memory: &bench.memory };
            match driver.init(&mut hw, RINGS, 5, &mut bench.sink) {
                Err(_) => prop_assert_eq!(bench.sink.out(), 0),
                Ok(()) => {
                    prop_assert_eq!(bench.sink.out(), 5);
                    wild.gone = gone_after_init;
                    let mut hw = Hardware { mmio: &mut wild, memory: &bench.memory };
                    let armed = driver.arm(&mut hw);
                    if gone_after_init {
                        prop_assert!(matches!(armed, Err(DriverError::Mmio(_))));
                    }
                    let _ = driver.link(&mut hw);
                    let _ = driver.on_interrupt(&mut hw);
                    let _ = driver.quiesce(&mut hw, &mut bench.sink, &mut |_| ());
                    prop_assert_eq!(bench.sink.out(), 0);
                }
            }
        }
    }
}

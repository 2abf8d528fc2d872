//! A device whose registers read as they like.

use proptest::prelude::*;
use warikomi_driver::{DRIVERS, DriverError, Hardware, TxFrame};
use warikomi_pci::{Mmio, MmioError, Width};

use crate::bench::{Bench, RINGS};

/// Registers that read as the test wants.
struct Wild {
    id: u64,
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
        if offset == 0 { Ok(self.id) } else { self.read(offset.into(), width) }
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.write(offset.into(), width, value)
    }
}

proptest! {
    /// Whatever registers read as, or if the device goes away at once: an error or a device that seems
    /// to work, soon, and every buffer comes back.
    #[test]
    fn registers_that_lie_are_an_error_and_never_a_hang(
        answers in prop::collection::vec(prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>(), Just(0x0c), Just(0x5005), Just(0x3834_434f), Just(256)], 1..40),
        gone_after_init: bool,
    ) {
        for info in DRIVERS {
            let mut bench = Bench::new(info.name, 5, 700);
            let mut driver = warikomi_driver::by_name(info.name).unwrap();
            let (vendor, device) = info.devices[0];
            let id = u64::from(device) << 16 | u64::from(vendor);
            let mut wild = Wild { id, answers: answers.clone(), next: 0, gone: false };
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
                    let _ = driver.on_interrupt(&mut hw, 0);
                    let frame = TxFrame { pieces: &[(RINGS, 64); 3], token: 1 };
                    for _ in 0..5 {
                        let _ = driver.transmit(&mut hw, frame);
                        let _ = driver.reclaim(&mut hw, &mut |_| ());
                    }
                    let _ = driver.quiesce(&mut hw, &mut bench.sink, &mut |_| ());
                    prop_assert_eq!(bench.sink.out(), 0);
                }
            }
        }
    }
}

//! What every driver must do when its device lies.

// The name of each says what it tests.
#![allow(missing_docs)]

use proptest::prelude::*;
use warikomi_driver::{DriverError, Hardware, TxFrame};

use super::rig::Rig;
use crate::cards::Subject;
use crate::property::check;
use crate::registers::LyingRegisters;

/// Whatever registers read as, or if the device goes away at once: an error or a device that seems to work,
/// soon, and every buffer comes back.
pub fn registers_that_lie_are_an_error_and_never_a_hang(subject: &Subject, config: ProptestConfig) {
    let answer = prop_oneof![
        Just(0u64),
        Just(u64::MAX),
        any::<u64>(),
        Just(0x0c),
        Just(0x5005),
        Just(0x3834_434f),
        Just(256),
    ];
    let answers = prop::collection::vec(answer, 1..40);
    check(config, &(answers, any::<bool>()), |(answers, gone_after_init)| {
        survive(subject, answers, gone_after_init)
    });
}

fn survive(
    subject: &Subject,
    answers: Vec<u64>,
    gone_after_init: bool,
) -> Result<(), TestCaseError> {
    let rig = Rig::new(subject, 5, 700);
    let rings = rig.rings();
    let Rig { memory, mut driver, mut sink, .. } = rig;
    let mut wild = LyingRegisters::new(driver.info().devices[0], answers);
    let mut hw = Hardware { mmio: &mut wild, memory: &memory };
    if driver.init(&mut hw, rings, 5, &mut sink).is_err() {
        prop_assert_eq!(sink.out(), 0);
        return Ok(());
    }
    prop_assert_eq!(sink.out(), 5);
    wild.gone = gone_after_init;
    let mut hw = Hardware { mmio: &mut wild, memory: &memory };
    let armed = driver.arm(&mut hw);
    if gone_after_init {
        prop_assert!(matches!(armed, Err(DriverError::Mmio(_))));
    }
    let _ = driver.link(&mut hw);
    let _ = driver.on_interrupt(&mut hw, 0);
    let frame = TxFrame { pieces: &[(rings, 64); 3], token: 1, segments: None };
    for _ in 0..5 {
        let _ = driver.transmit(&mut hw, frame);
        let _ = driver.reclaim(&mut hw, &mut |_| ());
    }
    let _ = driver.quiesce(&mut hw, &mut sink, &mut |_| ());
    prop_assert_eq!(sink.out(), 0);
    Ok(())
}

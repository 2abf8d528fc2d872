//! What every driver must do when it transmits.

// The name of each says what it tests.
#![allow(missing_docs)]

use proptest::prelude::*;
use warikomi_driver::DriverError;

use super::rig::Rig;
use crate::cards::Subject;
use crate::frame::frame;
use crate::property::check;

pub fn frames_go_out_when_the_bell_is_rung_and_their_names_come_back(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    let longest = rig.driver.info().max_frame_bytes.min(16_000);
    let (one, other) = (frame(60, 0), frame(longest, 1));
    assert_eq!(rig.put(&[&one], 7), Ok(true));
    let third = longest / 4;
    assert_eq!(rig.put(&[&other[..14], &other[14..third], &other[third..]], 8), Ok(true));
    assert!(rig.bench.sent().is_empty() && rig.reclaim().is_empty());
    rig.kick();
    assert_eq!(rig.bench.sent(), [one, other]);
    assert_eq!(rig.reclaim(), [7, 8]);
    assert!(rig.reclaim().is_empty());
}

pub fn a_full_ring_takes_no_more_until_frames_have_gone(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    let bytes = frame(60, 0);
    let descriptors = rig.driver.info().tx_descriptors as u32;
    for round in 0..3 {
        assert_eq!(rig.driver.tx_room(), descriptors as usize);
        for token in 0..descriptors {
            assert_eq!(rig.put(&[&bytes], token), Ok(true), "{round} {token}");
        }
        assert_eq!((rig.put(&[&bytes], 9), rig.driver.tx_room()), (Ok(false), 0));
        rig.kick();
        assert_eq!(rig.put(&[&bytes], 9), Ok(false), "not reclaimed");
        assert_eq!(rig.reclaim(), (0..descriptors).collect::<Vec<_>>());
        assert_eq!(rig.bench.sent().len(), descriptors as usize);
    }
}

pub fn what_is_no_frame_is_refused(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    for pieces in [&[][..], &[&[][..]], &[&[1, 2][..], &[]], &[&[0; 65_550]]] {
        assert!(matches!(rig.put(pieces, 1), Err(DriverError::Invalid(_))));
    }
    rig.kick();
    assert!(rig.bench.sent().is_empty() && rig.reclaim().is_empty());
}

pub fn an_armed_device_tells_a_sleeper_that_its_frame_is_gone(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    assert_eq!(rig.put(&[&frame(60, 0)], 1), Ok(true));
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    rig.kick();
    assert_eq!(rig.interrupts(), 1);
    assert!(rig.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap().transmit);
    assert_eq!(rig.reclaim(), [1]);
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    assert_eq!(rig.interrupts(), 1);
}

pub fn while_transmissions_interrupt_neither_handler_nor_disarming_masks_them(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    let mut reclaimed = 0;
    let mut send = |rig: &mut Rig| {
        if rig.driver.tx_room() == 0 {
            reclaimed += rig.reclaim().len();
        }
        assert_eq!(rig.put(&[&frame(60, 0)], 1), Ok(true));
        rig.kick();
        rig.interrupts()
    };
    assert_eq!(send(&mut rig), 0, "masked after init");
    rig.with(|driver, hw| driver.transmit_interrupts(hw, true)).unwrap();
    assert_eq!(rig.interrupts(), 0, "what had gone before does not interrupt");
    assert_eq!((send(&mut rig), send(&mut rig)), (1, 1), "one until it is acknowledged");
    let reads = rig.reads();
    assert!(rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap().transmit);
    assert_eq!(send(&mut rig), 2);
    rig.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap();
    assert_eq!(rig.reads(), reads, "a handler that only writes");
    assert_eq!(send(&mut rig), 3);
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    rig.with(|driver, hw| driver.disarm(hw)).unwrap();
    assert_eq!(send(&mut rig), 4);
    rig.with(|driver, hw| driver.transmit_interrupts(hw, false)).unwrap();
    rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
    assert_eq!(send(&mut rig), 4);
    assert_eq!(reclaimed + rig.reclaim().len(), 7);
}

pub fn quiesce_gives_back_what_was_not_sent(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    let count = rig.driver.info().tx_descriptors.min(5) as u32;
    for token in 0..count {
        rig.put(&[&frame(60, 0)[..20], &frame(60, 0)[20..]], token).unwrap();
    }
    assert_eq!(rig.quiesce(), (Ok(()), (0..count).collect()));
    assert_eq!(rig.sink.out(), 0);
}

pub fn any_cutting_of_a_frame_sends_the_same_frame(subject: &Subject, config: ProptestConfig) {
    let cuts = prop::collection::vec(1usize..500, 0..6);
    let longest = subject.card.driver().info().max_frame_bytes.min(3_000);
    let frames = prop::collection::vec((60..longest, cuts), 1..60);
    check(config, &frames, |frames| {
        let mut rig = Rig::open(subject, 2, 2_048);
        for (token, (bytes, cuts)) in (0u32..).zip(frames) {
            let whole = frame(bytes, token as usize);
            let (mut pieces, mut rest) = (Vec::new(), &whole[..]);
            for cut in cuts {
                if cut < rest.len() {
                    let (piece, behind) = rest.split_at(cut);
                    pieces.push(piece);
                    rest = behind;
                }
            }
            pieces.push(rest);
            prop_assert_eq!(rig.put(&pieces, token), Ok(true));
            rig.kick();
            prop_assert_eq!(rig.bench.sent(), [whole]);
            prop_assert_eq!(rig.reclaim(), [token]);
        }
        Ok(())
    });
}

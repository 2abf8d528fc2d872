//! What every driver must do when it receives.

// The name of each says what it tests.
#![allow(missing_docs)]

use proptest::prelude::*;
use warikomi_driver::{DriverError, Hardware, Link};
use warikomi_nic::{MAX_FRAME_BYTES, RxOutcome};

use super::rig::Rig;
use crate::cards::Subject;
use crate::frame::frame;
use crate::property::check;
use crate::registers::{AnotherDevice, FrameBeforeRead};

pub fn every_length_of_frame_arrives_as_it_was_sent(subject: &Subject) {
    let mut rig = Rig::open(subject, 8, 16_383);
    let longest = MAX_FRAME_BYTES.min(rig.bench.nic.info().max_frame_bytes);
    let lengths = (60..=16_000).step_by(7).chain([61, 64, 1_514, 1_518, 9_000, 16_000, longest]);
    for bytes in lengths.filter(|bytes| *bytes <= longest) {
        let sent = frame(bytes, bytes);
        assert_eq!(rig.bench.receive(&sent), RxOutcome::OnRing, "{bytes}");
        assert_eq!(rig.poll(64), Ok(1));
        assert_eq!(rig.frames(), [sent], "{bytes}");
    }
    assert_eq!(rig.driver.rx_errors(), 0);
}

pub fn more_frames_than_descriptors_come_in_order_and_the_budget_holds(subject: &Subject) {
    for buffers in [1, 2, 3, 17, 256, 1_024] {
        let buffers = subject.card.driver().info().rx_descriptors.min(buffers);
        let mut rig = Rig::open(subject, buffers, 2_048);
        assert_eq!(rig.sink.out(), buffers);
        let share = subject.card.first_queue_share(buffers);
        for round in 0..5 {
            let sent: Vec<_> = (0..share).map(|n| frame(60 + n % 200, round + n)).collect();
            for frame in &sent {
                assert_eq!(rig.bench.receive(frame), RxOutcome::OnRing);
            }
            if subject.card.abilities().buffers {
                assert_eq!(rig.bench.receive(&sent[0]), RxOutcome::NoDescriptor);
            }
            let mut found = 0;
            while found < share {
                let some = rig.poll(7).unwrap();
                assert!((1..=7).contains(&some), "{some} of {share}");
                found += some;
            }
            assert_eq!(rig.poll(7), Ok(0));
            assert_eq!(rig.frames(), sent);
            assert_eq!(rig.sink.out(), buffers, "all on the ring again");
        }
    }
}

pub fn with_no_buffer_to_be_had_the_ring_runs_dry_and_fills_again(subject: &Subject) {
    let mut rig = Rig::open(subject, 4, 2_048);
    rig.sink.hold = true;
    let share = subject.card.first_queue_share(4);
    for round in 0..3 {
        for n in 0..share {
            assert_eq!(rig.bench.receive(&frame(100, n)), RxOutcome::OnRing);
            assert_eq!(rig.poll(9), Ok(1));
        }
        assert_eq!((rig.sink.out(), rig.sink.held.len()), (4 - share, share));
        // One more is missed, or waits where the card has put it.
        let waits = usize::from(!subject.card.abilities().buffers);
        let outcome = if waits > 0 { RxOutcome::OnRing } else { RxOutcome::NoDescriptor };
        assert_eq!(rig.bench.receive(&frame(100, 0)), outcome);
        assert_eq!(rig.poll(9), Ok(0));
        rig.sink.release();
        assert_eq!((rig.poll(9), rig.sink.out()), (Ok(waits), 4), "{round}");
        rig.sink.hold = true;
    }
    assert!(rig.frames().len() >= 3 * share);
}

pub fn the_devices_verdict_on_checksums_is_passed_on(subject: &Subject) {
    let mut rig = Rig::open(subject, 8, 2_048);
    let mut udp = frame(60, 0);
    udp[12..14].copy_from_slice(&[8, 0]);
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    udp[14..34].copy_from_slice(&header);
    let sum: u32 = header.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    udp[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    udp[34..42].copy_from_slice(&[0, 1, 0, 2, 0, 26, 0, 0]);
    rig.bench.receive(&udp);
    let mut wrong = udp.clone();
    wrong[25] ^= 1;
    rig.bench.receive(&wrong);
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.poll(9), Ok(3));
    let verdicts: Vec<_> = rig.sink.frames.iter().map(|(_, frame)| frame.checksums_good).collect();
    assert_eq!(verdicts, [subject.card.abilities().checksums, false, false]);
}

pub fn an_armed_device_interrupts_once_for_each_acknowledgement(subject: &Subject) {
    let mut rig = Rig::open(subject, 8, 2_048);
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.interrupts(), 0, "masked after init");
    rig.poll(9).unwrap();
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    assert_eq!(rig.interrupts(), 0);
    for n in 1..=5 {
        rig.bench.receive(&frame(60, 0));
        rig.bench.receive(&frame(60, 1));
        assert_eq!(rig.interrupts(), n);
        let reads = rig.reads();
        let causes = rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
        assert!(causes.receive && !causes.transmit);
        assert_eq!(rig.reads(), reads, "a handler that only writes");
        assert_eq!(rig.poll(9), Ok(2));
    }
    rig.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap();
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.interrupts(), 5, "masked by the handler");
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    assert_eq!(rig.interrupts(), 5, "what was there before is on the ring");
    assert_eq!(rig.poll(9), Ok(1));
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.interrupts(), 6);
    rig.with(|driver, hw| driver.disarm(hw)).unwrap();
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.interrupts(), 6);
}

pub fn a_cable_that_is_pulled_is_told_and_frames_still_interrupt_afterwards(subject: &Subject) {
    let mut rig = Rig::open(subject, 8, 2_048);
    let up = rig.with(|driver, hw| driver.link(hw)).unwrap();
    assert_eq!(up, Link::Up { mbps: subject.card.link_mbps() });
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    rig.plug(warikomi_nic::Link::Down);
    assert_eq!(rig.interrupts(), 1);
    rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    assert!(rig.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap().link);
    assert_eq!(rig.with(|driver, hw| driver.link(hw)), Ok(Link::Down));
    rig.plug(warikomi_nic::Link::Up { mbps: 1_000 });
    assert_eq!(rig.with(|driver, hw| driver.link(hw)), Ok(up));
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    let before = rig.interrupts();
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.interrupts(), before + 1);
}

/// A frame comes, and then the driver asks for the link.
fn ask_for_the_link(rig: &mut Rig) {
    rig.bench.receive(&frame(60, 0));
    rig.with(|driver, hw| driver.link(hw)).unwrap();
}

/// The driver arms, and a frame comes before it reads what stands.
fn arm_meanwhile(rig: &mut Rig) {
    let mut mmio = FrameBeforeRead { bench: &mut rig.bench, waits: true };
    rig.driver.arm(&mut Hardware { mmio: &mut mmio, memory: &rig.memory }).unwrap();
    assert!(!mmio.waits, "it reads what stands");
}

/// All causes have one level: one that is left standing silences the others.
pub fn a_frame_beside_a_change_of_the_link_does_not_silence_the_next(subject: &Subject) {
    let mut rig = Rig::open(subject, 8, 2_048);
    for meet in [ask_for_the_link, arm_meanwhile] {
        rig.with(|driver, hw| driver.arm(hw)).unwrap();
        let before = rig.interrupts();
        rig.plug(warikomi_nic::Link::Down);
        rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
        rig.plug(warikomi_nic::Link::Up { mbps: subject.card.link_mbps() });
        meet(&mut rig);
        assert_eq!(
            rig.interrupts(),
            before + 1,
            "the level has been up since the cable was pulled"
        );
        assert_eq!(rig.poll(9), Ok(1));
        rig.bench.receive(&frame(60, 1));
        assert_eq!(rig.interrupts(), before + 2);
        rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
        assert_eq!(rig.poll(9), Ok(1));
    }
}

pub fn another_device_is_refused(subject: &Subject) {
    let mut rig = Rig::new(subject, 4, 2_048);
    let rings = rig.rings();
    let mut another = AnotherDevice { vendor: 0x10ec, device: 0x8129 };
    let mut hw = Hardware { mmio: &mut another, memory: &rig.memory };
    let refused = rig.driver.init(&mut hw, rings, 4, &mut rig.sink).unwrap_err();
    let driver = rig.driver.info().name;
    assert_eq!(refused, DriverError::WrongDevice { driver, vendor: 0x10ec, device: 0x8129 });
    assert_eq!(refused.to_string(), format!("{driver} does not drive the device 10ec:8129"));
    assert_eq!(rig.sink.out(), 0);
}

pub fn a_transfer_to_nowhere_is_a_system_error_and_everything_comes_back(subject: &Subject) {
    let mut rig = Rig::new(subject, 4, 2_048);
    for buffer in &mut rig.sink.free {
        buffer.address += 1 << 40;
    }
    rig.init(4).unwrap();
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    if !subject.card.abilities().buffers {
        // The card does not know of them: it is the driver that cannot copy.
        assert_eq!(rig.bench.receive(&frame(60, 0)), RxOutcome::OnRing);
        assert!(matches!(rig.poll(9), Err(DriverError::Dma(_))));
        assert_eq!(rig.quiesce().0, Ok(()));
        assert_eq!((rig.sink.out(), rig.sink.returned), (0, 4));
        return;
    }
    assert_eq!(rig.bench.receive(&frame(60, 0)), RxOutcome::DmaError);
    assert_eq!(rig.interrupts(), 1);
    let error = rig.with(|driver, hw| driver.arm(hw)).unwrap_err();
    assert!(matches!(error, DriverError::Device { .. }));
    assert!(rig.with(|driver, hw| driver.link(hw)).is_err());
    assert_eq!(rig.quiesce().0, Ok(()));
    assert_eq!((rig.sink.out(), rig.sink.returned), (0, 4));
}

pub fn after_quiesce_the_device_is_quiet_and_can_be_opened_again(subject: &Subject) {
    let mut rig = Rig::open(subject, 16, 2_048);
    rig.bench.receive(&frame(60, 0));
    assert_eq!(rig.quiesce().0, Ok(()));
    assert_eq!((rig.sink.out(), rig.sink.returned), (0, 16));
    assert_eq!(rig.bench.receive(&frame(60, 0)), RxOutcome::NotReceiving);
    rig.init(3).unwrap();
    assert_eq!(rig.sink.out(), 3);
    rig.bench.receive(&frame(60, 7));
    assert_eq!(rig.poll(9), Ok(1));
    assert_eq!(rig.frames(), [frame(60, 7)]);
}

pub fn any_mixture_of_frames_polls_and_buffers_comes_out_in_order(
    subject: &Subject,
    config: ProptestConfig,
) {
    let steps = prop::collection::vec((60usize..3_000, 0usize..6, 0usize..9), 1..80);
    check(config, &(1usize..40, steps), |(buffers, steps)| {
        let mut rig = Rig::open(subject, buffers, 1_024);
        let longest = 1_024 - subject.card.check_sequence_bytes();
        let (mut expected, mut got, mut refused) = (Vec::new(), Vec::new(), 0);
        for (n, (bytes, copies, budget)) in steps.into_iter().enumerate() {
            for copy in 0..copies {
                let frame = frame(bytes, n * 7 + copy);
                if rig.bench.receive(&frame) == RxOutcome::OnRing {
                    if bytes <= longest { expected.push(frame) } else { refused += 1 }
                }
            }
            prop_assert!(rig.poll(budget).unwrap() <= budget);
            got.append(&mut rig.frames());
        }
        // A buffer that has come back may be filled again by the next poll.
        while rig.poll(64).unwrap() > 0 {
            got.append(&mut rig.frames());
        }
        prop_assert_eq!(got, expected);
        prop_assert_eq!(rig.driver.rx_errors(), refused);
        prop_assert_eq!(rig.sink.out(), buffers);
        Ok(())
    });
}

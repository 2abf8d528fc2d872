//! What only the driver of the RTL8139 has: a ring of bytes, 32 bits of address, and four slots.

use warikomi_clock::Span;
use warikomi_driver::rtl8139::Rtl8139;
use warikomi_driver::{DriverError, NicDriver};
use warikomi_nic::{Link, RxError, RxFault, RxOutcome};
use warikomi_testbench::{RTL8139, Rig, Subject, frame};

fn open(buffers: usize) -> Rig {
    Rig::open(&Subject::of(RTL8139), buffers, 2_048)
}

#[test]
fn a_ring_beyond_the_reach_of_the_device_is_refused() {
    let mut rig = Rig::new(&Subject::of(RTL8139), 4, 2_048);
    for rings in [1 << 32, (1 << 32) - 0x1000, u64::MAX - 15, 0x8000_0008] {
        let mut driver = Rtl8139::new();
        let refused = rig.with_sink(|_, hw, sink| driver.init(hw, rings, 4, sink)).unwrap_err();
        assert!(matches!(refused, DriverError::Invalid(_)), "{rings:#x}: {refused}");
        assert_eq!(rig.sink.out(), 0);
    }
}

#[test]
fn a_frame_that_is_still_being_written_is_waited_for() {
    let mut rig = open(8);
    let late = RxFault::CompletedLate(Span::from_us(10));
    assert_eq!(rig.bench.receive_faulty(&frame(300, 0), late), RxOutcome::OnRing);
    assert_eq!(rig.bench.receive(&frame(300, 1)), RxOutcome::OnRing);
    assert_eq!(rig.poll(9), Ok(0));
    rig.bench.wait(Span::from_us(10));
    assert_eq!(rig.poll(9), Ok(2));
    assert_eq!(rig.frames(), [frame(300, 0), frame(300, 1)]);
    assert_eq!(rig.driver.rx_errors(), 0);
}

/// Whether it is late or never comes cannot be told, and what is behind it would be lost. A driver that is started anew
/// receives again.
#[test]
fn a_frame_that_is_never_finished_is_waited_for_on_a_full_ring_too() {
    let mut rig = open(8);
    let never = rig.bench.receive_faulty(&frame(300, 0), RxFault::NeverCompleted);
    assert_eq!(never, RxOutcome::NotCompleted);
    while rig.bench.receive(&frame(1_500, 1)) == RxOutcome::OnRing {
        assert_eq!((rig.poll(9), rig.driver.rx_errors()), (Ok(0), 0));
    }
    rig.quiesce().0.unwrap();
    rig.init(8).unwrap();
    assert_eq!(rig.bench.receive(&frame(200, 2)), RxOutcome::OnRing);
    assert_eq!(rig.poll(9), Ok(1));
    assert_eq!(rig.frames(), [frame(200, 2)]);
}

#[test]
fn a_damaged_frame_is_passed_over_and_a_length_that_cannot_be_empties_the_ring() {
    let mut rig = open(8);
    let reported = RxFault::Reported(RxError::Crc);
    assert_eq!(rig.bench.receive_faulty(&frame(300, 0), reported), RxOutcome::OnRingDamaged);
    rig.bench.receive(&frame(300, 1));
    assert_eq!((rig.poll(9), rig.driver.rx_errors()), (Ok(2), 1));
    assert_eq!(rig.frames(), [frame(300, 1)]);
    for (errors, length) in [(2, 0), (3, 17), (4, 400), (5, 5_000), (6, u16::MAX)] {
        rig.bench.receive_faulty(&frame(300, 0), RxFault::Length(length));
        assert_eq!((rig.poll(9), rig.driver.rx_errors()), (Ok(0), errors), "{length}");
        rig.bench.receive(&frame(300, 1));
        assert_eq!(rig.poll(9), Ok(1));
        assert_eq!(rig.frames(), [frame(300, 1)]);
    }
}

#[test]
fn frames_come_whole_from_beyond_the_end_of_the_ring() {
    let mut rig = open(8);
    // Several laps of 32 KB.
    for number in 0..200 {
        let sent = frame(1_000 + number, number);
        assert_eq!(rig.bench.receive(&sent), RxOutcome::OnRing);
        assert_eq!(rig.poll(9), Ok(1));
        assert_eq!(rig.frames(), [sent]);
    }
}

#[test]
fn a_frame_that_was_aborted_comes_back_and_the_next_one_goes() {
    let mut rig = open(4);
    rig.plug(Link::Down);
    assert_eq!(rig.put(&[&frame(60, 0)], 1), Ok(true));
    rig.kick();
    assert_eq!((rig.reclaim(), rig.bench.sent().len()), (vec![1], 0));
    rig.plug(Link::Up { mbps: 100 });
    assert_eq!(rig.put(&[&frame(60, 0)], 2), Ok(true));
    rig.kick();
    assert_eq!((rig.reclaim(), rig.bench.sent().len()), (vec![2], 1));
}

#[test]
fn a_short_frame_is_padded_by_the_driver() {
    let mut rig = open(4);
    assert_eq!(rig.put(&[&[7; 20]], 1), Ok(true));
    rig.kick();
    let sent = rig.bench.sent();
    assert_eq!((sent[0].len(), &sent[0][..20], &sent[0][20..]), (60, &[7; 20][..], &[0; 40][..]));
}

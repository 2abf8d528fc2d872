//! The ring of bytes.

use warikomi_clock::Span;
use warikomi_nic::{Link, RxError, RxFault, RxOutcome, fcs};

use crate::too::{Found, RING, RING_BYTES, STATION, Too, frame_to};

/// A good frame as the driver finds it.
fn good(kind: u16, frame: &[u8]) -> Found {
    let mut bytes = frame.to_vec();
    bytes.extend(fcs(frame).to_le_bytes());
    (kind | 1, bytes)
}

#[test]
fn frames_of_every_length_come_with_status_and_check_sequence() {
    let mut too = Too::open();
    for length in 46..=1_500 {
        let frame = frame_to(STATION, length);
        assert_eq!(too.receive(&frame), RxOutcome::OnRing);
        assert_eq!(too.rx(), [good(0x4000, &frame)], "{length}");
    }
    let counters = too.progress();
    assert_eq!((counters.on_ring, counters.accepted, counters.abandoned), (1_455, 1_455, 0));
}

#[test]
fn each_kind_of_destination_has_its_mark() {
    let mut too = Too::open();
    let others = [([0xff; 6], 0x2000), ([1, 0, 0x5e, 0, 0, 1], 0x8000), (STATION, 0x4000)];
    for (destination, mark) in others {
        let frame = frame_to(destination, 50);
        too.receive(&frame);
        assert_eq!(too.rx(), [good(mark, &frame)]);
    }
    assert_eq!(too.receive(&frame_to([2, 0, 0, 0, 0, 7], 50)), RxOutcome::Filtered);
    too.set_rx_mode(0x0f, [0; 2]);
    let frame = frame_to([2, 0, 0, 0, 0, 7], 50);
    too.receive(&frame);
    assert_eq!(too.rx(), [good(0, &frame)]);
    assert_eq!(too.receive(&frame_to([1, 0, 0x5e, 0, 0, 1], 50)), RxOutcome::Filtered);
}

#[test]
fn what_comes_to_the_end_goes_on_behind_it_or_at_the_begin() {
    for (no_wrap, laps) in [(0x80, 3), (0, 3)] {
        let mut too = Too::new();
        too.rx_config = 0xf700 | no_wrap | 2 << 11;
        too.init_board();
        too.hw_start();
        let frame = frame_to([0xff; 6], 1_010);
        let takes = (4 + frame.len() + 4).next_multiple_of(4) as u32;
        let mut crossed = 0;
        for number in 0..laps * RING_BYTES / takes {
            too.put_bytes(RING + u64::from(RING_BYTES), &[0; 2_048]);
            let begin = number * takes % RING_BYTES;
            assert_eq!(too.receive(&frame), RxOutcome::OnRing);
            if begin + takes > RING_BYTES {
                crossed += 1;
                let behind = too.bytes(RING + u64::from(RING_BYTES), 4);
                assert_eq!(behind != [0; 4], no_wrap != 0);
                let left = (RING_BYTES - begin - 4) as usize;
                let bytes = if no_wrap != 0 {
                    too.bytes(RING + u64::from(begin) + 4, frame.len())
                } else {
                    let mut bytes = too.bytes(RING + u64::from(begin) + 4, left);
                    bytes.extend(too.bytes(RING, frame.len() - left));
                    bytes
                };
                assert_eq!(bytes, frame);
            }
            assert_eq!(too.rx().len(), 1);
            assert_eq!(too.r16(0x3a), ((number + 1) * takes % RING_BYTES) as u16, "CBR");
        }
        assert!(crossed > 0);
    }
}

#[test]
fn a_full_ring_misses_frames_until_the_driver_has_read() {
    let mut too = Too::open();
    let frame = frame_to([0xff; 6], 1_486);
    let takes = (4 + frame.len() + 4).next_multiple_of(4);
    let most = (RING_BYTES as usize - 1) / takes;
    assert_eq!(too.host(|nic, host| warikomi_nic::Nic::rx_free(nic, host, 1_000)), most);
    for _ in 0..most {
        assert_eq!(too.receive(&frame), RxOutcome::OnRing);
    }
    assert_eq!(too.receive(&frame), RxOutcome::NoDescriptor);
    assert_eq!(too.r16(0x3e) & 0x10, 0x10, "overflow");
    assert_eq!(too.r32(0x4c), 1);
    too.w32(0x4c, 0);
    assert_eq!(too.r32(0x4c), 0);
    assert_eq!(too.progress().accepted, 0);
    assert_eq!(too.rx().len(), most);
    assert_eq!(too.progress().accepted, most as u64);
    assert_eq!(too.receive(&frame), RxOutcome::OnRing);
}

#[test]
fn the_pin_falls_with_the_acknowledgement_and_rises_with_the_next_frame() {
    let mut too = Too::open();
    too.receive(&frame_to([0xff; 6], 50));
    assert!(too.line.level());
    too.receive(&frame_to([0xff; 6], 50));
    too.rx();
    assert!(!too.line.level());
    too.w16(0x3c, 0x8028);
    too.receive(&frame_to([0xff; 6], 50));
    assert!(!too.line.level(), "masked");
    too.w16(0x3c, 0xc07f);
    assert!(too.line.level());
    assert_eq!(too.line.messages(), 0);
}

#[test]
fn a_receiver_that_is_switched_off_and_on_has_an_empty_ring() {
    let mut too = Too::open();
    for _ in 0..3 {
        too.receive(&frame_to([0xff; 6], 100));
    }
    too.rx_err();
    assert_eq!((too.r8(0x37) & 1, too.r16(0x3a), too.r16(0x38)), (1, 0, 0xfff0));
    assert_eq!(too.progress().abandoned, 3);
    let frame = frame_to([0xff; 6], 60);
    too.receive(&frame);
    assert_eq!(too.rx(), [good(0x2000, &frame)]);
}

#[test]
fn damaged_frames_come_only_if_they_are_wanted_and_say_what_they_are() {
    let mut too = Too::open();
    let frame = frame_to([0xff; 6], 100);
    assert_eq!(too.receive_faulty(&frame, RxFault::Crc), RxOutcome::Filtered);
    assert_eq!(too.receive(&frame[..40]), RxOutcome::Filtered);
    too.set_rx_mode(0x3e, [0; 2]);
    for (fault, bits) in [(RxFault::Crc, 0x04), (RxFault::Alignment, 0x06)] {
        assert_eq!(too.receive_faulty(&frame, fault), RxOutcome::OnRing);
        assert_eq!(too.rx()[0].0, 0x2000 | bits);
        too.rx_err();
        too.set_rx_mode(0x3e, [0; 2]);
    }
    assert_eq!(too.receive(&frame[..40]), RxOutcome::OnRing);
    assert_eq!(too.rx()[0].0, 0x2010);
    too.rx_err();
    let reported = RxFault::Reported(RxError::Crc);
    assert_eq!(too.receive_faulty(&frame, reported), RxOutcome::OnRingDamaged);
    assert_eq!(too.rx()[0].0, 0x2004);
    assert_eq!(too.r16(0x3e) & 0x02, 0x02);
}

#[test]
fn a_frame_that_is_completed_late_holds_up_the_driver_and_not_the_chip() {
    let mut too = Too::open();
    let frame = frame_to([0xff; 6], 100);
    let late = RxFault::CompletedLate(Span::from_us(30));
    assert_eq!(too.receive_faulty(&frame, late), RxOutcome::OnRing);
    assert_eq!(too.receive(&frame), RxOutcome::OnRing);
    assert_eq!(too.rx(), [], "the copy is in progress");
    assert_eq!(too.progress().accepted, 0);
    too.wait(Span::from_us(30));
    assert_eq!(too.rx().len(), 2);
    assert_eq!(too.progress().accepted, 2);
    assert_eq!(too.receive_faulty(&frame, RxFault::NeverCompleted), RxOutcome::NotCompleted);
    assert_eq!(too.rx(), []);
    too.rx_err();
    too.receive_faulty(&frame, RxFault::Length(0x1234));
    assert_eq!(too.rx()[0].1.len(), 0x1234);
}

#[test]
fn without_a_link_nothing_comes() {
    let mut too = Too::open();
    too.plug(Link::Down);
    assert_eq!(too.receive(&frame_to([0xff; 6], 100)), RxOutcome::NotReceiving);
}

#[test]
fn a_failed_transfer_is_a_system_error_until_a_reset() {
    let mut too = Too::open();
    too.w32(0x30, 0xf000_0000);
    assert_eq!(too.receive(&frame_to([0xff; 6], 100)), RxOutcome::DmaError);
    assert_eq!(too.r16(0x3e) & 0x8000, 0x8000);
    assert_eq!(too.receive(&frame_to([0xff; 6], 100)), RxOutcome::DmaError);
    too.hw_start();
    assert_eq!(too.receive(&frame_to([0xff; 6], 100)), RxOutcome::OnRing);
}

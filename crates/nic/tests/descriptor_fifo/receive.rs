use etherparse::PacketBuilder;
use warikomi_clock::Span;
use warikomi_nic::{Link, Nic, RxCounters, RxError, RxFault, RxOutcome};

use super::card::*;

const DONE: u32 = 1 << 31;
const TOO_LONG: u32 = 1 << 30;
const CHECKSUMS_GOOD: u32 = 1 << 29;

/// A frame to the station, of no protocol.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = [&STATION[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb5]].concat();
    frame.extend(filler(bytes - 14, bytes));
    frame
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64)
        .udp(1, 2)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

fn with_buffers(count: u64, bytes: u32) -> Card {
    let mut card = Card::open(None);
    for i in 0..count {
        card.push_buffer(BUFFERS + 0x1_0000 * i, bytes);
    }
    card
}

fn counts(on_ring: u64, accepted: u64, abandoned: u64) -> RxCounters {
    RxCounters { on_ring, accepted, abandoned }
}

#[test]
fn a_frame_goes_into_the_next_buffer_and_its_entry_says_so() {
    let mut card = with_buffers(3, 0x1_0000);
    assert!(card.nic.receiving());
    let frames = [frame(60), frame(1_514), frame(65_549 - 14)];
    for (i, frame) in (0..).zip(&frames) {
        assert_eq!(card.receive(frame), RxOutcome::OnRing);
        assert_eq!(card.entry(i), DONE | frame.len() as u32);
        assert_eq!(&card.bytes(BUFFERS + 0x1_0000 * i, frame.len()), frame);
        assert_eq!(card.get(RX_REMAINING), 2 - i as u32);
    }
    assert_eq!((card.status(), card.nic.counters().interrupts), (RX_DONE, 1));
    assert_eq!(card.receive(&frames[0]), RxOutcome::NoDescriptor);
    assert_eq!(card.status(), RX_MISSED);
    assert_eq!(card.progress(), counts(3, 0, 0));
    card.clear_entry(0);
    card.clear_entry(2);
    assert_eq!(card.progress(), counts(3, 1, 0), "in order");
    card.start();
    assert_eq!(card.progress(), counts(3, 1, 2), "the rest is gone with the ring");
}

#[test]
fn entries_go_round_and_the_account_adds_up() {
    let mut card = Card::open(None);
    for n in 0..1_000_u64 {
        card.push_buffer(BUFFERS + 0x1_0000 * (n % 8), 2_048);
        assert_eq!(card.receive(&frame(60 + n as usize)), RxOutcome::OnRing);
        assert_eq!(card.entry(n), DONE | (60 + n as u32));
        card.clear_entry(n);
    }
    let seen = card.host(|nic, host| nic.rx_progress(host, 0));
    assert!(seen.accepted >= 1_000 - 256, "an entry used again was taken: {seen:?}");
    assert_eq!(card.progress(), counts(1_000, 1_000, 0));
}

#[test]
fn checksums_are_looked_at() {
    let mut card = with_buffers(4, 2_048);
    let good = udp(&filler(100, 1));
    let [mut header_wrong, mut payload_wrong] = [good.clone(), good.clone()];
    header_wrong[22] ^= 1; // time to live
    payload_wrong[90] ^= 1;
    for (n, (frame, right)) in
        (0..).zip([(good, true), (header_wrong, false), (payload_wrong, false), (frame(60), false)])
    {
        assert_eq!(card.receive(&frame), RxOutcome::OnRing);
        assert_eq!(card.entry(n) & CHECKSUMS_GOOD != 0, right, "frame {n}");
    }
}

#[test]
fn a_frame_longer_than_its_buffer_is_cut_off() {
    let mut card = with_buffers(1, 100);
    assert_eq!(card.receive(&udp(&filler(200, 0))), RxOutcome::OnRing);
    assert_eq!(card.entry(0), DONE | TOO_LONG | 100);
    assert_eq!(card.bytes(BUFFERS + 100, 50), [0; 50]);
}

#[test]
fn only_frames_for_the_station_come_in() {
    let mut card = with_buffers(8, 2_048);
    for (first, outcome) in [
        (STATION, RxOutcome::OnRing),
        ([0xff; 6], RxOutcome::OnRing),
        ([1, 0, 0x5e, 0, 0, 1], RxOutcome::OnRing),
        ([2, 0, 0, 0, 0, 9], RxOutcome::Filtered),
    ] {
        let mut bytes = frame(60);
        bytes[..6].copy_from_slice(&first);
        assert_eq!(card.receive(&bytes), outcome, "{first:x?}");
    }
    for bytes in [&[][..], &STATION, &frame(70_000)] {
        assert_eq!(card.receive(bytes), RxOutcome::Filtered, "{} bytes", bytes.len());
    }
    card.host(|nic, host| nic.set_link(host, Link::Down));
    assert_eq!(card.receive(&frame(60)), RxOutcome::NotReceiving);
    assert!(!card.nic.receiving());
}

#[test]
fn a_buffer_that_is_not_in_memory_stops_the_card() {
    let mut card = with_buffers(1, 2_048);
    card.push_buffer(MEMORY as u64 - 8, 2_048);
    assert_eq!(card.receive(&frame(60)), RxOutcome::OnRing);
    assert_eq!(card.receive(&frame(60)), RxOutcome::DmaError);
    assert_eq!(card.status(), SYS_ERROR | RX_DONE);
    assert!(!card.nic.receiving());
    card.send(&filler(60, 0));
    card.wait(Span::from_ms(1));
    assert_eq!(
        (card.get(TX_REMAINING), card.wire.sent_at().len()),
        (1, 0),
        "the other engine as well"
    );
}

#[test]
fn faults_that_the_card_can_show_are_shown() {
    let mut card = with_buffers(4, 2_048);
    let bytes = frame(100);
    for fault in [
        RxFault::Crc,
        RxFault::Alignment,
        RxFault::Reported(RxError::Crc),
        RxFault::Reported(RxError::Runt),
    ] {
        assert_eq!(card.receive_faulty(&bytes, fault), RxOutcome::Filtered);
    }
    let too_long = RxFault::Reported(RxError::TooLong);
    assert_eq!(card.receive_faulty(&bytes, too_long), RxOutcome::OnRingDamaged);
    assert_eq!(card.entry(0), DONE | TOO_LONG | 100);
    assert_eq!(card.receive_faulty(&bytes, RxFault::Length(9_999)), RxOutcome::OnRing);
    assert_eq!(card.entry(1), DONE | 9_999);
    let late = RxFault::CompletedLate(Span::from_us(50));
    assert_eq!(card.receive_faulty(&bytes, late), RxOutcome::OnRing);
    assert_eq!(card.receive_faulty(&bytes, RxFault::NeverCompleted), RxOutcome::NotCompleted);
    card.clear_entry(0);
    card.clear_entry(1);
    assert_eq!((card.status(), card.entry(2), card.entry(3)), (RX_DONE, 0, 0));
    assert_eq!(card.progress(), counts(3, 2, 0), "what is not completed was not taken");
    card.wait(Span::from_us(50));
    assert_eq!((card.status(), card.entry(2), card.entry(3)), (RX_DONE, DONE | 100, 0));
    assert_eq!(card.progress(), counts(3, 2, 0));
    card.clear_entry(2);
    assert_eq!(card.progress(), counts(3, 3, 0));
    assert_eq!(card.get(RX_REMAINING), 0);
}

#[test]
fn a_buffer_pushed_into_a_full_fifo_is_lost() {
    let mut card = with_buffers(300, 2_048);
    assert_eq!(card.get(RX_REMAINING), 256);
    assert_eq!(card.host(|nic, host| nic.rx_free(host, usize::MAX)), 256);
    assert_eq!(card.host(|nic, host| nic.rx_free(host, 7)), 7);
}

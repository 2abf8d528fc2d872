use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etherparse::{IpFragOffset, Ipv4Header, PacketBuilder, UdpHeader};
use proptest::prelude::*;
use warikomi_clock::Span;

use crate::peer::JudgingPeer;
use crate::{GUEST_IP, NETWORK_IP, NETWORK_MAC, Responder, Wire};

use super::*;

const RUN: u32 = 7;
const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn pktgen(number: u32, payload_bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; payload_bytes];
    payload[..4].copy_from_slice(&PKTGEN_MAGIC.to_be_bytes());
    payload[4..8].copy_from_slice(&number.to_be_bytes());
    payload[8..16].fill(0x55);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(GUEST_MAC, NETWORK_MAC)
        .ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 32)
        .udp(9, 9)
        .write(&mut frame, &payload)
        .unwrap();
    frame
}

/// A datagram as an application's kernel sends it: in fragments of `room` bytes at most.
fn datagram(sequence: u64, payload_bytes: usize, room: usize) -> Vec<Vec<u8>> {
    let mut payload: Vec<u8> = (0..payload_bytes).map(|at| (at % 251) as u8).collect();
    payload[..HEAD_BYTES].copy_from_slice(&Head { run_id: RUN, sequence }.to_bytes());
    let udp = UdpHeader {
        source_port: 40_000,
        destination_port: 5_001,
        length: (payload_bytes + UDP_HEADER_BYTES) as u16,
        checksum: 0,
    };
    let bytes = [&udp.to_bytes()[..], &payload].concat();
    let room = room / 8 * 8;
    let pieces = bytes.chunks(room).enumerate().map(|(at, piece)| {
        let mut ip = Ipv4Header::new(
            piece.len() as u16,
            64,
            IpNumber::UDP,
            GUEST_IP.octets(),
            NETWORK_IP.octets(),
        )
        .unwrap();
        ip.identification = sequence as u16;
        ip.more_fragments = (at + 1) * room < bytes.len();
        ip.fragment_offset = IpFragOffset::try_new((at * room / 8) as u16).unwrap();
        ip.header_checksum = ip.calc_header_checksum();
        [&NETWORK_MAC[..], &GUEST_MAC, &[8, 0], &ip.to_bytes(), piece].concat()
    });
    pieces.collect()
}

fn judged(expected: Expected, frames: impl IntoIterator<Item = Vec<u8>>) -> Seen {
    let (mut host, judge) = JudgingPeer::new(InTurn::default(), Responder::default());
    let noted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&noted);
    judge.lock().begin(expected, move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    for (frame, us) in frames.into_iter().zip(0..) {
        host.transmit(Time::ZERO + Span::from_us(us), &frame);
    }
    let seen = judge.lock().seen().clone();
    assert_eq!(noted.load(Ordering::Relaxed), seen.frames, "each frame's time is told");
    seen
}

fn udp(payload_bytes: u32) -> Expected {
    Expected::Udp { run_id: RUN, payload_bytes }
}

#[test]
fn a_packet_of_the_generator_keeps_its_number_while_it_is_handed_over_again() {
    let expected = Expected::Pktgen { payload_bytes: 100 };
    let of = |numbers: &[u32]| judged(expected, numbers.iter().map(|&n| pktgen(n, 100)));
    let seen = of(&[1, 1, 1, 4, 4, 6]);
    assert_eq!((seen.messages, seen.frames, &seen.wrong), (6, 6, &None));
    // One of a burst is lost, or comes twice, or they change places.
    for wrong in [&[1, 1, 4][..], &[1, 1, 2], &[1, 3, 2], &[2]] {
        assert!(of(wrong).wrong.unwrap().contains("was due"), "{wrong:?}");
    }
    let short = judged(expected, [pktgen(1, 99)]);
    assert!(short.wrong.unwrap().contains("no datagram of 100 bytes"));
}

#[test]
fn datagrams_come_whole_or_in_fragments() {
    for (bytes, room) in [(16, 1_480), (1_472, 1_480), (1_473, 1_480), (65_507, 1_480), (64, 24)] {
        let frames: Vec<_> = (0..3).flat_map(|n| datagram(n, bytes, room)).collect();
        let count = frames.len() as u64;
        let seen = judged(udp(bytes as u32), frames);
        assert_eq!((seen.messages, seen.frames, seen.wrong), (3, count, None), "{bytes} bytes");
    }
}

#[test]
fn what_is_lost_doubled_or_out_of_order_is_said() {
    let frames: Vec<_> = (0..2).flat_map(|n| datagram(n, 4_000, 1_480)).collect();
    assert_eq!(frames.len(), 6);
    for order in [&[0, 2][..], &[0, 1, 1], &[1], &[0, 1, 2, 2], &[3], &[0, 1, 3], &[0, 1, 2, 4]] {
        let seen = judged(udp(4_000), order.iter().map(|&at| frames[at].clone()));
        assert!(seen.wrong.is_some(), "{order:?}");
    }
    assert!(judged(udp(4_001), frames).wrong.unwrap().contains("another length"));
}

#[test]
fn a_run_has_its_times_and_what_is_not_of_it_does_not_count() {
    let mut frames: Vec<_> = (0..3).flat_map(|n| datagram(n, 100, 1_480)).collect();
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    frames.insert(0, arp.clone());
    frames.push(arp);
    let seen = judged(udp(100), frames.clone());
    assert_eq!((seen.messages, seen.frames), (3, 3));
    let us = |us| Some(Time::ZERO + Span::from_us(us));
    assert_eq!((seen.began, seen.ended), (us(1), us(3)));
    assert_eq!(judged(Expected::Tcp, frames), Seen::default(), "no connection");
    let (mut host, judge) = JudgingPeer::new(InTurn::default(), Responder::default());
    host.transmit(Time::ZERO, &pktgen(1, 100));
    assert_eq!((judge.lock().seen().clone(), host.counters().tx_frames), (Seen::default(), 1));
}

#[test]
fn a_connections_frames_are_those_with_data() {
    let segment = |payload: &[u8]| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(GUEST_MAC, NETWORK_MAC)
            .ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 64)
            .tcp(40_000, Responder::TCP_PORT, 1, 1_000)
            .write(&mut frame, payload)
            .unwrap();
        frame
    };
    let seen = judged(Expected::Tcp, [segment(&[]), segment(&[1; 100]), segment(&[])]);
    assert_eq!((seen.frames, seen.messages, seen.wrong), (1, 0, None));
}

proptest! {
    #[test]
    fn a_changed_byte_is_noticed(
        bytes in 16usize..3_000,
        at in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut frames = datagram(0, bytes, 1_480);
        let place = at.index(frames.iter().map(Vec::len).sum());
        let mut before = 0;
        let (mut at, mut first) = (0, true);
        for frame in &mut frames {
            if (before..before + frame.len()).contains(&place) {
                (at, first) = (place - before, before == 0);
                frame[at] ^= change;
            }
            before += frame.len();
        }
        let seen = judged(udp(bytes as u32), frames);
        // The guest's own address, its ports and the checksum are not judged.
        let free = (6..12).contains(&at) || first && ((34..38).contains(&at) || (40..42).contains(&at));
        prop_assert_eq!(seen.wrong.is_none() && seen.messages == 1, free, "byte {}", at);
    }

    #[test]
    fn any_frame_is_judged(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        is_ip: bool,
        pktgen: bool,
    ) {
        if is_ip && frame.len() > 34 {
            frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
            frame[23] = 17;
        }
        let expected = if pktgen { Expected::Pktgen { payload_bytes: 16 } } else { udp(16) };
        prop_assert_eq!(judged(expected, [frame]).messages, 0);
    }
}

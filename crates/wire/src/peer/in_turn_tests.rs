use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etherparse::{IpFragOffset, Ipv4Header, PacketBuilder, TcpHeader, UdpHeader};
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

/// Where a frame has UDP's checksum.
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;

/// A datagram as an application's kernel sends it: with its checksum, in fragments of `room` bytes at most.
fn datagram(sequence: u64, payload_bytes: usize, room: usize) -> Vec<Vec<u8>> {
    let mut payload: Vec<u8> = (0..payload_bytes).map(|at| (at % 251) as u8).collect();
    payload[..HEAD_BYTES].copy_from_slice(&Head { run_id: RUN, sequence }.to_bytes());
    let (source, destination) = (GUEST_IP.octets(), NETWORK_IP.octets());
    let mut udp = UdpHeader {
        source_port: 40_000,
        destination_port: 5_001,
        length: (payload_bytes + UDP_HEADER_BYTES) as u16,
        checksum: 0,
    };
    udp.checksum = udp.calc_checksum_ipv4_raw(source, destination, &payload).unwrap();
    let bytes = [&udp.to_bytes()[..], &payload].concat();
    let room = room / 8 * 8;
    let pieces = bytes.chunks(room).enumerate().map(|(at, piece)| {
        let mut ip =
            Ipv4Header::new(piece.len() as u16, 64, IpNumber::UDP, source, destination).unwrap();
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
fn a_checksum_of_udp_that_is_there_must_be_right() {
    let wrong = |expected, mut frames: Vec<Vec<u8>>, checksum: [u8; 2]| {
        frames[0][UDP_CHECKSUM].copy_from_slice(&checksum);
        judged(expected, frames).wrong
    };
    for bytes in [16, 1_473, 65_507] {
        let frames = datagram(0, bytes, 1_480);
        let expected = udp(bytes as u32);
        assert_eq!(wrong(expected, frames.clone(), [0; 2]), None, "there is none");
        assert!(wrong(expected, frames, [0x12; 2]).unwrap().contains("checksum"), "{bytes}");
    }
    let expected = Expected::Pktgen { payload_bytes: 100 };
    assert_eq!(judged(expected, [pktgen(1, 100)]).wrong, None);
    assert_eq!(wrong(expected, vec![pktgen(1, 100)], [0; 2]), None, "as pktgen has it");
    assert!(wrong(expected, vec![pktgen(1, 100)], [0x12; 2]).unwrap().contains("checksum"));
}

/// What a kernel puts into a segment, but for its data.
#[derive(Clone, Copy)]
struct Of {
    port: u16,
    sequence: u32,
    identification: u16,
}

fn segment(of: Of, syn: bool, data_bytes: usize) -> Vec<u8> {
    let (source, destination) = (GUEST_IP.octets(), NETWORK_IP.octets());
    let data = vec![7; data_bytes];
    let mut tcp = TcpHeader::new(of.port, Responder::TCP_PORT, of.sequence, 1_000);
    (tcp.syn, tcp.ack) = (syn, !syn);
    tcp.checksum = tcp.calc_checksum_ipv4_raw(source, destination, &data).unwrap();
    let tcp = tcp.to_bytes();
    let bytes = (tcp.len() + data_bytes) as u16;
    let mut ip = Ipv4Header::new(bytes, 64, IpNumber::TCP, source, destination).unwrap();
    ip.identification = of.identification;
    ip.header_checksum = ip.calc_header_checksum();
    [&NETWORK_MAC[..], &GUEST_MAC, &[8, 0], &ip.to_bytes(), &tcp, &data].concat()
}

/// Data bytes of each segment of [`connection`].
const DATA_BYTES: u32 = 1_000;

/// A connection that is opened, and what comes in it: data by its place in the stream, and the packet's number.
fn connection(port: u16, sequence: u32, segments: &[(u32, u16)]) -> Vec<Vec<u8>> {
    let of = |sequence, identification| Of { port, sequence, identification };
    let opened = [segment(of(sequence, 0xfffe), true, 0)];
    let data = segments.iter().map(|&(place, number)| {
        let at = sequence.wrapping_add(1 + place * DATA_BYTES);
        segment(of(at, 0xfffe_u16.wrapping_add(number)), false, DATA_BYTES as usize)
    });
    opened.into_iter().chain(data).collect()
}

#[test]
fn a_connections_frames_are_those_with_data() {
    let mut frames = connection(40_000, u32::MAX - 1_500, &[(0, 1), (1, 2), (2, 4)]);
    let ack = Of { port: 40_000, sequence: 1_500, identification: 3 };
    frames.push(segment(ack, false, 0));
    let seen = judged(Expected::Tcp, frames);
    assert_eq!((seen.frames, seen.messages, seen.sent_again, seen.wrong), (3, 0, 0, None));
}

#[test]
fn a_segment_that_is_lost_doubled_or_out_of_order_is_told_from_one_that_was_sent_again() {
    let of = |segments: &[(u32, u16)]| judged(Expected::Tcp, connection(40_000, 7, segments));
    let wrong = |segments: &[(u32, u16)]| of(segments).wrong.unwrap();
    assert!(wrong(&[(0, 1), (2, 3)]).contains("1000 bytes in front of its data"), "lost");
    assert!(wrong(&[(1, 2), (0, 1)]).contains("1000 bytes in front of its data"), "swapped");
    assert!(wrong(&[(0, 1), (0, 1)]).contains("has come before"), "doubled");
    assert!(wrong(&[(0, 1), (1, 2), (0, 1)]).contains("has come before"), "doubled, and late");
    // The kernel's timer had the first sent again, which has a number of its own.
    let seen = of(&[(0, 1), (1, 2), (0, 3), (2, 4)]);
    assert_eq!((seen.frames, seen.sent_again, seen.wrong), (4, 1, None));
}

#[test]
fn a_straggler_of_an_earlier_connection_was_sent_again() {
    let (mut host, judge) = JudgingPeer::new(InTurn::default(), Responder::default());
    let mut run = |frames: Vec<Vec<u8>>| {
        judge.lock().begin(Expected::Tcp, || {});
        frames.iter().for_each(|frame| host.transmit(Time::ZERO, frame));
        let seen = judge.lock().seen().clone();
        (seen.sent_again, seen.wrong)
    };
    assert_eq!(run(connection(40_000, 7, &[(0, 1)])), (0, None));
    let straggler = connection(40_000, 7, &[(0, 2)]).split_off(1);
    let opened = connection(40_001, 9, &[(0, 1)]);
    assert_eq!(run([straggler.clone(), opened.clone()].concat()), (1, None));
    assert_eq!(run([opened, straggler].concat()), (1, None));
    let first = judged(Expected::Tcp, connection(40_000, 7, &[(0, 1)]).split_off(1));
    assert!(first.wrong.unwrap().contains("was not opened"));
}

#[test]
fn a_frame_that_is_cut_off_is_noticed() {
    let cut = |mut frames: Vec<Vec<u8>>| {
        let last = frames.last_mut().unwrap();
        last.truncate(last.len() - 1);
        frames
    };
    for (expected, frames) in [
        (Expected::Tcp, connection(40_000, 7, &[(0, 1)])),
        (udp(100), datagram(0, 100, 1_480)),
        (Expected::Pktgen { payload_bytes: 100 }, vec![pktgen(1, 100)]),
    ] {
        let wrong = judged(expected, cut(frames)).wrong.unwrap();
        assert!(wrong.contains("do not agree"), "{expected:?}: {wrong}");
    }
}

proptest! {
    #[test]
    fn a_changed_byte_is_noticed(
        bytes in 16usize..3_000,
        at in any::<prop::sample::Index>(),
        change in 1u8..,
        has_checksum: bool,
    ) {
        let mut frames = datagram(0, bytes, 1_480);
        let right: [u8; 2] = frames[0][UDP_CHECKSUM].try_into().unwrap();
        if !has_checksum {
            frames[0][UDP_CHECKSUM].fill(0);
        }
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
        // Without a checksum nothing guards the ports. The guest's own address is not judged.
        let unguarded = frames[0][UDP_CHECKSUM] == [0; 2];
        let of_ports = first && (34..38).contains(&at);
        let of_checksum = first && UDP_CHECKSUM.contains(&at);
        let free = (6..12).contains(&at)
            || of_ports && unguarded
            || of_checksum && (unguarded || frames[0][UDP_CHECKSUM] == right);
        let seen = judged(udp(bytes as u32), frames);
        prop_assert_eq!(seen.wrong.is_none() && seen.messages == 1, free, "byte {}", at);
    }

    #[test]
    fn a_changed_byte_of_a_segment_is_noticed(
        at in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut frames = connection(40_000, 7, &[(0, 1), (1, 2), (2, 3)]);
        let at = at.index(frames[2].len());
        frames[2][at] ^= change;
        let seen = judged(Expected::Tcp, frames);
        // The guest's own address is not judged.
        prop_assert_eq!(seen.wrong.is_none(), (6..12).contains(&at), "byte {}", at);
    }

    /// A stream may be sent again from anywhere; only a hole in it, and the very same frame, are wrong.
    #[test]
    fn a_stream_is_whole_wherever_the_kernel_begins_again(
        sequence: u32,
        back in prop::collection::vec(0u32..4, 1..40),
    ) {
        let (mut next, mut again) = (0_u32, 0);
        let segments: Vec<(u32, u16)> = back.iter().zip(1..).map(|(&back, number)| {
            let place = next.saturating_sub(back);
            again += u64::from(place < next);
            next = next.max(place + 1);
            (place, number)
        }).collect();
        let seen = judged(Expected::Tcp, connection(40_000, sequence, &segments));
        prop_assert_eq!((seen.sent_again, seen.wrong), (again, None));
    }

    #[test]
    fn any_frame_is_judged(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        is_ip: bool,
        expected in prop::sample::select(
            vec![Expected::Pktgen { payload_bytes: 16 }, udp(16), Expected::Tcp],
        ),
    ) {
        if is_ip && frame.len() > 34 {
            frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
            frame[23] = expected.protocol().0;
        }
        prop_assert_eq!(judged(expected, [frame]).messages, 0);
    }
}

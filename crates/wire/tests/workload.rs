//! Numbered datagrams and segments of a TCP stream, judged; and numbered frames in the other direction.

use etherparse::PacketBuilder;
use warikomi_clock::{Span, Time};
use warikomi_protocol::payload::Head;
use warikomi_testbench::message;
use warikomi_wire::peer::numbered::Look;
use warikomi_wire::peer::talker::Talker;
use warikomi_wire::peer::workload::{Seen, Workload};
use warikomi_wire::peer::{Judged, JudgingPeer};
use warikomi_wire::{GUEST_IP, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET, Responder, UDP_PORT, Wire};

const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn datagram(run_id: u32, sequence: u64, port: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(GUEST_MAC, NETWORK_MAC)
        .ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 64)
        .udp(1_000, port);
    let (payload, mut frame) = (Head { run_id, sequence }.to_bytes(), Vec::new());
    builder.write(&mut frame, &payload).unwrap();
    frame
}

fn segment(data: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(GUEST_MAC, NETWORK_MAC)
        .ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 64)
        .tcp(1_000, Responder::TCP_PORT, 1, 1_024);
    let mut frame = Vec::new();
    builder.write(&mut frame, data).unwrap();
    frame
}

fn host() -> (JudgingPeer<Workload, Responder>, Judged<Workload>) {
    let (host, judge) = JudgingPeer::new(Workload::default(), Responder::default());
    expect(&judge, 7);
    (host, judge)
}

/// Forgets what came, and expects datagrams of this run.
fn expect(judge: &Judged<Workload>, run_id: u32) {
    let mut judge = judge.lock();
    *judge = Workload::default();
    judge.datagrams.begin(run_id, 1_000, Look::Number);
}

#[test]
fn numbered_frames_come_when_they_are_due_and_stop_at_once() {
    let (mut host, talk) = Talker::new(host().0);
    assert_eq!(host.next_arrival(), Time::NEVER);
    talk.begin(|number| message(7, number, 58), Span::from_us(10), at(5));
    assert_eq!((host.next_arrival(), host.receive(at(4))), (at(5), None));
    for (due, sequence) in [(5, 0), (15, 1), (25, 2)] {
        let frame = host.receive(at(40)).unwrap();
        let head = Head::from_bytes(&frame[PAYLOAD_OFFSET..]).unwrap();
        assert_eq!(head, Head { run_id: 7, sequence });
        assert_eq!(host.next_arrival(), at(due + 10));
    }
    assert_eq!((talk.end(), host.receive(at(100)), host.next_arrival()), (3, None, Time::NEVER));
    assert_eq!(host.counters().rx_frames, 3);
}

#[test]
fn datagrams_are_judged_by_their_numbers_and_the_longest_gap_is_kept() {
    let (mut host, judge) = host();
    assert_eq!(judge.lock().seen().longest_gap, None);
    for (us, sequence) in [(0, 0), (10, 1), (300, 4), (310, 3), (320, 4)] {
        host.transmit(at(us), &datagram(7, sequence, UDP_PORT));
    }
    host.transmit(at(330), &datagram(8, 9, UDP_PORT));
    let Seen { datagrams, frames, longest_gap, .. } = judge.lock().seen();
    assert_eq!((datagrams.messages, datagrams.duplicated), (4, 1));
    assert_eq!((datagrams.reordered, datagrams.foreign), (1, 1));
    assert_eq!((frames, longest_gap), (6, Some(Span::from_us(290))));
    expect(&judge, 9);
    assert_eq!(judge.lock().seen(), Seen::default());
}

#[test]
fn only_segments_with_data_and_datagrams_for_us_are_the_workload() {
    let (mut host, judge) = host();
    for frame in [segment(&[]), datagram(7, 0, UDP_PORT + 1_000), vec![0; 60], vec![]] {
        host.transmit(at(1), &frame);
    }
    assert_eq!(judge.lock().seen().frames, 0);
    host.transmit(at(2), &segment(&[1]));
    assert_eq!(judge.lock().seen().frames, 1);
    assert_eq!(host.counters().tx_frames, 5);
}

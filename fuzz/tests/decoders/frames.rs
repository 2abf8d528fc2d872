//! Frames: what a driver sends and a network delivers.

use arbitrary::Unstructured;
use etherparse::PacketBuilder;
use warikomi_clock::{Span, Time};
use warikomi_inject::Schedule;
use warikomi_nic::checksums_good;
use warikomi_stack::{Content, PacketMemory, Shape, parse};
use warikomi_testbench::{message, segments};
use warikomi_wire::peer::Judge;
use warikomi_wire::peer::numbered::{Look, Numbered};
use warikomi_wire::{GUEST_IP, Loopback, NETWORK_IP, NETWORK_MAC, Responder, Wire};

use crate::harness::{Seeds, bounded};

const RUN: u32 = 7;
/// The longest frame that the buffer of a target holds.
const MOST_BYTES: usize = 65_536;

fn made() -> Vec<(&'static str, Vec<u8>)> {
    let ethernet = || PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], NETWORK_MAC);
    let packet = || ethernet().ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 64);
    let mut echo = Vec::new();
    packet().icmpv4_echo_request(1, 2).write(&mut echo, &[7; 40]).expect("memory");
    let mut syn = Vec::new();
    packet().tcp(9, Responder::TCP_PORT, 5, 1_000).syn().write(&mut syn, &[]).expect("memory");
    let mut six = Vec::new();
    let tagged = ethernet().single_vlan(5u16.try_into().expect("a tag"));
    tagged.ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut six, &[5; 20]).expect("memory");
    vec![
        ("datagram", message(RUN, 0, 100)),
        ("echo", echo),
        ("segment", segments(RUN, 0, 200, (5, 1_460)).remove(0)),
        ("syn", syn),
        ("tagged", six),
    ]
}

/// A frame in a buffer, judged where it is.
fn judged(memory: &PacketMemory, frame: &[u8]) {
    let place = memory.bytes(0, 0, frame.len() as u32).expect("a buffer has room");
    place.copy_from(frame);
    for good in [false, true] {
        if let Content::Datagram(found) = parse(&place, good) {
            let end = usize::from(found.payload_offset) + usize::from(found.payload_bytes);
            assert!(end <= frame.len(), "{found:?} of {} bytes", frame.len());
        }
    }
    let _ = checksums_good(frame);
    let _ = Schedule::number_in(frame);
}

/// The other ends of the cable.
fn answered(all: &[Vec<u8>]) {
    let mut responder = Responder::new(NETWORK_IP).answering_for_all();
    let mut loopback = Loopback::default();
    let mut now = Time::ZERO;
    for frame in all {
        for wire in [&mut responder as &mut dyn Wire, &mut loopback] {
            wire.transmit(now, frame);
            let (until, mut answers) = (now + Span::from_us(10), 0);
            while wire.next_arrival() <= until && answers < 1_000 {
                now = now.max(wire.next_arrival());
                if let Some(answer) = wire.receive(now) {
                    assert!((1..=MOST_BYTES).contains(&answer.len()));
                }
                answers += 1;
            }
            assert!(answers < 1_000, "it answers for ever");
        }
        now += Span::from_us(100);
    }
}

fn counted(all: &[Vec<u8>], look: Look, stream: bool) {
    let mut judge = Numbered::default();
    judge.begin(RUN, 64, look);
    judge.expect_checksums(look == Look::Whole);
    judge.expect_stream(stream.then_some(1_460));
    for frame in all {
        judge.frame(Time::ZERO, frame);
    }
    let seen = judge.seen();
    assert!(seen.messages <= 64 && seen.end <= 64, "{seen:?}");
    assert!(seen.corrupt + seen.foreign <= all.len() as u64, "{seen:?}");
}

fn seeds() -> Seeds {
    Seeds::of("frames", &made(), &[])
}

/// What one input stands for: some frames, none of them empty.
fn some_of(seeds: &Seeds, input: &[u8]) -> Vec<Vec<u8>> {
    let mut from = Unstructured::new(input);
    let mut all = Vec::new();
    while !from.is_empty() && all.len() < 8 {
        let mut frame = seeds.input(&mut from);
        frame.truncate(MOST_BYTES);
        all.push(frame);
    }
    all.retain(|frame| !frame.is_empty());
    all
}

#[test]
fn frames() {
    let seeds = seeds();
    let shape = Shape {
        channels: 0,
        application_buffers: 1,
        stack_buffers: 0,
        buffer_bytes: MOST_BYTES as u32,
        tsc_hz: 1_000_000_000,
    };
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let all = some_of(&seeds, input);
        bounded(|| {
            let (memory, _) = PacketMemory::create(shape).expect("memory");
            all.iter().for_each(|frame| judged(&memory, frame));
            counted(&all, Look::Whole, false);
            counted(&all, Look::Number, false);
            counted(&all, Look::Head, true);
        });
    });
}

/// Beside `frames`, because the responder has megabytes of buffers, which take longer than all else.
#[test]
fn answers() {
    let seeds = seeds();
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let all = some_of(&seeds, input);
        bounded(|| answered(&all));
    });
}

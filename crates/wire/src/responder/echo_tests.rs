use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use crate::{EchoPlan, Echoes, Responder, Wire};
use std::net::Ipv4Addr;
use std::sync::Arc;
use warikomi_clock::{Span, Time};

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OUR_IP: [u8; 4] = [10, 9, 0, 1];
const SERVICE: u16 = 7;

/// A client, the service's end of its cable, and the time.
struct Bench {
    wire: Responder,
    echoes: Arc<Echoes>,
    now: Time,
}

impl Bench {
    fn new() -> Bench {
        let plan = EchoPlan {
            address: Ipv4Addr::from(OUR_IP),
            port: SERVICE,
            interval: Span::from_us(100),
            block_bytes: 64,
        };
        let (wire, echoes) = Responder::default().with_echo_client(plan);
        Bench { wire, echoes, now: Time::ZERO }
    }

    /// Shows our Ethernet address.
    fn greet(&mut self) {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(US, Responder::MAC);
        let builder = builder.ipv4(OUR_IP, Responder::ADDRESS.octets(), 64);
        builder.icmpv4_echo_request(1, 2).write(&mut frame, &[7; 40]).unwrap();
        self.wire.transmit(self.now, &frame);
    }

    /// What the client sends to the service within `span`: port that it comes from, and payload.
    fn datagrams(&mut self, span: Span) -> Vec<(u16, Vec<u8>)> {
        let end = self.now + span;
        let mut found = Vec::new();
        while self.now < end {
            self.now += Span::from_us(10);
            while let Some(frame) = self.wire.receive(self.now) {
                let packet = SlicedPacket::from_ethernet(&frame).unwrap();
                if let Some(TransportSlice::Udp(udp)) = packet.transport {
                    assert_eq!(udp.destination_port(), SERVICE);
                    found.push((udp.source_port(), udp.payload().to_vec()));
                }
            }
        }
        found
    }

    fn answer(&mut self, (port, payload): &(u16, Vec<u8>)) {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(US, Responder::MAC);
        let builder = builder.ipv4(OUR_IP, Responder::ADDRESS.octets(), 64);
        builder.udp(SERVICE, *port).write(&mut frame, payload).unwrap();
        self.wire.transmit(self.now, &frame);
    }
}

#[test]
fn it_sends_nothing_until_it_is_told_to_and_then_at_the_interval() {
    let mut bench = Bench::new();
    bench.greet();
    assert!(bench.datagrams(Span::from_ms(5)).is_empty());
    bench.echoes.set_active(true);
    let sent = bench.datagrams(Span::from_ms(11));
    // It has looked within a millisecond.
    assert!((100..=111).contains(&sent.len()), "{}", sent.len());
    bench.echoes.set_active(false);
    bench.datagrams(Span::from_ms(1));
    assert!(bench.datagrams(Span::from_ms(5)).is_empty());
}

#[test]
fn what_is_lost_repeated_or_damaged_on_the_way_is_counted_as_that() {
    let mut bench = Bench::new();
    bench.greet();
    bench.echoes.set_active(true);
    let sent = bench.datagrams(Span::from_ms(3));
    let numbers: Vec<u64> =
        sent.iter().map(|(_, bytes)| u64::from_be_bytes(*bytes.first_chunk().unwrap())).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64) && numbers.len() > 10);
    let mut damaged = sent[6].clone();
    damaged.1[30] ^= 1;
    let short = (sent[6].0, sent[6].1[..5].to_vec());
    let mut never_sent = sent[6].clone();
    never_sent.1[0] = 1;
    // 2 is lost, 1 comes twice, 3 after 4.
    for answer in [&sent[0], &sent[1], &sent[1], &sent[4], &sent[3], &damaged, &short, &never_sent]
    {
        bench.answer(answer);
    }
    let seen = &bench.echoes;
    assert_eq!((seen.udp_back(), seen.udp_wrong()), (8, 3));
    assert_eq!((seen.udp_missing(), seen.udp_repeated()), (2, 2));
    let longest = seen.take_longest_round_trip();
    assert!(longest > Span::from_ms(1) && longest <= Span::from_ms(3), "{longest:?}");
    assert_eq!(seen.take_longest_round_trip(), Span::ZERO);
}

#[test]
fn a_connection_that_is_refused_is_counted_and_tried_again() {
    let mut bench = Bench::new();
    bench.greet();
    bench.echoes.set_active(true);
    let mut refused = 0;
    while refused < 3 {
        bench.now += Span::from_us(10);
        assert!(bench.now < Time::ZERO + Span::from_ms(100), "{:?}", bench.echoes);
        let Some(frame) = bench.wire.receive(bench.now) else { continue };
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { continue };
        assert!(tcp.syn());
        let mut answer = Vec::new();
        let builder = PacketBuilder::ethernet2(US, Responder::MAC);
        let builder = builder.ipv4(OUR_IP, Responder::ADDRESS.octets(), 64);
        let builder = builder.tcp(SERVICE, tcp.source_port(), 0, 0);
        let builder = builder.rst().ack(tcp.sequence_number().wrapping_add(1));
        builder.write(&mut answer, &[]).unwrap();
        bench.wire.transmit(bench.now, &answer);
        refused += 1;
    }
    bench.datagrams(Span::from_ms(1));
    assert_eq!((bench.echoes.tcp_connections(), bench.echoes.tcp_lost()), (3, 3));
}

proptest! {
    #[test]
    fn no_answer_panics(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..20)) {
        let mut bench = Bench::new();
        bench.greet();
        bench.echoes.set_active(true);
        let port = bench.datagrams(Span::from_ms(2))[0].0;
        for payload in payloads {
            bench.answer(&(port, payload));
            bench.datagrams(Span::from_us(50));
        }
    }
}

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OUR_IP: [u8; 4] = [10, 9, 0, 1];

fn arp_for(address: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(US);
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(US);
    frame.extend(OUR_IP);
    frame.extend([0; 6]);
    frame.extend(address);
    frame.resize(60, 0);
    frame
}

/// Lets the responder do what it wants for `span`; the frames that it sends.
fn answers(wire: &mut Responder, now: &mut Time, span: Span) -> Vec<Vec<u8>> {
    *now += span;
    std::iter::from_fn(|| wire.receive(*now)).collect()
}

fn to_responder(
    build: impl FnOnce(etherparse::PacketBuilderStep<etherparse::IpHeaders>) -> Vec<u8>,
) -> Vec<u8> {
    let mut frame = build(PacketBuilder::ethernet2(US, Responder::MAC).ipv4(
        OUR_IP,
        Responder::ADDRESS.octets(),
        64,
    ));
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn it_answers_arp_for_itself_and_for_others_only_if_told() {
    let (mut wire, mut now) = (Responder::default(), Time::ZERO);
    wire.transmit(now, &arp_for([10, 9, 0, 2]));
    let answer = answers(&mut wire, &mut now, Responder::DELAY);
    assert_eq!(answer.len(), 1);
    assert_eq!((answer[0].len(), &answer[0][20..28]), (60, &[0, 2, 2, 0x57, 0x4b, 0, 0, 2][..]));
    wire.transmit(now, &arp_for([10, 9, 0, 77]));
    assert!(answers(&mut wire, &mut now, Responder::DELAY).is_empty());
    let mut wire = Responder::default().answering_for_all();
    wire.transmit(now, &arp_for([10, 9, 0, 77]));
    assert_eq!(answers(&mut wire, &mut now, Responder::DELAY).len(), 1);
}

#[test]
fn it_answers_echo_requests_also_long_ones() {
    let (mut wire, mut now) = (Responder::default(), Time::ZERO);
    wire.transmit(now, &arp_for([10, 9, 0, 2]));
    answers(&mut wire, &mut now, Responder::DELAY);
    for payload in [8, 1_400, 6_000] {
        wire.transmit(
            now,
            &to_responder(|builder| {
                let mut frame = Vec::new();
                builder.icmpv4_echo_request(1, 2).write(&mut frame, &vec![7; payload]).unwrap();
                frame
            }),
        );
        let answer = answers(&mut wire, &mut now, Responder::DELAY);
        let packet = SlicedPacket::from_ethernet(&answer[0]).unwrap();
        let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("no ICMP") };
        assert_eq!(icmp.type_u8(), 0, "echo reply");
    }
}

#[test]
fn it_counts_udp_and_notices_gaps() {
    let mut wire = Responder::default();
    let seen = wire.responses();
    for number in [0_u64, 1, 2, 5, 5, 6] {
        wire.transmit(
            Time::ZERO,
            &to_responder(|builder| {
                let mut payload = number.to_be_bytes().to_vec();
                payload.resize(100, 0);
                let mut frame = Vec::new();
                builder.udp(9, Responder::UDP_PORT).write(&mut frame, &payload).unwrap();
                frame
            }),
        );
    }
    wire.transmit(
        Time::ZERO,
        &to_responder(|builder| {
            let mut frame = Vec::new();
            builder.udp(9, Responder::UDP_PORT).write(&mut frame, &[1]).unwrap();
            frame
        }),
    );
    assert_eq!((seen.udp_datagrams(), seen.udp_bytes()), (7, 601));
    assert_eq!((seen.udp_missing(), seen.udp_repeated(), seen.udp_malformed()), (2, 1, 1));
}

#[test]
fn it_swallows_a_tcp_stream() {
    let (mut wire, mut now) = (Responder::default(), Time::ZERO);
    let seen = wire.responses();
    wire.transmit(now, &arp_for([10, 9, 0, 2]));
    answers(&mut wire, &mut now, Responder::DELAY);
    let segment = |sequence, ack: Option<u32>, payload: &[u8]| {
        to_responder(|builder| {
            let tcp = builder.tcp(4_000, Responder::TCP_PORT, sequence, 8_192);
            let mut frame = Vec::new();
            match ack {
                Some(ack) => tcp.ack(ack).write(&mut frame, payload).unwrap(),
                None => tcp.syn().write(&mut frame, payload).unwrap(),
            }
            frame
        })
    };
    wire.transmit(now, &segment(100, None, &[]));
    let answer = answers(&mut wire, &mut now, Responder::DELAY);
    let packet = SlicedPacket::from_ethernet(&answer[0]).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
    assert!(tcp.syn() && tcp.ack());
    let ack = tcp.sequence_number().wrapping_add(1);
    wire.transmit(now, &segment(101, Some(ack), &[]));
    for i in 0..100 {
        let mut bytes: Vec<u8> = (1_000 * i..1_000 * (i + 1)).map(|at| (at % 251) as u8).collect();
        if i == 70 {
            bytes[500] ^= 1;
        }
        wire.transmit(now, &segment(101 + 1_000 * i, Some(ack), &bytes));
        answers(&mut wire, &mut now, Span::from_us(10));
    }
    assert_eq!((seen.tcp_bytes(), seen.tcp_wrong_bytes()), (100_000, 1));
    answers(&mut wire, &mut now, Span::from_ms(100));
    assert!(wire.next_arrival() > now, "nothing is left to be done");
}

proptest! {
    #[test]
    fn no_frame_panics(frames in prop::collection::vec(
        (prop::sample::select(vec![0x0800_u16, 0x0806, 0x86dd, 0x8100]),
         prop::collection::vec(any::<u8>(), 0..200)), 0..20),
    ) {
        let (mut wire, mut now) = (Responder::default(), Time::ZERO);
        for (kind, payload) in frames {
            let mut frame = Responder::MAC.to_vec();
            frame.extend(US);
            frame.extend(kind.to_be_bytes());
            frame.extend(&payload);
            wire.transmit(now, &frame);
            wire.transmit(now, &payload);
            let mut ip = to_responder(|builder| {
                let mut frame = Vec::new();
                builder.udp(9, 9).write(&mut frame, &payload).unwrap();
                frame
            });
            if let Some(byte) = payload.first() {
                let at = 14 + usize::from(*byte) % (ip.len() - 14);
                ip[at] ^= 0xff;
            }
            wire.transmit(now, &ip);
            answers(&mut wire, &mut now, Span::from_ms(1));
        }
    }
}

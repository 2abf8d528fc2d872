//! TX_SEGMENT: packets that a card cuts into segments.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use warikomi_nic::descriptor_fifo::{GE10, OC48, OC192};

use super::card::*;

const TX_SEGMENT: u64 = 0x44;
/// The TCP header stands behind those of Ethernet and IPv4.
const TCP_AT_34: u32 = 34 << 16;

/// A TCP packet whose lengths and checksums are wrong, and its payload.
fn packet(bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let payload = filler(bytes, 7);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .tcp(1, 5_001, 0xffff_f000, 4_096)
        .psh()
        .ack(7)
        .write(&mut frame, &payload)
        .unwrap();
    for wrong in [16, 17, 24, 25, 50, 51] {
        frame[wrong] = 0x55;
    }
    (frame, payload)
}

/// A datagram as long as such a packet.
fn datagram(bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .udp(1, 5_001)
        .write(&mut frame, &vec![0x5f; bytes])
        .unwrap();
    frame
}

/// A segment's sequence number, whether it has PSH, and its payload, if its checksums are right.
fn checked(frame: &[u8]) -> (u32, bool, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("no TCP") };
    let ip = ip.header().to_header();
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    let right = tcp.to_header().calc_checksum_ipv4(&ip, tcp.payload()).unwrap();
    assert_eq!(tcp.checksum(), right);
    (tcp.sequence_number(), tcp.psh(), tcp.payload().to_vec())
}

fn ge10() -> Card {
    Card::of(&GE10, None, None, None)
}

proptest! {
    #[test]
    fn a_packet_is_cut_into_segments_that_add_up(bytes in 1usize..65_496, mss in 100u32..9_000) {
        let (frame, payload) = packet(bytes);
        let mut card = ge10();
        card.set(TX_SEGMENT, TCP_AT_34 | mss);
        card.send(&frame);
        card.settle();
        let sent = card.sent();
        prop_assert_eq!(sent.len(), bytes.div_ceil(mss as usize));
        let (count, mut whole) = (sent.len(), Vec::new());
        for (index, segment) in sent.iter().enumerate() {
            let (sequence, is_last, part) = checked(segment);
            prop_assert_eq!(sequence, 0xffff_f000_u32.wrapping_add(whole.len() as u32));
            prop_assert_eq!(is_last, index + 1 == count);
            whole.extend(part);
        }
        prop_assert_eq!(whole, payload);
        prop_assert_eq!(card.status(), TX_DONE, "one packet, one completion");
    }
}

#[test]
fn what_was_asked_for_is_of_one_packet() {
    let (frame, _) = packet(3_000);
    let mut card = ge10();
    card.set(TX_SEGMENT, TCP_AT_34 | 1_000);
    card.send(&frame);
    card.settle();
    card.send(&frame);
    card.settle();
    let sent = card.sent();
    assert_eq!(sent.len(), 3 + 1);
    assert_eq!(sent[3], frame, "the next one goes out as it is");
    card.set(TX_SEGMENT, TCP_AT_34 | 1_000);
    card.set(CONTROL, RESET);
    card.set(CONTROL, TX_ENABLE);
    card.send(&frame);
    card.settle();
    assert_eq!(card.sent().last(), Some(&frame), "RESET clears it");
}

#[test]
fn what_makes_no_segments_is_not_sent_and_told() {
    let (frame, _) = packet(30_000);
    let (no_ip, udp) = (filler(2_000, 1), datagram(2_000));
    let cases = [
        (&frame, 34 << 16 | 16_075, "a segment longer than the MTU"),
        (&frame, 30 << 16 | 1_000, "a TCP header within IP's"),
        (&frame, 34 << 16 | 10, "more segments than a card makes"),
        (&frame, 38 << 16 | 1_000, "a TCP header that begins behind the end of IP's"),
        (&no_ip, 34 << 16 | 1_000, "no IP"),
        (&udp, 34 << 16 | 1_000, "a datagram"),
    ];
    for (frame, request, what) in cases {
        let mut card = ge10();
        card.set(TX_SEGMENT, request);
        card.send(frame);
        card.settle();
        assert_eq!((card.sent().len(), card.status()), (0, TX_DONE | TX_OVERRUN), "{what}");
    }
}

#[test]
fn cards_of_sonet_cut_nothing() {
    let (frame, _) = packet(3_000);
    for which in [&OC48, &OC192] {
        let mut card = Card::of(which, None, None, None);
        card.set(TX_SEGMENT, TCP_AT_34 | 1_000);
        card.send(&frame);
        card.settle();
        assert_eq!(card.sent(), std::slice::from_ref(&frame), "{}", which.info.name);
    }
}

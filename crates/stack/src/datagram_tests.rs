use std::net::Ipv4Addr;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use vm_memory::VolatileSlice;

use super::*;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

fn frame(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(THEIRS.octets(), OURS.octets(), 64)
        .udp(7, 5_001);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).unwrap();
    bytes
}

fn judged(bytes: &mut [u8], checksums_good: bool) -> Content {
    parse(&VolatileSlice::from(bytes), checksums_good)
}

#[test]
fn a_datagram_is_found_in_its_frame_with_padding_behind() {
    let mut bytes = frame(b"hello");
    bytes.resize(60, 0);
    let expected = Datagram {
        source: THEIRS,
        source_mac: [2; 6],
        source_port: 7,
        destination: OURS,
        destination_port: 5_001,
        payload_offset: 42,
        payload_bytes: 5,
    };
    assert_eq!(judged(&mut bytes, false), Content::Datagram(expected));
    // The checksum of an odd length of more than one chunk.
    assert!(matches!(judged(&mut frame(&[7; 3_333]), false), Content::Datagram(_)));
}

#[test]
fn a_header_with_options_is_read_to_its_end() {
    for words in 0..=10_u8 {
        let mut bytes = frame(b"hello");
        bytes.splice(34..34, vec![1; 4 * usize::from(words)]);
        bytes[14] += words;
        bytes[17] += 4 * words;
        let Content::Datagram(found) = judged(&mut bytes, true) else { panic!("{words}") };
        let at = usize::from(found.payload_offset);
        assert_eq!((found.destination_port, &bytes[at..]), (5_001, &b"hello"[..]), "{words}");
        bytes[34 + 4 * usize::from(words) + 5] += 9;
        assert!(matches!(judged(&mut bytes, true), Content::Malformed(_)), "{words}");
    }
}

#[test]
fn damage_is_noticed_unless_the_device_has_looked() {
    for (at, why) in [
        (16, Malformed::Length),
        (26, Malformed::HeaderChecksum),
        (50, Malformed::UdpChecksum),
        (38, Malformed::UdpLength),
    ] {
        let mut bytes = frame(&[0; 100]);
        bytes[at] ^= 0x10;
        assert_eq!(judged(&mut bytes, false), Content::Malformed(why), "byte {at}");
    }
    let mut bytes = frame(&[0; 100]);
    bytes[50] ^= 0x10;
    assert!(matches!(judged(&mut bytes, true), Content::Datagram(_)));
}

#[test]
fn other_protocols_are_for_others_and_fragments_are_refused() {
    let mut arp = frame(&[0; 20]);
    arp[13] = 6;
    assert_eq!(judged(&mut arp, false), Content::Other);
    let mut icmp = frame(&[0; 20]);
    icmp[23] = 1;
    assert_eq!(judged(&mut icmp, true), Content::Other);
    let mut fragment = frame(&[0; 20]);
    fragment[20] |= 0x20;
    assert_eq!(judged(&mut fragment, true), Content::Malformed(Malformed::Fragment));
}

#[test]
fn what_we_send_is_what_others_understand() {
    let station = Station { mac: [4; 6], address: OURS, prefix_bits: 24 };
    let to = Destination { address: THEIRS, port: 9, source_port: 5_001 };
    let mut bytes = headers(&station, to, [2; 6], 18).unwrap().to_vec();
    bytes.extend_from_slice(&[1; 18]);
    let copy = bytes.clone();
    let parsed = etherparse::SlicedPacket::from_ethernet(&copy).unwrap();
    let Some(etherparse::TransportSlice::Udp(udp)) = parsed.transport else { panic!("no UDP") };
    assert_eq!((udp.source_port(), udp.destination_port()), (5_001, 9));
    assert_eq!(udp.payload(), [1; 18]);
    assert!(matches!(judged(&mut bytes, false), Content::Datagram(_)));
    assert_eq!(headers(&station, to, [2; 6], 65_510), None);
}

proptest! {
    /// A frame that is read with its buffer's first line is what it is by itself.
    #[test]
    fn a_frame_in_front_in_a_buffer_is_that_frame(
        changes in prop::collection::vec((0usize..64, any::<u8>()), 0..3),
        words in 0u8..=10,
        length in 0usize..=130,
        at in 0usize..150, bytes in 0usize..150,
        good: bool,
    ) {
        let mut buffer = frame(&[9; 60]);
        buffer.splice(34..34, vec![1; 4 * usize::from(words)]);
        buffer[14] += words;
        buffer[17] += 4 * words;
        for (at, value) in changes {
            buffer[at] = value;
        }
        buffer.resize(128, 0xa5);
        let mut alone = buffer[..length.min(128)].to_vec();
        let (mut copy, mut other) = ([0; 100], [0; 100]);
        let buffer = VolatileSlice::from(&mut buffer[..]);
        let in_front = Arrived::in_front(buffer, length);
        prop_assert_eq!(in_front.is_some(), length <= 128);
        if let Some(in_front) = in_front {
            prop_assert_eq!(in_front.content(good), judged(&mut alone, good));
            let seen = in_front.look(at, bytes, &mut copy);
            let expected = alone.get(at..(at + bytes.min(100))).unwrap_or(&[]);
            prop_assert!(seen == expected || bytes > 100 && seen.len() == bytes && alone[at..].starts_with(seen));
            let copied = in_front.copy_out(at, bytes, &mut other);
            prop_assert_eq!(copied, expected);
        }
    }

    /// No bytes make it panic, and what it takes for a payload lies in the frame.
    #[test]
    fn any_bytes_are_judged(mut bytes in prop::collection::vec(any::<u8>(), 0..200), good: bool) {
        let length = bytes.len();
        if let Content::Datagram(found) = judged(&mut bytes, good) {
            prop_assert!(usize::from(found.payload_offset) + usize::from(found.payload_bytes) <= length);
        }
    }

    /// The same for frames that are nearly right, which get further.
    #[test]
    fn damaged_frames_are_judged(changes in prop::collection::vec((0usize..60, any::<u8>()), 0..4), cut in 0usize..80, good: bool) {
        let mut bytes = frame(&[9; 30]);
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(cut.max(1));
        let length = bytes.len();
        if let Content::Datagram(found) = judged(&mut bytes, good) {
            prop_assert!(usize::from(found.payload_offset) + usize::from(found.payload_bytes) <= length);
        }
    }
}

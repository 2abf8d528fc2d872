//! The hashes are those that Microsoft publishes in "Verifying the RSS Hash Calculation" (Windows
//! network drivers, Receive Side Scaling): tables for IPv4 and IPv6, each without and with TCP ports.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::super::{KEY_BYTES, Steering, toeplitz};

/// The secret key of the tables.
const KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Destination with port, source with port, the hash of the addresses, and that with TCP ports.
type Row = (&'static str, u16, &'static str, u16, u32, u32);

const IPV4: [Row; 5] = [
    ("161.142.100.80", 1_766, "66.9.149.187", 2_794, 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83", 4_739, "199.92.111.2", 14_230, 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184", 38_024, "24.19.198.95", 12_898, 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6", 2_217, "38.27.205.30", 48_228, 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2", 1_303, "153.39.163.191", 44_251, 0x5d18_09c5, 0x10e8_28a2),
];

const IPV6: [Row; 3] = [
    ("3ffe:2501:200:3::1", 1_766, "3ffe:2501:200:1fff::7", 2_794, 0x2cc1_8cd5, 0x4020_7d3d),
    ("ff02::1", 4_739, "3ffe:501:8::260:97ff:fe40:efab", 14_230, 0x0f0c_461c, 0xdde5_1bbf),
    (
        "fe80::200:f8ff:fe21:67cf",
        38_024,
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44_251,
        0x4b61_e985,
        0x02d1_feef,
    ),
];

#[derive(Clone, Copy)]
enum Transport {
    Tcp,
    Udp,
}

fn packet(
    (to, to_port, from, from_port, ..): Row,
    transport: Transport,
    tag: Option<u16>,
) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let vlan = |tag| PacketBuilder::ethernet2([2; 6], [4; 6]).single_vlan(tag);
    let ip = match (to.parse::<Ipv4Addr>(), from.parse::<Ipv4Addr>()) {
        (Ok(to), Ok(from)) => match tag {
            Some(tag) => vlan(tag.try_into().unwrap()).ipv4(from.octets(), to.octets(), 64),
            None => ethernet.ipv4(from.octets(), to.octets(), 64),
        },
        _ => {
            let [to, from] =
                [to, from].map(|address| address.parse::<Ipv6Addr>().unwrap().octets());
            match tag {
                Some(tag) => vlan(tag.try_into().unwrap()).ipv6(from, to, 64),
                None => ethernet.ipv6(from, to, 64),
            }
        }
    };
    let mut frame = Vec::new();
    let written = match transport {
        Transport::Tcp => ip.tcp(from_port, to_port, 0, 0).write(&mut frame, &[1, 2, 3]),
        Transport::Udp => ip.udp(from_port, to_port).write(&mut frame, &[1, 2, 3]),
    };
    written.unwrap();
    frame
}

fn steering() -> Steering {
    let mut steering = Steering::new(128);
    steering.set_key(KEY);
    steering
}

#[test]
fn hashes_are_the_published_ones() {
    let mut steering = steering();
    for row @ (.., addresses, with_ports) in IPV4.into_iter().chain(IPV6) {
        for tag in [None, Some(5)] {
            let [tcp, udp] = [Transport::Tcp, Transport::Udp].map(|kind| packet(row, kind, tag));
            assert_eq!(steering.hash(&tcp), Some(with_ports), "{row:x?}");
            steering.set_udp_ports(false);
            assert_eq!(steering.hash(&udp), Some(addresses), "{row:x?}");
            steering.set_udp_ports(true);
            assert_eq!(steering.hash(&udp), Some(with_ports), "{row:x?}");
        }
    }
}

#[test]
fn fragments_and_packets_without_room_for_ports_are_hashed_by_their_addresses() {
    let steering = steering();
    let (.., addresses, with_ports) = IPV4[0];
    let mut fragment = packet(IPV4[0], Transport::Tcp, None);
    fragment[20] |= 0x20; // more fragments
    assert_eq!(steering.hash(&fragment), Some(addresses));
    let mut short = packet(IPV4[0], Transport::Tcp, None);
    short[16..18].copy_from_slice(&23u16.to_be_bytes()); // total length
    assert_eq!(steering.hash(&short), Some(addresses));
    short[17] = 24;
    assert_eq!(steering.hash(&short), Some(with_ports));
}

#[test]
fn the_low_bits_of_the_hash_choose_an_entry_of_the_table() {
    let mut steering = steering();
    let frame = packet(IPV4[0], Transport::Tcp, None);
    assert_eq!(steering.queue_of(&frame), 0);
    for queue in [1, 3] {
        steering.set_entry(0x51cc_c178 & 127, queue);
        assert_eq!((steering.queue_of(&frame), steering.entry(0x78)), (queue, queue));
    }
    steering.set_entry(128, 9);
    assert_eq!(steering.entry(128), 0, "there is no such entry");
    assert_eq!(steering.queue_of(&packet(IPV4[1], Transport::Tcp, None)), 0);
    let other = [0xff; 60];
    assert_eq!((steering.hash(&other), steering.queue_of(&other)), (None, 0));
}

/// The hash as the specification has it, with the key as one long number of bits.
fn bit_by_bit(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| {
        bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 != 0)
    };
    (0..8 * input.len().min(KEY_BYTES))
        .filter(|&at| bit(input, at))
        .map(|at| (at..at + 32).fold(0, |word, at| word << 1 | u32::from(bit(key, at))))
        .fold(0, |hash, word| hash ^ word)
}

proptest! {
    #[test]
    fn every_input_has_the_hash_of_the_definition(
        key: [u8; KEY_BYTES], input in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        prop_assert_eq!(toeplitz(&key, input.iter().copied()), bit_by_bit(&key, &input));
    }

    #[test]
    fn any_frame_has_a_queue(frame in prop::collection::vec(any::<u8>(), 0..100), kind in 0u8..3) {
        let mut frame = frame;
        if let Some(place) = frame.get_mut(12..15) {
            place.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60], [0x81, 0, 0]][usize::from(kind)]);
        }
        let mut steering = steering();
        (0..128).for_each(|entry| steering.set_entry(entry, entry as u16 % 2));
        prop_assert!(steering.queue_of(&frame) < 2);
    }
}

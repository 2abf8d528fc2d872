//! The frames: built once, then patched.
//!
//! A NIC's model stores the frame check sequence behind each frame, and computing it over 16 KB
//! takes longer than anything else in an injection. But CRC-32 is linear: for texts of one length,
//! `crc(a ^ b ^ c) = crc(a) ^ crc(b) ^ crc(c)`. With everything fixed but the eight bytes of the
//! sequence number and the two of the source port, what each value of each of these bytes adds to the
//! check sequence can be worked out beforehand, and a frame's check sequence is eight look-ups, or ten
//! where there is more than one flow.

use std::net::Ipv4Addr;

use etherparse::PacketBuilder;
use warikomi_protocol::payload;
use warikomi_wire::{
    Frame, GUEST_IP, LONGEST_FRAME_BYTES, MIN_FRAME_BYTES, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET,
    UDP_PORT, fcs,
};

use crate::plan::{MAX_FLOWS, PlanError};

/// The first word of every payload, little-endian.
pub const PAYLOAD_MAGIC: u32 = payload::MAGIC;
/// What the payload begins with: magic (4 bytes), run id (4), sequence number (8), little-endian.
pub const HEADER_BYTES: usize = payload::HEAD_BYTES;

/// Where a frame has its sequence number.
pub const SEQUENCE_OFFSET: usize = PAYLOAD_OFFSET + 8;
/// Bytes of a sequence number.
pub const SEQUENCE_BYTES: usize = 8;
/// Where UDP's checksum is (RFC 768): the last two bytes of its header.
const UDP_CHECKSUM_OFFSET: usize = PAYLOAD_OFFSET - 2;
/// Where UDP's source port is: the first two bytes of its header.
const SOURCE_PORT_OFFSET: usize = PAYLOAD_OFFSET - 8;
/// Where the last byte of the IPv4 header's checksum is (RFC 791, 3.1).
const IP_CHECKSUM_END: usize = 14 + 11;
/// The bytes in which frames differ: those of the sequence number, then those of the port.
const VARYING: [usize; SEQUENCE_BYTES + 2] = {
    let mut offsets = [SOURCE_PORT_OFFSET; SEQUENCE_BYTES + 2];
    let mut byte = 0;
    while byte < SEQUENCE_BYTES {
        offsets[byte] = SEQUENCE_OFFSET + byte;
        byte += 1;
    }
    offsets[SEQUENCE_BYTES + 1] += 1;
    offsets
};
/// Where the EtherType is (IEEE 802.3, 3.2.6).
const ETHER_TYPE_OFFSET: usize = 12;
const LOCAL_EXPERIMENTAL: u16 = 0x88b5;
/// As many hops as most systems start from; nothing on the way counts them.
pub(crate) const TIME_TO_LIVE: u8 = 64;

/// The digits of a sequence number that change with most frames, each a byte.
const LOWER_DIGITS_BYTES: usize = 2;
const LOWER_DIGITS: u64 = (1 << (8 * LOWER_DIGITS_BYTES)) - 1;
/// Copies of a frame at most; two at least, whatever they take.
const MOST_COPIES: usize = 8;
/// What they take together: a part of a core's first cache, so that they stay in it.
const COPIES_BYTES: usize = 16 << 10;

const _: () = assert!(PAYLOAD_OFFSET + HEADER_BYTES <= MIN_FRAME_BYTES);

/// Addresses and ports of sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Hardware address of the sender.
    pub source_mac: [u8; 6],
    /// Hardware address of the receiver.
    pub destination_mac: [u8; 6],
    /// IP address of the sender.
    pub source_ip: Ipv4Addr,
    /// IP address of the receiver.
    pub destination_ip: Ipv4Addr,
    /// UDP port of the sender.
    pub source_port: u16,
    /// UDP port of the receiver.
    pub destination_port: u16,
}

impl Addresses {
    /// From the network side to the target's NIC with this hardware address.
    pub fn to_guest(destination_mac: [u8; 6]) -> Addresses {
        Addresses {
            source_mac: NETWORK_MAC,
            destination_mac,
            source_ip: NETWORK_IP,
            destination_ip: GUEST_IP,
            source_port: UDP_PORT,
            destination_port: UDP_PORT,
        }
    }
}

/// A UDP frame that differs from one packet to the next in its sequence number only; with more than
/// one flow, in its source port as well.
///
/// UDP's checksum is 0, "none" (RFC 768): the NIC's own check sequence guards the frame, and a
/// target would otherwise spend its time on summing up filler.
///
/// There are several copies, and the number of a frame is put into its copy some frames ahead: a copy that is read in
/// wide pieces right behind a narrow store waits until the store has reached the cache, behind all those before it,
/// which are those of the last frames into memory that is another core's.
#[derive(Clone)]
pub struct FrameTemplate {
    /// The copies; each has the same length.
    bytes: Vec<u8>,
    size_bytes: usize,
    /// The sequence number that each copy holds.
    holds: Vec<u64>,
    /// The check sequence with sequence number 0 and the first flow's port.
    base_fcs: u32,
    /// The last sequence number without its lower digits, and what it adds to the check sequence.
    upper: (u64, u32),
    /// What each value of each byte that varies adds to it: 10 KB.
    contribution: Box<[[u32; 256]; VARYING.len()]>,
    flows: u64,
    first_port: u16,
}

impl FrameTemplate {
    /// A frame of `size_bytes` without check sequence, 60 to 65,549.
    pub fn new(
        addresses: &Addresses,
        size_bytes: usize,
        run_id: u32,
    ) -> Result<FrameTemplate, PlanError> {
        if !(MIN_FRAME_BYTES..=LONGEST_FRAME_BYTES).contains(&size_bytes) {
            return Err(PlanError::Size { got: size_bytes, most: LONGEST_FRAME_BYTES });
        }
        let bytes = build(addresses, &payload(size_bytes - PAYLOAD_OFFSET, run_id))
            .map_err(|error| PlanError::Malformed(error.to_string()))?;
        debug_assert_eq!(bytes.len(), size_bytes);
        let base_fcs = fcs(&bytes);
        let fitting = (COPIES_BYTES / size_bytes).clamp(2, MOST_COPIES);
        // A power of two: which copy a number belongs to is found without a division.
        let copies = 1 << fitting.ilog2();
        Ok(FrameTemplate {
            base_fcs,
            upper: (0, 0),
            contribution: contributions(size_bytes),
            bytes: bytes.repeat(copies),
            size_bytes,
            holds: vec![0; copies],
            flows: 1,
            first_port: addresses.source_port,
        })
    }

    /// Frames of so many flows, 1 to [`MAX_FLOWS`], in turn: from the sender's port and those above
    /// it, round the end of the ports to those below.
    #[must_use]
    pub fn with_flows(self, flows: u32) -> FrameTemplate {
        let mut template = FrameTemplate { flows: flows.clamp(1, MAX_FLOWS).into(), ..self };
        // What was put in before was of one flow.
        (0..template.holds.len()).for_each(|copy| template.put(copy, 0));
        template
    }

    /// The same frames so that no protocol takes them: the target drops them right behind the driver.
    /// They have an EtherType that is nobody's (IEEE 802, local experimental EtherType 1). Of several
    /// flows a NIC would then see no ports, so these have a wrong checksum in their IPv4 header
    /// instead, which hosts must drop (RFC 1122, 3.2.1.2) and no NIC steers by.
    #[must_use]
    pub fn for_no_protocol(mut self) -> FrameTemplate {
        (0..self.holds.len()).for_each(|copy| self.put(copy, 0));
        for bytes in self.bytes.chunks_exact_mut(self.size_bytes) {
            if self.flows > 1 {
                bytes[IP_CHECKSUM_END] ^= 1;
            } else {
                bytes[ETHER_TYPE_OFFSET..ETHER_TYPE_OFFSET + 2]
                    .copy_from_slice(&LOCAL_EXPERIMENTAL.to_be_bytes());
            }
        }
        self.base_fcs = fcs(&self.bytes[..self.size_bytes]);
        self
    }

    /// The frame with this sequence number. Quickest if they come one after the other.
    #[inline]
    pub fn frame(&mut self, sequence: u64) -> Frame<'_> {
        let copy = self.copy_of(sequence);
        if self.holds[copy] != sequence {
            self.put(copy, sequence);
        }
        let ahead = sequence.wrapping_add(self.holds.len() as u64 - 1);
        self.put(self.copy_of(ahead), ahead);
        let upper = sequence & !LOWER_DIGITS;
        if upper != self.upper.0 {
            self.upper = (upper, self.digits_fcs(upper, 0..SEQUENCE_BYTES));
        }
        let fcs = self.base_fcs ^ self.upper.1 ^ self.digits_fcs(sequence, 0..LOWER_DIGITS_BYTES);
        let fcs = if self.flows > 1 { fcs ^ self.port_contribution(sequence) } else { fcs };
        let bytes = &self.bytes[copy * self.size_bytes..][..self.size_bytes];
        Frame { bytes, fcs }
    }

    #[inline]
    fn copy_of(&self, sequence: u64) -> usize {
        sequence as usize & (self.holds.len() - 1)
    }

    /// What these digits of a number, each a byte, add to the check sequence.
    #[inline]
    fn digits_fcs(&self, number: u64, digits: std::ops::Range<usize>) -> u32 {
        let bytes = number.to_le_bytes();
        digits.fold(0, |fcs, digit| fcs ^ self.contribution[digit][usize::from(bytes[digit])])
    }

    /// Puts a sequence number, and the port of its flow, into a copy.
    #[inline]
    fn put(&mut self, copy: usize, sequence: u64) {
        self.holds[copy] = sequence;
        let port = (self.flows > 1).then(|| self.port(sequence));
        let bytes = &mut self.bytes[copy * self.size_bytes..][..self.size_bytes];
        bytes[SEQUENCE_OFFSET..SEQUENCE_OFFSET + SEQUENCE_BYTES]
            .copy_from_slice(&sequence.to_le_bytes());
        if let Some(port) = port {
            bytes[SOURCE_PORT_OFFSET..SOURCE_PORT_OFFSET + 2].copy_from_slice(&port.to_be_bytes());
        }
    }

    /// The port of the flow that this sequence number belongs to.
    #[inline]
    fn port(&self, sequence: u64) -> u16 {
        let ports = u64::from(MAX_FLOWS);
        let flow = sequence % self.flows;
        ((u64::from(self.first_port) + ports - 1 + flow) % ports + 1) as u16
    }

    /// By what the check sequence changes with the port.
    #[inline]
    fn port_contribution(&self, sequence: u64) -> u32 {
        let [high, low] = (self.port(sequence) ^ self.first_port).to_be_bytes().map(usize::from);
        self.contribution[SEQUENCE_BYTES][high] ^ self.contribution[SEQUENCE_BYTES + 1][low]
    }

    /// Length of the frame in bytes, without check sequence.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

/// Header and a filler that is not all zeros, so that a byte that is not copied shows.
fn payload(len: usize, run_id: u32) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    payload[..4].copy_from_slice(&PAYLOAD_MAGIC.to_le_bytes());
    payload[4..8].copy_from_slice(&run_id.to_le_bytes());
    payload[8..HEADER_BYTES].fill(0);
    payload
}

fn build(
    addresses: &Addresses,
    payload: &[u8],
) -> Result<Vec<u8>, etherparse::err::packet::BuildWriteError> {
    let builder = PacketBuilder::ethernet2(addresses.source_mac, addresses.destination_mac)
        .ipv4(addresses.source_ip.octets(), addresses.destination_ip.octets(), TIME_TO_LIVE)
        .udp(addresses.source_port, addresses.destination_port);
    let mut bytes = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut bytes, payload)?;
    bytes[UDP_CHECKSUM_OFFSET..PAYLOAD_OFFSET].fill(0);
    Ok(bytes)
}

/// Worked out bit by bit (80 check sequences), then composed: `crc(text) ^ crc(zeros)` of a text
/// that is zero but for one bit is what this bit adds, wherever else it is set.
fn contributions(size_bytes: usize) -> Box<[[u32; 256]; VARYING.len()]> {
    let mut text = vec![0; size_bytes];
    let zeros = fcs(&text);
    let mut table = Box::new([[0; 256]; VARYING.len()]);
    for (position, row) in VARYING.into_iter().zip(table.iter_mut()) {
        for bit in 0..8 {
            text[position] = 1 << bit;
            let added = fcs(&text) ^ zeros;
            for value in (0..256).filter(|value| value & (1 << bit) != 0) {
                row[value] ^= added;
            }
        }
        text[position] = 0;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    const GUEST_MAC: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];

    #[test]
    fn a_frame_for_no_protocol_keeps_its_length_and_its_check_sequence_right() {
        let mut template = template(100).for_no_protocol();
        let frame = template.frame(77);
        assert_eq!((&frame.bytes[12..14], frame.bytes.len()), (&[0x88, 0xb5][..], 100));
        assert_eq!(frame.fcs, fcs(frame.bytes));
    }

    fn template(size_bytes: usize) -> FrameTemplate {
        FrameTemplate::new(&Addresses::to_guest(GUEST_MAC), size_bytes, 0x0102_0304).unwrap()
    }

    #[test]
    fn a_receiver_finds_what_was_meant() {
        for size_bytes in [MIN_FRAME_BYTES, 1_500, LONGEST_FRAME_BYTES] {
            let mut template = template(size_bytes);
            let frame = template.frame(0x0807_0605_0403_0201);
            assert_eq!(frame.bytes.len(), size_bytes);
            let packet = SlicedPacket::from_ethernet(frame.bytes).unwrap();
            let ip = packet.net.as_ref().unwrap().ipv4_ref().unwrap().header().to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!(usize::from(ip.total_len), size_bytes - 14);
            assert_eq!((ip.source, ip.destination), ([10, 9, 0, 2], [10, 9, 0, 1]));
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
            assert_eq!((udp.destination_port(), udp.checksum()), (5001, 0));
            assert_eq!(udp.payload()[..4], *b"WRIK");
            assert_eq!(udp.payload()[4..8], [4, 3, 2, 1]);
            assert_eq!(udp.payload()[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        }
    }

    proptest! {
        /// Copies are filled ahead; what comes must not depend on what came before.
        #[test]
        fn numbers_may_come_in_any_order(
            numbers in prop::collection::vec(prop_oneof![0u64..40, any::<u64>()], 1..60),
            flows in 1u32..5,
            size_bytes in MIN_FRAME_BYTES..9_000,
        ) {
            let mut template = template(size_bytes).with_flows(flows);
            for number in numbers {
                let frame = template.frame(number);
                prop_assert_eq!(frame.bytes.len(), size_bytes);
                prop_assert_eq!(frame.bytes[SEQUENCE_OFFSET..][..8].to_vec(), number.to_le_bytes());
                prop_assert_eq!(frame.fcs, fcs(frame.bytes));
                let port = [frame.bytes[SOURCE_PORT_OFFSET], frame.bytes[SOURCE_PORT_OFFSET + 1]];
                let flow = (number % u64::from(flows)) as u16;
                prop_assert_eq!(u16::from_be_bytes(port), UDP_PORT + flow);
            }
        }
    }

    #[test]
    fn a_size_that_no_frame_has_is_refused() {
        for size_bytes in [0, MIN_FRAME_BYTES - 1, LONGEST_FRAME_BYTES + 1, usize::MAX] {
            let made = FrameTemplate::new(&Addresses::to_guest(GUEST_MAC), size_bytes, 1);
            assert_eq!(
                made.err(),
                Some(PlanError::Size { got: size_bytes, most: LONGEST_FRAME_BYTES })
            );
        }
    }

    /// Source and destination, address and port, and the number in the payload.
    fn four_tuple(bytes: &[u8]) -> ([u8; 4], u16, [u8; 4], u16) {
        let packet = SlicedPacket::from_ethernet(bytes).unwrap();
        let ip = packet.net.as_ref().unwrap().ipv4_ref().unwrap().header().to_header();
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
        assert_eq!((udp.checksum(), usize::from(udp.length())), (0, bytes.len() - 34));
        (ip.source, udp.source_port(), ip.destination, udp.destination_port())
    }

    #[test]
    fn flows_come_in_turn_and_each_has_a_four_tuple_of_its_own() {
        for flows in [1, 2, 3, 1_000, MAX_FLOWS] {
            let mut template = template(100).with_flows(flows);
            let mut seen = std::collections::HashSet::new();
            for sequence in 0..u64::from(flows) + 3 {
                let frame = template.frame(sequence);
                assert_eq!(crate::Schedule::number_in(frame.bytes), Some(sequence));
                assert_eq!(frame.fcs, fcs(frame.bytes), "flow {sequence} of {flows}");
                let tuple = four_tuple(frame.bytes);
                assert_eq!((tuple.2, tuple.3), (GUEST_IP.octets(), UDP_PORT));
                assert_ne!(tuple.1, 0, "port 0 is none");
                assert_eq!(seen.insert(tuple), sequence < u64::from(flows), "in turn");
            }
            assert_eq!(seen.len(), flows as usize);
        }
        let first = template(100).with_flows(7).frame(7).bytes.to_vec();
        assert_eq!(first, template(100).frame(7).bytes, "the first flow is the only one otherwise");
    }

    #[test]
    fn flows_that_no_protocol_takes_keep_their_ports() {
        let mut template = template(100).with_flows(3).for_no_protocol();
        for sequence in [5, 0, 1] {
            let frame = template.frame(sequence);
            assert_eq!(frame.fcs, fcs(frame.bytes));
            let packet = SlicedPacket::from_ethernet(frame.bytes).unwrap();
            let ip = packet.net.as_ref().unwrap().ipv4_ref().unwrap().header().to_header();
            assert_ne!(ip.header_checksum, ip.calc_header_checksum(), "no host takes it");
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
            assert_eq!(u64::from(udp.source_port() - UDP_PORT), sequence % 3);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_check_sequence_is_that_of_the_whole_frame(
            size_bytes in MIN_FRAME_BYTES..=LONGEST_FRAME_BYTES,
            sequences in prop::collection::vec(any::<u64>(), 1..20),
            flows in prop_oneof![Just(1), 1..=MAX_FLOWS],
            driver_only in any::<bool>(),
        ) {
            let template = template(size_bytes).with_flows(flows);
            let mut template = if driver_only { template.for_no_protocol() } else { template };
            for sequence in sequences {
                let frame = template.frame(sequence);
                prop_assert_eq!(frame.fcs, crc32fast::hash(frame.bytes));
            }
        }
    }
}

//! What judges read from a frame's headers.

use std::ops::Range;
use std::sync::LazyLock;

use etherparse::{
    EtherType, Ethernet2Slice, IpNumber, Ipv4Slice, NetSlice, SlicedPacket, TransportSlice,
};
use warikomi_protocol::payload::{HEAD_BYTES, MOST_BYTES, filler};

use crate::{GUEST_IP, HEADER_BYTES, MIN_FRAME_BYTES, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET};
use crate::{UDP_HEADER_BYTES, UDP_PORT};

/// Where an IPv4 header has its protocol (RFC 791, 3.1).
const PROTOCOL_OFFSET: usize = 9;
/// Where a frame has IPv4's flags, and the one that must be 0 (RFC 791, 3.1).
const FLAGS_OFFSET: usize = HEADER_BYTES + 6;
const RESERVED_FLAG: u8 = 0x80;
/// Words of an IPv4 header without options.
const IPV4_WORDS: u8 = 5;

/// The payload of every message, as long as the longest; its head is each message's own.
pub(super) static FILLER: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..MOST_BYTES as usize).map(filler).collect());

/// Sums of the fillers of all payloads, behind the head: of one with `n` bytes, words `HEAD_BYTES..n` and a 0 behind the
/// last byte if that is odd.
static FILLER_SUMS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let mut sum = 0;
    let sums = FILLER.iter().enumerate().skip(HEAD_BYTES).map(|(at, &byte)| {
        sum += u64::from(byte) << if at % 2 == 0 { 8 } else { 0 };
        sum
    });
    std::iter::repeat_n(0, HEAD_BYTES + 1).chain(sums).collect()
});

/// Bytes of the pseudo header's addresses in a frame (RFC 768), and what it has besides them.
const ADDRESSES: Range<usize> = HEADER_BYTES + 12..HEADER_BYTES + 20;
const UDP_PROTOCOL: u64 = 17;
/// Where UDP's header has its checksum.
const CHECKSUM_OFFSET: usize = 6;

/// UDP's checksum of a sound datagram whose payload is a head of ours and the filler (RFC 768). Its bytes behind the
/// head are not looked at.
pub(super) fn checksum_of_numbered(frame: &[u8], payload_bytes: usize) -> Option<u16> {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair[1]);
    let words =
        |bytes: Range<usize>| Some(frame.get(bytes)?.chunks_exact(2).map(word).sum::<u64>());
    let udp = PAYLOAD_OFFSET - UDP_HEADER_BYTES;
    let mut sum = words(ADDRESSES)?
        + UDP_PROTOCOL
        + (UDP_HEADER_BYTES + payload_bytes) as u64
        + words(udp..udp + CHECKSUM_OFFSET)?
        + words(PAYLOAD_OFFSET..PAYLOAD_OFFSET + HEAD_BYTES)?
        + FILLER_SUMS.get(payload_bytes)?;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // 0 says that there is none.
    Some(match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    })
}

/// Whether a frame claims to be IPv4.
pub(super) fn claims_ipv4(frame: &[u8]) -> bool {
    Ethernet2Slice::from_slice_without_fcs(frame)
        .is_ok_and(|ethernet| ethernet.ether_type() == EtherType::IPV4)
}

/// The protocol that a frame claims to carry, whatever else is wrong with it; `None` if it does not claim to
/// be IPv4.
pub(super) fn claimed_protocol(frame: &[u8]) -> Option<IpNumber> {
    let protocol = frame.get(HEADER_BYTES + PROTOCOL_OFFSET)?;
    claims_ipv4(frame).then_some(IpNumber(*protocol))
}

/// Whether Ethernet's and IP's headers are as they should be.
pub(super) fn headers_sound(frame: &[u8], ip: &Ipv4Slice<'_>) -> bool {
    let header = ip.header();
    // The parsed header does not have the reserved flag.
    let reserved = frame.get(FLAGS_OFFSET).is_none_or(|flags| flags & RESERVED_FLAG != 0);
    frame.get(..6) == Some(&NETWORK_MAC)
        && !reserved
        && header.source_addr() == GUEST_IP
        && header.destination_addr() == NETWORK_IP
        && header.to_header().calc_header_checksum() == header.header_checksum()
}

/// The payload of a datagram from the target to the network, if all its headers are as they should be, UDP's checksum
/// among them (`checksum`; otherwise it is left out), and the frame ends with it but for padding.
pub(super) fn sound_datagram(frame: &[u8], checksum: bool) -> Option<&[u8]> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return None };
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return None };
    let bytes = HEADER_BYTES + usize::from(ip.header().total_len());
    let ends = frame.len() == bytes || (frame.len() == MIN_FRAME_BYTES && bytes < frame.len());
    let sound = headers_sound(frame, ip)
        && ip.header().ihl() == IPV4_WORDS
        && udp.destination_port() == UDP_PORT
        && usize::from(udp.length()) == UDP_HEADER_BYTES + udp.payload().len()
        && bytes == PAYLOAD_OFFSET + udp.payload().len()
        && ends;
    let payload = Some(udp.payload()).filter(|_| sound)?;
    let expected = if checksum { checksum_of_numbered(frame, payload.len())? } else { 0 };
    (udp.checksum() == expected).then_some(payload)
}

/// What a frame has for the network's address.
pub(super) fn transport_for_us(frame: &[u8]) -> Option<TransportSlice<'_>> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    match &packet.net {
        Some(NetSlice::Ipv4(ip)) if ip.header().destination_addr() == NETWORK_IP => {
            packet.transport
        }
        _ => None,
    }
}

/// The payload of a datagram to the port of numbered messages.
pub(super) fn datagram_for_us(frame: &[u8]) -> Option<&[u8]> {
    match transport_for_us(frame)? {
        TransportSlice::Udp(udp) if udp.destination_port() == UDP_PORT => Some(udp.payload()),
        _ => None,
    }
}

/// A TCP segment of a connection that is open.
pub(super) struct Segment<'a> {
    /// The number of its first byte.
    pub(super) sequence: u32,
    /// A message ends with it (PSH).
    pub(super) is_last: bool,
    pub(super) payload: &'a [u8],
}

/// Words of a TCP header without options.
const TCP_WORDS: u8 = 5;

/// The segment from the target to the network, if all its headers are as they should be, both checksums among them, and
/// the frame ends with it but for padding.
pub(super) fn sound_segment(frame: &[u8]) -> Option<Segment<'_>> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return None };
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return None };
    let bytes = HEADER_BYTES + usize::from(ip.header().total_len());
    let ends = frame.len() == bytes || (frame.len() == MIN_FRAME_BYTES && bytes < frame.len());
    let open = tcp.ack() && !tcp.syn() && !tcp.fin() && !tcp.rst() && !tcp.urg();
    let checksum = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination());
    let sound = headers_sound(frame, ip)
        && ip.header().ihl() == IPV4_WORDS
        && tcp.data_offset() == TCP_WORDS
        && tcp.destination_port() == UDP_PORT
        && open
        && checksum == Ok(tcp.checksum())
        && ends;
    let (sequence, is_last) = (tcp.sequence_number(), tcp.psh());
    sound.then_some(Segment { sequence, is_last, payload: tcp.payload() })
}

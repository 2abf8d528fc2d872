//! What judges read from a frame's headers.

use std::sync::LazyLock;

use etherparse::{
    EtherType, Ethernet2Slice, IpNumber, Ipv4Slice, NetSlice, SlicedPacket, TransportSlice,
};
use warikomi_protocol::payload::{MOST_BYTES, filler};

use crate::{GUEST_IP, HEADER_BYTES, MIN_FRAME_BYTES, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET};
use crate::{UDP_HEADER_BYTES, UDP_PORT};

/// Where an IPv4 header has its protocol (RFC 791, 3.1).
const PROTOCOL_OFFSET: usize = 9;
/// Words of an IPv4 header without options.
const IPV4_WORDS: u8 = 5;

/// The payload of every message, as long as the longest; its head is each message's own.
pub(super) static FILLER: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..MOST_BYTES as usize).map(filler).collect());

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
    frame.get(..6) == Some(&NETWORK_MAC)
        && header.source_addr() == GUEST_IP
        && header.destination_addr() == NETWORK_IP
        && header.to_header().calc_header_checksum() == header.header_checksum()
}

/// The payload of a datagram from the target to the network, if all its headers are as they should be, and
/// the frame ends with it but for padding.
pub(super) fn sound_datagram(frame: &[u8]) -> Option<&[u8]> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return None };
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return None };
    let bytes = HEADER_BYTES + usize::from(ip.header().total_len());
    let ends = frame.len() == bytes || (frame.len() == MIN_FRAME_BYTES && bytes < frame.len());
    let sound = headers_sound(frame, ip)
        && ip.header().ihl() == IPV4_WORDS
        && udp.destination_port() == UDP_PORT
        && udp.checksum() == 0
        && usize::from(udp.length()) == UDP_HEADER_BYTES + udp.payload().len()
        && bytes == PAYLOAD_OFFSET + udp.payload().len()
        && ends;
    sound.then(|| udp.payload())
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

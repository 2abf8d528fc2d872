//! UDP over IPv4 over Ethernet, judged and built in place: only headers are copied, payloads stay in
//! their buffers.

use std::net::Ipv4Addr;
use std::ops::Range;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
    Ipv4Repr, UdpPacket,
};
use vm_memory::{Bytes, VolatileMemory, VolatileSlice};

use crate::checksum::Sum;
use crate::entry::Destination;
use crate::fragment::Cut;

pub(crate) const ETHERNET_BYTES: usize = 14;
pub(crate) const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// IPv4 has up to 40 bytes of options (RFC 791, 3.1).
const MOST_HEADER_BYTES: usize = ETHERNET_BYTES + 60 + UDP_BYTES;
const CACHE_LINE_BYTES: usize = 64;
/// Words of the longest IPv4 header that lies in a frame's first cache line together with UDP's.
const LINES_IP_WORDS: u8 = ((CACHE_LINE_BYTES - ETHERNET_BYTES - UDP_BYTES) / 4) as u8;
/// Hops that a datagram of ours may take: the usual number.
pub(crate) const HOP_LIMIT: u8 = 64;

/// Bytes of the headers of a datagram that we send.
pub const HEADER_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;

/// Bytes of the headers of a fragment behind the first.
pub(crate) const FRAGMENT_HEADER_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES;

/// A UDP datagram in a frame.
///
/// In this order both addresses lie in one word of [`Content`]. Across two, an address is stored in halves of two
/// widths, and a comparison that reads it in one piece waits until both are in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Datagram {
    /// The Ethernet address that it came from.
    pub source_mac: [u8; 6],
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
    /// The port that it came from.
    pub source_port: u16,
    /// The port that it is for.
    pub destination_port: u16,
    /// Where the payload begins in the frame, in bytes.
    pub payload_offset: u16,
    /// Bytes of the payload.
    pub payload_bytes: u16,
}

/// Contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A UDP datagram.
    Datagram(Datagram),
    /// Something else, for the general stack to judge.
    Other,
    /// Something that claims to be IPv4 or UDP and is wrong; how.
    Malformed(Malformed),
}

/// What is wrong with a frame. One byte: longer words would lie where a datagram's fields do, which are then stored
/// one by one and read in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no Ethernet header.
    #[error("shorter than an Ethernet header")]
    Ethernet,
    /// There is no IPv4 header.
    #[error("shorter than an IPv4 header")]
    Short,
    /// Version or length of the header is none of IPv4.
    #[error("no IPv4 header")]
    Header,
    /// The packet is longer than the frame, or shorter than its header.
    #[error("the IPv4 length is not the frame's")]
    Length,
    /// The header's checksum.
    #[error("the IPv4 header's checksum is wrong")]
    HeaderChecksum,
    /// A part of a datagram alone.
    #[error("a fragment of a datagram")]
    Fragment,
    /// There is no UDP header.
    #[error("shorter than a UDP header")]
    ShortUdp,
    /// The datagram is longer than its packet, or shorter than its header.
    #[error("the UDP length is not the packet's")]
    UdpLength,
    /// The datagram's checksum.
    #[error("the UDP checksum is wrong")]
    UdpChecksum,
}

/// A frame without check sequence in its buffer, with a copy of its first bytes: another process may write to the
/// buffer at the same time, and what has been judged must be what is used.
#[derive(Clone, Copy)]
pub struct Arrived<'a> {
    place: VolatileSlice<'a>,
    first: [u8; CACHE_LINE_BYTES],
}

impl<'a> Arrived<'a> {
    /// The frame that is here.
    #[inline]
    pub fn new(place: VolatileSlice<'a>) -> Arrived<'a> {
        let mut first = [0; CACHE_LINE_BYTES];
        place.copy_to(&mut first);
        Arrived { place, first }
    }

    /// The frame of `bytes` bytes that is in front in a buffer, whose first line is read whatever the frame has of it;
    /// `None` if the buffer has not as much.
    ///
    /// Read and kept in pieces that no field of a usual datagram lies across: what is read from two that were stored
    /// right before waits until both are in the cache, behind all stores before them.
    #[inline]
    pub(crate) fn in_front(buffer: VolatileSlice<'a>, bytes: usize) -> Option<Arrived<'a>> {
        let line = buffer.subslice(0, CACHE_LINE_BYTES).ok()?;
        let words = line.get_array_ref::<u64>(2, 7).ok()?;
        let mut first = [0; CACHE_LINE_BYTES];
        first[..2].copy_from_slice(&line.get_ref::<u16>(0).ok()?.load().to_ne_bytes());
        for index in 0..7 {
            first[2 + 8 * index..][..8].copy_from_slice(&words.load(index).to_ne_bytes());
        }
        first[58..62].copy_from_slice(&line.get_ref::<u32>(58).ok()?.load().to_ne_bytes());
        first[62..].copy_from_slice(&line.get_ref::<u16>(62).ok()?.load().to_ne_bytes());
        Some(Arrived { place: buffer.subslice(0, bytes).ok()?, first })
    }

    /// The first bytes, as far as they are the frame's.
    #[inline]
    fn first(&self) -> &[u8] {
        &self.first[..self.place.len().min(CACHE_LINE_BYTES)]
    }

    /// Judges it. `checksums_good`: the device has checked them.
    #[inline]
    pub fn content(&self, checksums_good: bool) -> Content {
        let first = self.first();
        // The next cache line is another core's, too, and only long headers reach it.
        let long = first.get(ETHERNET_BYTES).is_some_and(|byte| byte & 0xf > LINES_IP_WORDS);
        let found = match long {
            false => judge(&self.place, first, checksums_good),
            true => self.long_content(checksums_good),
        };
        match found {
            Ok(Some(datagram)) => Content::Datagram(datagram),
            Ok(None) => Content::Other,
            Err(why) => Content::Malformed(why),
        }
    }

    #[cold]
    fn long_content(&self, checksums_good: bool) -> Result<Option<Datagram>, Malformed> {
        let mut copy = [0; MOST_HEADER_BYTES];
        let (first, rest) = copy.split_at_mut(CACHE_LINE_BYTES);
        first.copy_from_slice(&self.first);
        if let Ok(behind) = self.place.offset(CACHE_LINE_BYTES) {
            behind.copy_to(rest);
        }
        judge(&self.place, &copy[..self.place.len().min(MOST_HEADER_BYTES)], checksums_good)
    }

    /// `bytes` bytes of it from `at` on: as they were judged, or else copied into `copy`, as many as have room there.
    #[inline]
    pub fn look<'b>(&'b self, at: usize, bytes: usize, copy: &'b mut [u8]) -> &'b [u8] {
        match self.first().get(at..at + bytes) {
            Some(found) => found,
            None => self.copy_out(at, bytes, copy),
        }
    }

    /// The same, copied in any case.
    #[inline]
    pub fn copy_out<'b>(&self, at: usize, bytes: usize, into: &'b mut [u8]) -> &'b [u8] {
        let from = self.place.subslice(at, bytes.min(into.len()));
        let copied = from.map_or(0, |from| from.copy_to(into));
        &into[..copied]
    }
}

/// Judges a frame without check sequence. `checksums_good`: the device has checked them.
#[inline]
pub fn parse(frame: &VolatileSlice<'_>, checksums_good: bool) -> Content {
    Arrived::new(*frame).content(checksums_good)
}

#[inline]
fn judge(
    frame: &VolatileSlice<'_>,
    head: &[u8],
    checksums_good: bool,
) -> Result<Option<Datagram>, Malformed> {
    let Some((ethernet, rest)) = head.split_first_chunk::<ETHERNET_BYTES>() else {
        return Err(Malformed::Ethernet);
    };
    let &[_, _, _, _, _, _, source_mac @ .., _, _] = ethernet;
    let ethernet = EthernetFrame::new_unchecked(ethernet);
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return Ok(None);
    }
    if rest.len() < IPV4_BYTES {
        return Err(Malformed::Short);
    }
    let ip = Ipv4Packet::new_unchecked(rest);
    let header_bytes = usize::from(ip.header_len());
    let total_bytes = usize::from(ip.total_len());
    if ip.version() != 4 || header_bytes < IPV4_BYTES || header_bytes > rest.len() {
        return Err(Malformed::Header);
    }
    if total_bytes < header_bytes || total_bytes > frame.len() - ETHERNET_BYTES {
        return Err(Malformed::Length);
    }
    if !checksums_good && !ip.verify_checksum() {
        return Err(Malformed::HeaderChecksum);
    }
    if ip.next_header() != IpProtocol::Udp {
        return Ok(None);
    }
    if ip.more_frags() || ip.frag_offset() != 0 {
        return Err(Malformed::Fragment);
    }
    let udp_room = total_bytes - header_bytes;
    if udp_room < UDP_BYTES || rest.len() < header_bytes + UDP_BYTES {
        return Err(Malformed::ShortUdp);
    }
    let udp = UdpPacket::new_unchecked(&rest[header_bytes..header_bytes + UDP_BYTES]);
    let udp_bytes = usize::from(udp.len());
    if udp_bytes < UDP_BYTES || udp_bytes > udp_room {
        return Err(Malformed::UdpLength);
    }
    let begin = ETHERNET_BYTES + header_bytes;
    if !checksums_good && udp.checksum() != 0 {
        let datagram = frame.subslice(begin, udp_bytes).map_err(|_| Malformed::UdpLength)?;
        if !udp_checksum_holds(ip.src_addr(), ip.dst_addr(), &datagram) {
            return Err(Malformed::UdpChecksum);
        }
    }
    Ok(Some(Datagram {
        source_mac,
        source: ip.src_addr(),
        destination: ip.dst_addr(),
        source_port: udp.src_port(),
        destination_port: udp.dst_port(),
        payload_offset: (begin + UDP_BYTES) as u16,
        payload_bytes: (udp_bytes - UDP_BYTES) as u16,
    }))
}

/// The pseudo header before a datagram or a segment of this length in bytes (RFC 768; RFC 9293, 3.1).
#[inline]
pub(crate) fn pseudo_header(
    protocol: IpProtocol,
    source: [u8; 4],
    destination: [u8; 4],
    bytes: u16,
) -> Sum {
    let mut sum = Sum::default();
    sum.add(&source);
    sum.add(&destination);
    sum.add(&[0, protocol.into()]);
    sum.add(&bytes.to_be_bytes());
    sum
}

/// RFC 768: the one's complement sum of a pseudo header and the datagram.
fn udp_checksum_holds(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    datagram: &VolatileSlice<'_>,
) -> bool {
    const CHUNK_BYTES: usize = 1_024;
    let Ok(udp_bytes) = u16::try_from(datagram.len()) else { return false };
    let mut sum = pseudo_header(IpProtocol::Udp, source.octets(), destination.octets(), udp_bytes);
    let mut chunk = [0; CHUNK_BYTES];
    let mut at = 0;
    while at < datagram.len() {
        let bytes = CHUNK_BYTES.min(datagram.len() - at);
        if datagram.read_slice(&mut chunk[..bytes], at).is_err() {
            return false;
        }
        sum.add(&chunk[..bytes]);
        at += bytes;
    }
    sum.checksum() == [0; 2]
}

/// Addresses of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Station {
    /// Our Ethernet address.
    pub mac: [u8; 6],
    /// Our IP address.
    pub address: Ipv4Addr,
    /// Bits of it that name the network.
    pub prefix_bits: u8,
}

/// The headers of a datagram of `payload_bytes` from us to `to`, whose Ethernet address is `mac`.
///
/// UDP's checksum is left out (0, RFC 768): the frame's check sequence guards it, and summing up
/// would touch every byte of a payload that is otherwise not touched.
pub fn headers(
    station: &Station,
    to: Destination,
    mac: [u8; 6],
    payload_bytes: u16,
) -> Option<[u8; HEADER_BYTES]> {
    let mut headers = Headers::new(station, to, mac, payload_bytes)?;
    headers.sum_ip();
    Some(headers.bytes)
}

/// Headers of a datagram, into which its sender puts the checksums: both are 0 in the beginning. Of one that is cut
/// they are those of the first packet; the others have headers of Ethernet and IP alone.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bytes: [u8; HEADER_BYTES],
    cut: Cut,
}

impl Headers {
    /// Bytes that IP's checksum is of.
    pub(crate) const IP: Range<usize> = ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES;
    /// Where IP's header has its length, its identification, and its flags with the offset (RFC 791, 3.1).
    const IP_LENGTH: usize = ETHERNET_BYTES + 2;
    const IP_IDENTIFICATION: usize = ETHERNET_BYTES + 4;
    const IP_FLAGS: usize = ETHERNET_BYTES + 6;
    /// Where IP's checksum stands (RFC 791, 3.1).
    pub(crate) const IP_CHECKSUM: usize = ETHERNET_BYTES + 10;
    /// Where UDP's header begins; its checksum is of that and all behind it.
    pub(crate) const UDP: usize = ETHERNET_BYTES + IPV4_BYTES;
    /// Where UDP's checksum stands (RFC 768).
    pub(crate) const UDP_CHECKSUM: usize = Self::UDP + 6;

    /// Those of a datagram of `payload_bytes` from us to `to`, whose Ethernet address is `mac`; `None` if it is too
    /// long.
    pub fn new(
        station: &Station,
        to: Destination,
        mac: [u8; 6],
        payload_bytes: u16,
    ) -> Option<Headers> {
        let udp_bytes = payload_bytes.checked_add(UDP_BYTES as u16)?;
        udp_bytes.checked_add(IPV4_BYTES as u16)?;
        let mut bytes = [0; HEADER_BYTES];
        EthernetRepr {
            src_addr: EthernetAddress(station.mac),
            dst_addr: EthernetAddress(mac),
            ethertype: EthernetProtocol::Ipv4,
        }
        .emit(&mut EthernetFrame::new_unchecked(&mut bytes[..ETHERNET_BYTES]));
        Ipv4Repr {
            src_addr: station.address,
            dst_addr: to.address,
            next_header: IpProtocol::Udp,
            payload_len: usize::from(udp_bytes),
            hop_limit: HOP_LIMIT,
        }
        .emit(
            &mut Ipv4Packet::new_unchecked(&mut bytes[ETHERNET_BYTES..]),
            &ChecksumCapabilities::ignored(),
        );
        let mut udp = UdpPacket::new_unchecked(&mut bytes[Self::UDP..]);
        udp.set_src_port(to.source_port);
        udp.set_dst_port(to.port);
        udp.set_len(udp_bytes);
        udp.set_checksum(0);
        Some(Headers { bytes, cut: Cut::none(payload_bytes.into()) })
    }

    /// The same for a link with this MTU. If the datagram is cut, its packets have this identification.
    #[inline]
    pub(crate) fn over(mut self, mtu_bytes: u32, identification: u16) -> Headers {
        let length = u16::from_be_bytes([self.bytes[Self::UDP + 4], self.bytes[Self::UDP + 5]]);
        self.cut = Cut::new(usize::from(length) - UDP_BYTES, mtu_bytes);
        if self.cut.count() > 1 {
            self.bytes[Self::IP_IDENTIFICATION..][..2]
                .copy_from_slice(&identification.to_be_bytes());
            self.number(0);
        }
        self
    }

    /// Puts length, flags and offset of packet `index` into IP's header.
    fn number(&mut self, index: usize) {
        let length = self.cut.ip_bytes(index) as u16;
        let word = self.cut.flags_and_offset(index);
        self.bytes[Self::IP_LENGTH..][..2].copy_from_slice(&length.to_be_bytes());
        self.bytes[Self::IP_FLAGS..][..2].copy_from_slice(&word.to_be_bytes());
    }

    /// How the datagram is cut.
    #[inline]
    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// Headers of packet `index` behind the first, with IP's checksum.
    pub(crate) fn of_fragment(&self, index: usize) -> [u8; FRAGMENT_HEADER_BYTES] {
        let mut headers = Headers { ..*self };
        headers.number(index);
        headers.bytes[Self::IP_CHECKSUM..][..2].fill(0);
        headers.sum_ip();
        let mut bytes = [0; FRAGMENT_HEADER_BYTES];
        bytes.copy_from_slice(&headers.bytes[..FRAGMENT_HEADER_BYTES]);
        bytes
    }

    /// Their bytes.
    pub fn bytes(&self) -> &[u8; HEADER_BYTES] {
        &self.bytes
    }

    /// Puts IP's checksum in.
    #[inline]
    pub(crate) fn sum_ip(&mut self) {
        let mut sum = Sum::default();
        sum.add(&self.bytes[Self::IP]);
        self.bytes[Self::IP_CHECKSUM..][..2].copy_from_slice(&sum.checksum());
    }

    /// Puts UDP's checksum in, of a payload with this sum.
    #[inline]
    pub(crate) fn sum_udp(&mut self, payload: Sum) {
        let mut header = Sum::default();
        header.add(&self.bytes[Self::UDP..]);
        let checksum = self.udp_checksum(header.join(payload));
        self.bytes[Self::UDP_CHECKSUM..][..2].copy_from_slice(&checksum);
    }

    /// UDP's checksum, if its header and payload have this sum. One that would be 0 is all ones, because 0 says that
    /// there is none (RFC 768).
    #[inline]
    pub(crate) fn udp_checksum(&self, datagram: Sum) -> [u8; 2] {
        let four = |at: usize| {
            [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]]
        };
        let length = u16::from_be_bytes([self.bytes[Self::UDP + 4], self.bytes[Self::UDP + 5]]);
        let pseudo = pseudo_header(
            IpProtocol::Udp,
            four(ETHERNET_BYTES + 12),
            four(ETHERNET_BYTES + 16),
            length,
        );
        match pseudo.join(datagram).checksum() {
            [0, 0] => [0xff; 2],
            checksum => checksum,
        }
    }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;

//! What cards do to a packet before it goes out: they fill in checksums, and cut a long TCP or UDP packet into segments.

use crate::checksum::{self, Network, TCP, UDP};

/// Segments that one descriptor chain may become. Linux asks for 64 at most; a bound is needed
/// because the segment size is the driver's to choose.
pub(crate) const MAX_SEGMENTS: usize = 2_048;

// TCP header (RFC 9293, 3.1).
const TCP_SEQUENCE: usize = 4;
const TCP_HEADER_LENGTH: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const TCP_HEADER_MIN: usize = 20;
const FIN_AND_PUSH: u8 = 0x09;
const CONGESTION_WINDOW_REDUCED: u8 = 0x80;
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;
const UDP_HEADER: usize = 8;
// IPv4 header (RFC 791, 3.1) and IPv6 header (RFC 8200, 3).
const IPV4_LENGTH: usize = 2;
const IPV4_IDENTIFICATION: usize = 4;
const IPV4_PROTOCOL: usize = 9;
const IPV4_CHECKSUM: usize = 10;
const IPV4_HEADER: usize = 20;
const IPV4_ADDRESSES: usize = 12;
const IPV6_LENGTH: usize = 4;
const IPV6_NEXT_HEADER: usize = 6;
const IPV6_ADDRESSES: usize = 8;
const IPV6_HEADER: usize = 40;

/// Fills in the checksums of a frame. A frame that is not what the descriptor says is left alone,
/// as far as it is not.
pub(crate) fn fill_checksums(frame: &mut [u8], transport: usize, ipv4: bool, protocol: Option<u8>) {
    let Some(ip) = Network::find_behind_tags(frame) else { return };
    if ipv4 && ip.version == 4 {
        fill_header_checksum(frame, &ip);
    }
    if let Some(protocol) = protocol {
        fill_transport_checksum(frame, &ip, transport, protocol);
    }
}

fn fill_header_checksum(frame: &mut [u8], ip: &Network) {
    let at = ip.start + IPV4_CHECKSUM;
    frame[at..at + 2].fill(0);
    let field = checksum::field(ip.header_sum(frame));
    frame[at..at + 2].copy_from_slice(&field);
}

fn fill_transport_checksum(frame: &mut [u8], ip: &Network, transport: usize, protocol: u8) {
    let field = if protocol == TCP { TCP_CHECKSUM } else { UDP_CHECKSUM };
    if transport < ip.payload || transport + field + 2 > ip.end {
        return;
    }
    let at = transport + field;
    frame[at..at + 2].fill(0);
    let pseudo = ip.pseudo_sum(frame, protocol, ip.end - transport);
    let value = transport_field(pseudo + checksum::sum(&frame[transport..ip.end]), protocol);
    frame[at..at + 2].copy_from_slice(&value);
}

/// The two bytes to be put into the checksum field of this protocol.
fn transport_field(sum: u64, protocol: u8) -> [u8; 2] {
    match checksum::field(sum) {
        [0, 0] if protocol == UDP => [0xff, 0xff], // RFC 768: 0 means that there is none
        value => value,
    }
}

/// Where the headers of a packet to be segmented are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) ip: usize,
    /// Up to where the checksum of an IPv4 header goes.
    pub(crate) ip_end: usize,
    pub(crate) ipv4: bool,
    pub(crate) transport: usize,
}

impl Headers {
    /// Those behind the Ethernet type that is here, as the frame itself says, of a packet whose transport header is
    /// known.
    pub(crate) fn find(frame: &[u8], ether_type: usize, transport: usize) -> Option<Headers> {
        let ip = ether_type + 2;
        let (ipv4, ip_end) = match *frame.get(ether_type..ip)? {
            [0x08, 0x00] => (true, ip + usize::from(*frame.get(ip)? & 0xf).max(5) * 4),
            [0x86, 0xdd] => (false, ip + IPV6_HEADER),
            _ => return None,
        };
        (ip_end <= transport).then_some(Headers { ip, ip_end, ipv4, transport })
    }

    /// Whether the IP header says that it ends where the transport header begins, and that this is one of `protocol`.
    /// Behind the fixed header of IPv6 further ones may stand, which are not looked through.
    pub(crate) fn lead_to(&self, frame: &[u8], protocol: u8) -> bool {
        let at = self.ip + if self.ipv4 { IPV4_PROTOCOL } else { IPV6_NEXT_HEADER };
        let direct = self.ip_end == self.transport;
        if direct { frame.get(at) == Some(&protocol) } else { !self.ipv4 }
    }

    /// Whether an IP header has room.
    fn are_possible(&self) -> bool {
        let shortest = if self.ipv4 { IPV4_HEADER } else { IPV6_HEADER };
        self.ip + shortest <= self.ip_end && self.ip_end <= self.transport
    }
}

/// A large TCP or UDP frame, ready to be cut up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segmenter {
    headers: Headers,
    /// Offset of the payload.
    payload: usize,
    mss: usize,
    identification: u16,
    /// Of TCP: sequence number and flags.
    tcp: Option<(u32, u8)>,
    /// What the fields of checksums hold before these are summed up: of the IP header, and of the transport, which is
    /// the sum of the pseudo header without a length.
    seeds: [[u8; 2]; 2],
}

impl Segmenter {
    /// Looks at the headers. `None` if they are not where they are said to be, if they are incomplete, if the segment
    /// size is 0, or if there would be more than [`MAX_SEGMENTS`].
    ///
    /// The length fields of a frame to be segmented need not be right, so they are not asked. Its checksum fields hold
    /// what the driver has summed up already.
    pub(crate) fn new(frame: &[u8], headers: Headers, mss: usize) -> Option<Segmenter> {
        let header: &[u8; TCP_HEADER_MIN] = frame.get(headers.transport..)?.first_chunk()?;
        let header_bytes = usize::from(header[TCP_HEADER_LENGTH] >> 4) * 4;
        let [.., a, b, c, d] = *header.first_chunk::<8>()?;
        let tcp = (u32::from_be_bytes([a, b, c, d]), header[TCP_FLAGS]);
        let at = (header_bytes, headers.transport + TCP_CHECKSUM);
        let segmenter = Segmenter::behind(frame, headers, at, mss)?;
        (header_bytes >= TCP_HEADER_MIN).then_some(Segmenter { tcp: Some(tcp), ..segmenter })
    }

    /// The same of UDP: each segment is a datagram.
    pub(crate) fn udp(frame: &[u8], headers: Headers, mss: usize) -> Option<Segmenter> {
        Segmenter::behind(frame, headers, (UDP_HEADER, headers.transport + UDP_CHECKSUM), mss)
    }

    /// What is common: a transport header of this length in bytes, and where its checksum is.
    fn behind(
        frame: &[u8],
        headers: Headers,
        (header_bytes, field): (usize, usize),
        mss: usize,
    ) -> Option<Segmenter> {
        let payload = headers.transport + header_bytes;
        if !headers.are_possible() || payload > frame.len() {
            return None;
        }
        let word = |at: usize| [frame[at], frame[at + 1]];
        let segments = (frame.len() - payload).checked_div(mss)?;
        (segments < MAX_SEGMENTS).then(|| Segmenter {
            headers,
            payload,
            mss,
            identification: u16::from_be_bytes(word(headers.ip + IPV4_IDENTIFICATION)),
            tcp: None,
            seeds: [word(headers.ip + IPV4_CHECKSUM), word(field)],
        })
    }

    /// The same of a card that sums up all of it by itself, whatever stands in the fields of checksums.
    pub(crate) fn with_sums_of_its_own(self, frame: &[u8]) -> Segmenter {
        let Headers { ip, ipv4, .. } = self.headers;
        let addresses = match ipv4 {
            true => &frame[ip + IPV4_ADDRESSES..ip + IPV4_HEADER],
            false => &frame[ip + IPV6_ADDRESSES..ip + IPV6_HEADER],
        };
        let pseudo = checksum::sum(addresses) + checksum::sum(&[0, self.protocol()]);
        Segmenter { seeds: [[0, 0], checksum::fold(pseudo).to_le_bytes()], ..self }
    }

    fn protocol(&self) -> u8 {
        if self.tcp.is_some() { TCP } else { UDP }
    }

    /// Number of segments; at least 1.
    pub(crate) fn count(&self, frame: &[u8]) -> usize {
        (frame.len() - self.payload).div_ceil(self.mss).max(1)
    }

    /// Bytes of the longest segment, headers included.
    pub(crate) fn most_bytes(&self, frame: &[u8]) -> usize {
        frame.len().min(self.payload + self.mss)
    }

    /// Writes segment `index` of `frame` into `into`, behind `room` bytes that are left free.
    pub(crate) fn segment(&self, frame: &[u8], index: usize, room: usize, into: &mut Vec<u8>) {
        let from = self.payload + index * self.mss;
        let to = (from + self.mss).min(frame.len());
        let (first, last) = (index == 0, to == frame.len());
        into.clear();
        into.resize(room, 0);
        into.extend_from_slice(&frame[..self.payload]);
        into.extend_from_slice(&frame[from..to]);
        let into = &mut into[room..];
        let Headers { ip, transport, ipv4, .. } = self.headers;
        if let Some((sequence, flags)) = self.tcp {
            let sequence = sequence.wrapping_add((index * self.mss) as u32);
            put(into, transport + TCP_SEQUENCE, &sequence.to_be_bytes());
            let clear = if last { 0 } else { FIN_AND_PUSH }
                | if first { 0 } else { CONGESTION_WINDOW_REDUCED };
            into[transport + TCP_FLAGS] = flags & !clear;
        } else {
            let bytes = (into.len() - transport) as u16;
            put(into, transport + UDP_LENGTH, &bytes.to_be_bytes());
        }
        let length = into.len() - ip;
        if ipv4 {
            put(into, ip + IPV4_LENGTH, &(length as u16).to_be_bytes());
            let identification = self.identification.wrapping_add(index as u16);
            put(into, ip + IPV4_IDENTIFICATION, &identification.to_be_bytes());
        } else {
            let payload = (length - IPV6_HEADER) as u16;
            put(into, ip + IPV6_LENGTH, &payload.to_be_bytes());
        }
        self.put_checksums(into);
    }

    /// Sums up a segment from what the driver has summed up already, and its length.
    fn put_checksums(&self, segment: &mut [u8]) {
        let Headers { ip, ip_end, ipv4, transport } = self.headers;
        let [header, pseudo] = self.seeds;
        if ipv4 {
            put(segment, ip + IPV4_CHECKSUM, &header);
            let field = checksum::field(checksum::sum(&segment[ip..ip_end]));
            put(segment, ip + IPV4_CHECKSUM, &field);
        }
        let at = transport + if self.tcp.is_some() { TCP_CHECKSUM } else { UDP_CHECKSUM };
        put(segment, at, &pseudo);
        let length = (segment.len() - transport) as u32;
        let sum = checksum::sum(&length.to_be_bytes()) + checksum::sum(&segment[transport..]);
        put(segment, at, &transport_field(sum, self.protocol()));
    }
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
pub(crate) mod testing {
    //! TCP packets, and what somebody else reads in them.

    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

    use super::TCP_CHECKSUM;
    use crate::checksum;

    const V4: ([u8; 4], [u8; 4]) = ([10, 9, 0, 1], [10, 9, 0, 2]);
    const V6: ([u8; 16], [u8; 16]) = ([0xfd; 16], [0xfe; 16]);

    /// A TCP frame with wrong checksums, and the offset of its TCP header.
    pub(crate) fn tcp(v6: bool, options: usize, payload: &[u8]) -> (Vec<u8>, usize) {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if v6 { ethernet.ipv6(V6.0, V6.1, 64) } else { ethernet.ipv4(V4.0, V4.1, 64) };
        let builder = ip.tcp(1_234, 5_001, 0xffff_ff00, 4_096).fin().psh().ack(7);
        let builder = builder.options_raw(&vec![1; 4 * options]).unwrap();
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).unwrap();
        let transport = if v6 { 54 } else { 34 };
        frame[transport + TCP_CHECKSUM..transport + TCP_CHECKSUM + 2].fill(0x55);
        (frame, transport)
    }

    /// Puts in what Linux sums up for a card that does the rest: the pseudo header without a length (e1000_tso,
    /// igb_tso, tcp_v6_gso_csum_prep).
    pub(crate) fn put_pseudo_sum(frame: &mut [u8], v6: bool, field: usize, protocol: u8) {
        let addresses = if v6 { &frame[22..54] } else { &frame[26..34] };
        let sum = checksum::sum(addresses) + checksum::sum(&[0, protocol]);
        frame[field..field + 2].copy_from_slice(&checksum::fold(sum).to_le_bytes());
    }

    /// A TCP segment as etherparse sees it, all checksums right: sequence number, FIN and PSH,
    /// payload.
    pub(crate) fn checked(frame: &[u8]) -> (u32, (bool, bool), Vec<u8>) {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
        let header = tcp.to_header();
        let right = match packet.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let ip = ip.header().to_header();
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                header.calc_checksum_ipv4(&ip, tcp.payload()).unwrap()
            }
            NetSlice::Ipv6(ip) => {
                header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap()
            }
            NetSlice::Arp(_) => panic!("ARP"),
        };
        assert_eq!(header.checksum, right);
        (header.sequence_number, (header.fin, header.psh), tcp.payload().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{checked, put_pseudo_sum, tcp};
    use super::*;
    use crate::checksum::{VLAN_TYPE, type_behind_tags};

    /// Headers without options behind the tags of a frame.
    fn headers(v6: bool, tags: usize) -> Headers {
        let ip = 14 + 4 * tags;
        let ip_end = ip + if v6 { IPV6_HEADER } else { IPV4_HEADER };
        Headers { ip, ip_end, ipv4: !v6, transport: ip_end }
    }

    /// Puts up to two tags into a frame, the outer one that of a service.
    fn put_tags(frame: &mut Vec<u8>, tags: usize) {
        for kind in [VLAN_TYPE, [0x88, 0xa8]].into_iter().take(tags) {
            frame.splice(12..12, [kind[0], kind[1], 0x20, 0x05]);
        }
    }

    proptest! {
        #[test]
        fn segments_add_up_to_the_frame_and_every_checksum_is_right(
            v6: bool,
            options in 0usize..10,
            payload in prop::collection::vec(any::<u8>(), 1..5_000),
            mss in 10usize..1_500,
            tags in 0usize..=2,
            alone: bool,
        ) {
            let (mut frame, transport) = tcp(v6, options, &payload);
            if !alone {
                put_pseudo_sum(&mut frame, v6, transport + TCP_CHECKSUM, TCP);
                if !v6 {
                    frame[24..26].fill(0); // the header's checksum
                }
            }
            put_tags(&mut frame, tags);
            let headers = headers(v6, tags);
            let found = Headers::find(&frame, type_behind_tags(&frame).unwrap(), headers.transport);
            prop_assert_eq!(found, Some(headers));
            let segmenter = Segmenter::new(&frame, headers, mss).unwrap();
            let segmenter = if alone { segmenter.with_sums_of_its_own(&frame) } else { segmenter };
            let count = segmenter.count(&frame);
            let (mut whole, mut segment) = (Vec::new(), Vec::new());
            for index in 0..count {
                segmenter.segment(&frame, index, 4, &mut segment);
                prop_assert_eq!(&segment[16..16 + 4 * tags], &frame[12..12 + 4 * tags]);
                segment.drain(16..16 + 4 * tags);
                let (sequence, marks, piece) = checked(&segment[4..]);
                prop_assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(whole.len() as u32));
                let last = index + 1 == count;
                prop_assert_eq!(marks, (last, last), "FIN and PSH belong to the last");
                prop_assert!(piece.len() == mss || last && !piece.is_empty());
                whole.extend(piece);
            }
            prop_assert_eq!(whole, payload);
        }
    }

    #[test]
    fn a_long_datagram_becomes_several() {
        let payload: Vec<u8> = (0..2_500_u32).map(|i| i as u8).collect();
        let mut frame = Vec::new();
        etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
            .udp(1, 2)
            .write(&mut frame, &payload)
            .unwrap();
        frame[24..26].fill(0xff); // as igb_tso has it, where nothing is to be cancelled out
        put_pseudo_sum(&mut frame, false, 34 + UDP_CHECKSUM, UDP);
        let headers = headers(false, 0);
        let segmenter = Segmenter::udp(&frame, headers, 1_000).unwrap();
        let (mut whole, mut segment) = (Vec::new(), Vec::new());
        for index in 0..segmenter.count(&frame) {
            segmenter.segment(&frame, index, 0, &mut segment);
            assert!(checksum::checksums_good(&segment));
            whole.extend_from_slice(&segment[42..]);
        }
        assert_eq!((segmenter.count(&frame), whole), (3, payload));
        let within = Headers { ip_end: 30, transport: 30, ..headers };
        assert_eq!(Segmenter::udp(&frame, within, 1_000), None, "within the IP header");
    }

    #[test]
    fn a_segment_size_of_zero_or_too_many_segments_are_refused() {
        let (frame, _) = tcp(false, 0, &[0; 3_000]);
        let headers = headers(false, 0);
        assert_eq!(Segmenter::new(&frame, headers, 0), None);
        assert_eq!(Segmenter::new(&frame, headers, 1), None);
        assert!(Segmenter::new(&frame, headers, 2).is_some());
        assert_eq!(Headers::find(&frame, 12, 20), None, "the IP header is no TCP header");
        let within = Headers { ip_end: 20, transport: 20, ..headers };
        assert_eq!(Segmenter::new(&frame, within, 100), None, "nor where a context says so");
    }

    #[test]
    fn what_stands_in_front_of_the_transport_header_is_part_of_the_first_checksum() {
        // A tunnel as igb_tso hands it over: the field cancels out what is not the outer IP header.
        let (mut frame, transport) = tcp(false, 0, &[7; 300]);
        let between = [0x20, 0x00, 0x08, 0x00, 0x12, 0x34, 0x56, 0x78];
        frame.splice(transport..transport, between);
        let cancels = checksum::field(checksum::sum(&between));
        frame[24..26].copy_from_slice(&cancels);
        let end = transport + between.len();
        let headers = Headers { ip_end: end, transport: end, ..headers(false, 0) };
        let segmenter = Segmenter::new(&frame, headers, 100).unwrap();
        let mut segment = Vec::new();
        for index in 0..segmenter.count(&frame) {
            segmenter.segment(&frame, index, 0, &mut segment);
            assert_eq!(checksum::fold(checksum::sum(&segment[14..34])), 0xffff);
        }
    }
}

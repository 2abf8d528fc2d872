//! What cards do to a packet before it goes out: they fill in checksums, and cut a long TCP or UDP packet into segments.

use crate::checksum::{self, ETHER_TYPE, Network, TCP, UDP, VLAN_TYPE};

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
const IPV4_CHECKSUM: usize = 10;
const IPV6_LENGTH: usize = 4;
const IPV6_HEADER: usize = 40;

/// Fills in the checksums of a frame. A frame that is not what the descriptor says is left alone,
/// as far as it is not.
pub(crate) fn fill_checksums(frame: &mut [u8], transport: usize, ipv4: bool, protocol: Option<u8>) {
    let Some(ip) = Network::find(frame) else { return };
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
    let mut value = checksum::field(pseudo + checksum::sum(&frame[transport..ip.end]));
    if protocol == UDP && value == [0, 0] {
        value = [0xff, 0xff]; // RFC 768: 0 means that there is none
    }
    frame[at..at + 2].copy_from_slice(&value);
}

/// A large TCP or UDP frame, ready to be cut up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segmenter {
    version: u8,
    ip: usize,
    transport: usize,
    /// Offset of the payload.
    payload: usize,
    mss: usize,
    identification: u16,
    /// Of TCP: sequence number and flags.
    tcp: Option<(u32, u8)>,
}

impl Segmenter {
    /// Looks at the headers. `None` if the frame is not TCP at that offset, if its headers are
    /// incomplete, if the segment size is 0, or if there would be more than [`MAX_SEGMENTS`].
    ///
    /// The length fields of a frame to be segmented need not be right, so they are not asked.
    pub(crate) fn new(frame: &[u8], transport: usize, mss: usize) -> Option<Segmenter> {
        let header: &[u8; TCP_HEADER_MIN] = frame.get(transport..)?.first_chunk()?;
        let header_bytes = usize::from(header[TCP_HEADER_LENGTH] >> 4) * 4;
        let [.., a, b, c, d] = *header.first_chunk::<8>()?;
        let tcp = (u32::from_be_bytes([a, b, c, d]), header[TCP_FLAGS]);
        let segmenter = Segmenter::behind(frame, (transport, header_bytes), mss)?;
        (header_bytes >= TCP_HEADER_MIN).then_some(Segmenter { tcp: Some(tcp), ..segmenter })
    }

    /// The same of UDP: each segment is a datagram.
    pub(crate) fn udp(frame: &[u8], transport: usize, mss: usize) -> Option<Segmenter> {
        Segmenter::behind(frame, (transport, UDP_HEADER), mss)
    }

    /// What is common: a transport header of this length in bytes, at this offset.
    fn behind(
        frame: &[u8],
        (transport, header_bytes): (usize, usize),
        mss: usize,
    ) -> Option<Segmenter> {
        let tagged = frame.get(ETHER_TYPE..ETHER_TYPE + 2)? == VLAN_TYPE;
        let ether_type = if tagged { ETHER_TYPE + 4 } else { ETHER_TYPE };
        let (ip, version) = match *frame.get(ether_type..ether_type + 2)? {
            [0x08, 0x00] => (ether_type + 2, 4),
            [0x86, 0xdd] => (ether_type + 2, 6),
            _ => return None,
        };
        let shortest = match version {
            4 => usize::from(*frame.get(ip)? & 0xf).max(5) * 4,
            _ => IPV6_HEADER,
        };
        let payload = transport + header_bytes;
        if transport < ip + shortest || payload > frame.len() {
            return None;
        }
        let segments = (frame.len() - payload).checked_div(mss)?;
        (segments < MAX_SEGMENTS).then_some(Segmenter {
            version,
            ip,
            transport,
            payload,
            mss,
            identification: u16::from_be_bytes([
                frame[ip + IPV4_IDENTIFICATION],
                frame[ip + IPV4_IDENTIFICATION + 1],
            ]),
            tcp: None,
        })
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
        if let Some((sequence, flags)) = self.tcp {
            let sequence = sequence.wrapping_add((index * self.mss) as u32);
            put(into, self.transport + TCP_SEQUENCE, &sequence.to_be_bytes());
            let clear = if last { 0 } else { FIN_AND_PUSH }
                | if first { 0 } else { CONGESTION_WINDOW_REDUCED };
            into[self.transport + TCP_FLAGS] = flags & !clear;
        } else {
            let bytes = (into.len() - self.transport) as u16;
            put(into, self.transport + UDP_LENGTH, &bytes.to_be_bytes());
        }
        let length = into.len() - self.ip;
        if self.version == 4 {
            put(into, self.ip + IPV4_LENGTH, &(length as u16).to_be_bytes());
            let identification = self.identification.wrapping_add(index as u16);
            put(into, self.ip + IPV4_IDENTIFICATION, &identification.to_be_bytes());
        } else {
            let payload = (length - IPV6_HEADER) as u16;
            put(into, self.ip + IPV6_LENGTH, &payload.to_be_bytes());
        }
        let protocol = if self.tcp.is_some() { TCP } else { UDP };
        fill_checksums(into, self.transport, self.version == 4, Some(protocol));
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

    use super::testing::{checked, tcp};
    use super::*;

    proptest! {
        #[test]
        fn segments_add_up_to_the_frame_and_every_checksum_is_right(
            v6: bool,
            options in 0usize..10,
            payload in prop::collection::vec(any::<u8>(), 1..5_000),
            mss in 10usize..1_500,
        ) {
            let (frame, transport) = tcp(v6, options, &payload);
            let segmenter = Segmenter::new(&frame, transport, mss).unwrap();
            let count = segmenter.count(&frame);
            let (mut whole, mut segment) = (Vec::new(), Vec::new());
            for index in 0..count {
                segmenter.segment(&frame, index, 4, &mut segment);
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
        let segmenter = Segmenter::udp(&frame, 34, 1_000).unwrap();
        let (mut whole, mut segment) = (Vec::new(), Vec::new());
        for index in 0..segmenter.count(&frame) {
            segmenter.segment(&frame, index, 0, &mut segment);
            assert!(checksum::checksums_good(&segment));
            whole.extend_from_slice(&segment[42..]);
        }
        assert_eq!((segmenter.count(&frame), whole), (3, payload));
        assert_eq!(Segmenter::udp(&frame, 30, 1_000), None, "within the IP header");
    }

    #[test]
    fn a_segment_size_of_zero_or_too_many_segments_are_refused() {
        let (frame, transport) = tcp(false, 0, &[0; 3_000]);
        assert_eq!(Segmenter::new(&frame, transport, 0), None);
        assert_eq!(Segmenter::new(&frame, transport, 1), None);
        assert!(Segmenter::new(&frame, transport, 2).is_some());
        assert_eq!(Segmenter::new(&frame, 20, 100), None, "the IP header is no TCP header");
    }
}

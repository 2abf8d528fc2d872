//! TCP (RFC 9293) as far as a sender needs it whose connection is open, whose window never closes, and of which nothing
//! is lost: a message becomes packets with headers of their own. Each is a segment, or, if the card cuts segments (TSO),
//! as many of them as one request to the card has room for.

use std::ops::Range;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
    Ipv4Repr, TcpPacket, TcpSeqNumber,
};
use warikomi_driver::{MOST_UNCUT_BYTES, Segments};

use crate::checksum::Sum;
use crate::datagram::{ETHERNET_BYTES, HOP_LIMIT, IPV4_BYTES, Station, pseudo_header};
use crate::entry::Destination;
use crate::fragment::Cut;

const TCP_BYTES: usize = 20;
/// Where TCP's header begins in a frame.
const TCP: usize = ETHERNET_BYTES + IPV4_BYTES;
/// Where checksums, IP's identification and length stand (RFC 791, 3.1; RFC 9293, 3.1).
const IP_IDENTIFICATION: usize = ETHERNET_BYTES + 4;
const IP_CHECKSUM: usize = ETHERNET_BYTES + 10;
const TCP_CHECKSUM: usize = TCP + 16;

/// Bytes of the headers of a packet.
pub(crate) const SEGMENT_HEADER_BYTES: usize = TCP + TCP_BYTES;

/// The first byte's number. Numbers come round to 0 behind a megabyte, so that every run of some length has it.
const FIRST_SEQUENCE: u32 = 0u32.wrapping_sub(1 << 20);
/// What we have received, and have room for: the peer says nothing.
const ACKNOWLEDGEMENT: i32 = 1;
const WINDOW: u16 = u16::MAX;

/// Bytes of payload of a segment over a link with this MTU.
pub(crate) fn segment_bytes(mtu_bytes: u32) -> u32 {
    mtu_bytes.saturating_sub((IPV4_BYTES + TCP_BYTES) as u32).max(1)
}

/// Bytes of a message that go to a card in one piece that cuts them into such segments: as many whole ones as it takes.
pub(crate) fn uncut_bytes(segment_bytes: u32) -> u32 {
    let most = (MOST_UNCUT_BYTES - SEGMENT_HEADER_BYTES) as u32;
    (most - most % segment_bytes.min(most)).max(segment_bytes)
}

/// How a message is divided among packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// It is a UDP datagram, which IP cuts if it is longer than the link's MTU.
    Fragments {
        /// The longest packet in bytes.
        mtu_bytes: u32,
    },
    /// It is a part of a TCP stream, of which each packet has so many bytes at most.
    Segments {
        /// Bytes of the message in each packet but the last.
        bytes: u32,
    },
}

impl Division {
    /// Packets of a message of so many bytes.
    #[inline]
    pub(crate) fn count(self, message_bytes: usize) -> usize {
        match self {
            Division::Fragments { mtu_bytes } => Cut::new(message_bytes, mtu_bytes).count(),
            Division::Segments { bytes } => message_bytes.div_ceil(bytes as usize).max(1),
        }
    }

    /// Which bytes of the message packet `index` has.
    #[inline]
    pub(crate) fn part(self, message_bytes: usize, index: usize) -> Range<usize> {
        match self {
            Division::Fragments { mtu_bytes } => Cut::new(message_bytes, mtu_bytes).payload(index),
            Division::Segments { bytes } => {
                let at = |index: usize| (index * bytes as usize).min(message_bytes);
                at(index)..at(index + 1)
            }
        }
    }
}

/// An open connection, from which messages are sent one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    headers: [u8; SEGMENT_HEADER_BYTES],
    /// The number of the next message's first byte.
    sequence: u32,
    identification: u16,
    segment_bytes: u32,
    /// The card makes segments and checksums.
    offload: bool,
}

impl Stream {
    /// One from us to `to`, whose Ethernet address is `mac`, over a link with this MTU.
    pub(crate) fn new(
        station: &Station,
        to: Destination,
        mac: [u8; 6],
        mtu_bytes: u32,
        offload: bool,
    ) -> Stream {
        let mut headers = [0; SEGMENT_HEADER_BYTES];
        EthernetRepr {
            src_addr: EthernetAddress(station.mac),
            dst_addr: EthernetAddress(mac),
            ethertype: EthernetProtocol::Ipv4,
        }
        .emit(&mut EthernetFrame::new_unchecked(&mut headers[..ETHERNET_BYTES]));
        Ipv4Repr {
            src_addr: station.address,
            dst_addr: to.address,
            next_header: IpProtocol::Tcp,
            payload_len: TCP_BYTES,
            hop_limit: HOP_LIMIT,
        }
        .emit(
            &mut Ipv4Packet::new_unchecked(&mut headers[ETHERNET_BYTES..]),
            &ChecksumCapabilities::ignored(),
        );
        let mut tcp = TcpPacket::new_unchecked(&mut headers[TCP..]);
        tcp.set_src_port(to.source_port);
        tcp.set_dst_port(to.port);
        tcp.clear_flags();
        tcp.set_header_len(TCP_BYTES as u8);
        tcp.set_ack(true);
        tcp.set_ack_number(TcpSeqNumber(ACKNOWLEDGEMENT));
        tcp.set_window_len(WINDOW);
        let segment_bytes = segment_bytes(mtu_bytes);
        Stream { headers, sequence: FIRST_SEQUENCE, identification: 0, segment_bytes, offload }
    }

    /// What the card is asked to do with each packet.
    #[inline]
    pub(crate) fn segments(&self) -> Option<Segments> {
        let segments = Segments { tcp_offset: TCP as u8, bytes: self.segment_bytes as u16 };
        self.offload.then_some(segments)
    }

    /// Bytes that are summed up for the checksums of a packet's headers.
    #[inline]
    pub(crate) fn summed_header_bytes(&self) -> usize {
        if self.offload { 0 } else { IPV4_BYTES + TCP_BYTES }
    }

    /// The headers of the packet with this part of the next message, whose bytes have this sum. A card that cuts it
    /// makes the checksums.
    #[inline]
    pub(crate) fn headers(
        &self,
        part: &Range<usize>,
        is_last: bool,
        payload: Sum,
    ) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut headers = self.headers;
        let before = part.start as u32 / self.segment_bytes;
        let identification = self.identification.wrapping_add(before as u16);
        let mut ip = Ipv4Packet::new_unchecked(&mut headers[ETHERNET_BYTES..]);
        ip.set_total_len((IPV4_BYTES + TCP_BYTES + part.len()) as u16);
        headers[IP_IDENTIFICATION..][..2].copy_from_slice(&identification.to_be_bytes());
        let sequence = self.sequence.wrapping_add(part.start as u32);
        let mut tcp = TcpPacket::new_unchecked(&mut headers[TCP..]);
        tcp.set_seq_number(TcpSeqNumber(sequence as i32));
        tcp.set_psh(is_last);
        if !self.offload {
            self.sum(&mut headers, part.len(), payload);
        }
        headers
    }

    fn sum(&self, headers: &mut [u8; SEGMENT_HEADER_BYTES], bytes: usize, payload: Sum) {
        let mut ip = Sum::default();
        ip.add(&headers[ETHERNET_BYTES..TCP]);
        headers[IP_CHECKSUM..][..2].copy_from_slice(&ip.checksum());
        let ip = Ipv4Packet::new_unchecked(&headers[ETHERNET_BYTES..TCP]);
        let (source, destination) = (ip.src_addr().octets(), ip.dst_addr().octets());
        let length = (TCP_BYTES + bytes) as u16;
        let mut tcp = pseudo_header(IpProtocol::Tcp, source, destination, length);
        tcp.add(&headers[TCP..]);
        headers[TCP_CHECKSUM..][..2].copy_from_slice(&tcp.join(payload).checksum());
    }

    /// A message of so many bytes is in packets.
    #[inline]
    pub(crate) fn advance(&mut self, message_bytes: u32) {
        self.sequence = self.sequence.wrapping_add(message_bytes);
        let segments = message_bytes.div_ceil(self.segment_bytes);
        self.identification = self.identification.wrapping_add(segments as u16);
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    fn stream(mtu_bytes: u32, offload: bool) -> Stream {
        let station = Station { mac: [2; 6], address: [10, 9, 0, 1].into(), prefix_bits: 24 };
        let to = Destination { address: [10, 9, 0, 2].into(), port: 5_001, source_port: 5_002 };
        Stream::new(&station, to, [4; 6], mtu_bytes, offload)
    }

    #[test]
    fn a_card_gets_whole_segments_and_as_many_as_it_takes() {
        assert_eq!((segment_bytes(1_500), uncut_bytes(1_460)), (1_460, 43 * 1_460));
        assert_eq!((segment_bytes(16_114), uncut_bytes(16_074)), (16_074, 3 * 16_074));
        assert_eq!(uncut_bytes(65_495), 65_495, "a card takes one frame, however long");
        assert_eq!(stream(1_500, false).segments(), None);
        let segments = Segments { tcp_offset: 34, bytes: 1_460 };
        assert_eq!(stream(1_500, true).segments(), Some(segments));
    }

    proptest! {
        /// Messages one behind the other: etherparse finds every number and checksum right.
        #[test]
        fn a_messages_packets_have_each_byte_once_and_right_headers(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..4_000), 1..4),
            mtu in 68u32..2_000,
        ) {
            let mut stream = stream(mtu, false);
            let division = Division::Segments { bytes: segment_bytes(mtu) };
            let (mut number, mut next) = (0_u16, FIRST_SEQUENCE);
            for message in messages {
                let count = division.count(message.len());
                for index in 0..count {
                    let part = division.part(message.len(), index);
                    let bytes = &message[part.clone()];
                    let mut sum = Sum::default();
                    sum.add(bytes);
                    let is_last = index + 1 == count;
                    let mut frame = stream.headers(&part, is_last, sum).to_vec();
                    frame.extend(bytes);
                    prop_assert!(frame.len() <= ETHERNET_BYTES + mtu as usize);
                    let packet = SlicedPacket::from_ethernet(&frame).unwrap();
                    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IP") };
                    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
                    let ip = ip.header().to_header();
                    prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    prop_assert_eq!(ip.identification, number);
                    let right = tcp.to_header().calc_checksum_ipv4(&ip, bytes).unwrap();
                    prop_assert_eq!((tcp.checksum(), tcp.payload()), (right, bytes));
                    prop_assert_eq!((tcp.sequence_number(), tcp.psh()), (next, is_last));
                    number += 1;
                    next = next.wrapping_add(bytes.len() as u32);
                }
                stream.advance(message.len() as u32);
            }
        }
    }
}

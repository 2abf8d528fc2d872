//! Frames that a stack leaves to its card to finish: checksums, segments.

use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6Header, PacketBuilder, VlanId};
use warikomi_wire::HEADER_BYTES as ETHERNET_BYTES;

use crate::frame::{Addresses, TIME_TO_LIVE};
use crate::plan::PlanError;

const TAG_BYTES: usize = 4;
/// Sequence number, acknowledgement and window: of no connection.
const NUMBERS: (u32, u32, u16) = (1, 1, 8_192);

/// What a card is to finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// IPv6, else IPv4.
    pub ipv6: bool,
    /// TCP, else UDP.
    pub tcp: bool,
    /// A VLAN tag (IEEE 802.1Q) that stands in the frame.
    pub vlan: Option<u16>,
    /// Payload, in bytes; all of it zeros.
    pub payload_bytes: usize,
}

/// Such a frame without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// All headers. The transport's checksum is that of the pseudo header.
    pub bytes: Vec<u8>,
    /// Where the transport's header begins.
    pub transport: usize,
    /// Where its checksum is, from there.
    pub field: usize,
}

impl Unfinished {
    /// The headers, from the target to the network.
    pub fn head(&self, addresses: &Addresses) -> Result<Head, PlanError> {
        let malformed = |error: &dyn std::error::Error| PlanError::Malformed(error.to_string());
        let (from, to) = (addresses.destination_ip, addresses.source_ip);
        let ip = match self.ipv6 {
            true => {
                let header = Ipv6Header {
                    hop_limit: TIME_TO_LIVE,
                    source: from.to_ipv6_mapped().octets(),
                    destination: to.to_ipv6_mapped().octets(),
                    ..Ipv6Header::default()
                };
                IpHeaders::Ipv6(header, Default::default())
            }
            false => {
                let (from, to) = (from.octets(), to.octets());
                let header = Ipv4Header::new(0, TIME_TO_LIVE, IpNumber::UDP, from, to);
                IpHeaders::Ipv4(header.map_err(|e| malformed(&e))?, Default::default())
            }
        };
        let link = PacketBuilder::ethernet2(addresses.destination_mac, addresses.source_mac);
        let network = match self.vlan {
            None => link.ip(ip),
            Some(id) => link.single_vlan(VlanId::try_new(id).map_err(|e| malformed(&e))?).ip(ip),
        };
        let ports = (addresses.destination_port, addresses.source_port);
        let payload = vec![0; self.payload_bytes];
        let (mut bytes, (sequence, acknowledged, window)) = (Vec::new(), NUMBERS);
        let (written, field) = match self.tcp {
            true => {
                let tcp = network.tcp(ports.0, ports.1, sequence, window).ack(acknowledged);
                (tcp.write(&mut bytes, &payload), 16)
            }
            false => (network.udp(ports.0, ports.1).write(&mut bytes, &payload), 6),
        };
        written.map_err(|e| malformed(&e))?;
        let length = bytes.len();
        bytes.truncate(length - self.payload_bytes);
        let network = ETHERNET_BYTES + self.vlan.map_or(0, |_| TAG_BYTES);
        let transport = network + if self.ipv6 { Ipv6Header::LEN } else { Ipv4Header::MIN_LEN };
        let addresses = if self.ipv6 { 8..Ipv6Header::LEN } else { 12..Ipv4Header::MIN_LEN };
        let protocol = if self.tcp { IpNumber::TCP } else { IpNumber::UDP };
        let sum = pseudo_sum(&bytes[network..][addresses], protocol, length - transport);
        bytes[transport + field..][..2].copy_from_slice(&sum.to_be_bytes());
        Ok(Head { bytes, transport, field })
    }
}

/// The sum over the pseudo header, not inverted (RFC 9293, 3.1; RFC 8200, 8.1).
fn pseudo_sum(addresses: &[u8], protocol: IpNumber, length: usize) -> u16 {
    let words =
        addresses.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum = words.sum::<u32>() + u32::from(protocol.0) + length as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use etherparse::{SlicedPacket, TransportSlice};

    use super::*;

    #[test]
    fn the_checksum_is_right_once_the_card_has_added_the_rest() {
        let addresses = Addresses::to_guest([2, 0, 0, 0, 0, 1]);
        for (ipv6, tcp, vlan) in
            [(false, false, None), (false, true, None), (true, false, Some(5)), (true, true, None)]
        {
            let wanted = Unfinished { ipv6, tcp, vlan, payload_bytes: 100 };
            let Head { mut bytes, transport, field } = wanted.head(&addresses).unwrap();
            bytes.resize(bytes.len() + wanted.payload_bytes, 0);
            let sum = !pseudo_sum(&bytes[transport..], IpNumber(0), 0);
            bytes[transport + field..][..2].copy_from_slice(&sum.to_be_bytes());
            let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
            let net = packet.net.unwrap();
            let good = match (packet.transport.unwrap(), &net) {
                (TransportSlice::Udp(udp), etherparse::NetSlice::Ipv4(ip)) => {
                    let header = udp.to_header();
                    let good = header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload());
                    (good.unwrap(), header.checksum)
                }
                (TransportSlice::Udp(udp), etherparse::NetSlice::Ipv6(ip)) => {
                    let header = udp.to_header();
                    let good = header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload());
                    (good.unwrap(), header.checksum)
                }
                (TransportSlice::Tcp(tcp), etherparse::NetSlice::Ipv4(ip)) => {
                    let header = tcp.to_header();
                    let good = header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload());
                    (good.unwrap(), header.checksum)
                }
                (TransportSlice::Tcp(tcp), etherparse::NetSlice::Ipv6(ip)) => {
                    let header = tcp.to_header();
                    let good = header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload());
                    (good.unwrap(), header.checksum)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(good.0, good.1, "{wanted:?}");
        }
    }
}

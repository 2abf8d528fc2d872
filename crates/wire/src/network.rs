//! The two ends of the cable: who has which address, and where a payload begins.

use std::net::Ipv4Addr;

use crate::HEADER_BYTES;

/// The target's address on the wire; its network has 24 bits.
pub const GUEST_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The address that the packets come from.
pub const NETWORK_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The hardware address that the packets come from: locally administered.
pub const NETWORK_MAC: [u8; 6] = [0x02, 0x57, 0x4b, 0x00, 0x00, 0x02];
/// The address of the host behind the target's second card, to which its kernel forwards packets.
pub const FAR_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 2);
/// Its hardware address: locally administered.
pub const FAR_MAC: [u8; 6] = [0x02, 0x57, 0x4b, 0x00, 0x00, 0x03];
/// The UDP port that the packets go to.
pub const UDP_PORT: u16 = 5001;
/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER_BYTES: usize = 8;
/// Where the payload begins: behind Ethernet (14), IPv4 (20) and UDP (8).
pub const PAYLOAD_OFFSET: usize = HEADER_BYTES + 20 + UDP_HEADER_BYTES;

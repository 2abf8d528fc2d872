//! Internet checksums (RFC 1071), and where in a frame they are.
//!
//! Sums are kept as they come out of little-endian words: a one's complement sum is the same in
//! either byte order but for the order of its two bytes, and this way a pass over the payload needs
//! no byte to be moved.

/// Offset of the Ethernet type in an untagged frame.
pub(super) const ETHER_TYPE: usize = 12;
pub(super) const VLAN_TYPE: [u8; 2] = [0x81, 0x00];
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// The sum of the 16-bit words of `bytes`, not yet folded; a last odd byte counts as if a zero
/// followed.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let whole: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    whole + u64::from(u32::from_le_bytes(tail))
}

/// Folds a sum into 16 bits, in the byte order of the bytes that it came from.
#[inline]
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The two bytes to be put into a checksum field.
pub(super) fn field(sum: u64) -> [u8; 2] {
    (!fold(sum)).to_le_bytes()
}

/// The network layer of a frame: where it starts and ends, and its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) version: u8,
    /// Offset of the IP header.
    pub(super) start: usize,
    /// Offset of what follows the fixed header and its IPv4 options.
    pub(super) payload: usize,
    /// Offset just behind the packet, where padding begins.
    pub(super) end: usize,
    /// The protocol, or next header, that follows.
    pub(super) protocol: u8,
    /// It is a fragment, so its payload cannot be judged alone.
    pub(super) fragment: bool,
}

impl Network {
    /// Finds the IP packet in a frame, behind at most one VLAN tag. `None` if there is none that
    /// is complete.
    pub(super) fn find(frame: &[u8]) -> Option<Network> {
        let tagged = frame.get(ETHER_TYPE..ETHER_TYPE + 2)? == VLAN_TYPE;
        let at = if tagged { ETHER_TYPE + 4 } else { ETHER_TYPE };
        match *frame.get(at..at + 2)? {
            [0x08, 0x00] => Network::ipv4(frame, at + 2),
            [0x86, 0xdd] => Network::ipv6(frame, at + 2),
            _ => None,
        }
    }

    fn ipv4(frame: &[u8], start: usize) -> Option<Network> {
        let header = frame.get(start..)?;
        let fixed: &[u8; 20] = header.first_chunk()?;
        let header_bytes = usize::from(fixed[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if fixed[0] >> 4 != 4 || header_bytes < 20 || total < header_bytes || total > header.len() {
            return None;
        }
        Some(Network {
            version: 4,
            start,
            payload: start + header_bytes,
            end: start + total,
            protocol: fixed[9],
            fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0,
        })
    }

    fn ipv6(frame: &[u8], start: usize) -> Option<Network> {
        let header = frame.get(start..)?;
        let fixed: &[u8; 40] = header.first_chunk()?;
        let total = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if fixed[0] >> 4 != 6 || total > header.len() {
            return None;
        }
        Some(Network {
            version: 6,
            start,
            payload: start + 40,
            end: start + total,
            protocol: fixed[6],
            fragment: false,
        })
    }

    /// The sum over an IPv4 header with its checksum field; folds to all ones if it is right.
    pub(super) fn header_sum(&self, frame: &[u8]) -> u64 {
        sum(&frame[self.start..self.payload])
    }

    /// The sum over the pseudo header for a transport segment of `bytes` bytes.
    pub(super) fn pseudo_sum(&self, frame: &[u8], protocol: u8, bytes: usize) -> u64 {
        let addresses = if self.version == 4 {
            &frame[self.start + 12..self.start + 20]
        } else {
            &frame[self.start + 8..self.start + 40]
        };
        let length = (bytes as u32).to_be_bytes();
        sum(addresses) + sum(&length) + sum(&[0, protocol])
    }
}

// Receive status, first word (RTL8169 Rev. 1.21, page 57; Linux 6.1, enum rtl_rx_desc_bit).
pub(super) const PID_TCP: u32 = 1 << 17;
pub(super) const PID_UDP: u32 = 1 << 18;
pub(super) const PID_IP: u32 = PID_TCP | PID_UDP;
pub(super) const IP_FAIL: u32 = 1 << 16;
pub(super) const UDP_FAIL: u32 = 1 << 15;
pub(super) const TCP_FAIL: u32 = 1 << 14;

/// What receive checksum offload says about a frame: protocol, and which checksum is wrong.
///
/// The payload is looked at only if it carries a checksum: not for UDP with the checksum 0.
#[inline]
pub(super) fn verdict(frame: &[u8]) -> u32 {
    let Some(ip) = Network::find(frame) else { return 0 };
    let header = if ip.version == 4 && fold(ip.header_sum(frame)) != 0xffff { IP_FAIL } else { 0 };
    let segment = &frame[ip.payload..ip.end];
    match ip.protocol {
        _ if ip.fragment => header | PID_IP,
        UDP => header | PID_UDP | if udp_is_right(frame, &ip, segment) { 0 } else { UDP_FAIL },
        TCP => {
            let pseudo = ip.pseudo_sum(frame, TCP, segment.len());
            let right = segment.len() >= 20 && fold(pseudo + sum(segment)) == 0xffff;
            header | PID_TCP | if right { 0 } else { TCP_FAIL }
        }
        _ => header | PID_IP,
    }
}

#[inline]
fn udp_is_right(frame: &[u8], ip: &Network, segment: &[u8]) -> bool {
    let Some(header) = segment.first_chunk::<8>() else { return false };
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if length < 8 || length > segment.len() {
        return false;
    }
    if [header[6], header[7]] == [0, 0] {
        return ip.version == 4; // RFC 8200, 8.1: not optional with IPv6
    }
    fold(ip.pseudo_sum(frame, UDP, length) + sum(&segment[..length])) == 0xffff
}

//! What a receive descriptor says about checksums (82574, 7.1.5.2 and 7.1.11; 82576, 7.1.5.2 and 7.1.11).

use super::offload;
use super::regs::{self, Registers};
use crate::checksum::{self, Network, SCTP, TCP, UDP};

// Status. A datagram has the bit of every transport, too (i210, tables 7-5 and 7-6).
const IGNORED: u32 = 1 << 2;
const UDP_LOOKED_AT: u32 = 1 << 4 | TRANSPORT_LOOKED_AT;
const TRANSPORT_LOOKED_AT: u32 = 1 << 5;
const IP_LOOKED_AT: u32 = 1 << 6;
// Errors.
const TRANSPORT_WRONG: u32 = 1 << 29;
const IP_WRONG: u32 = 1 << 30;

/// Status and errors of a frame.
#[inline]
pub(crate) fn verdict(file: &Registers, frame: &[u8]) -> u32 {
    let rxcsum = file.get(regs::RXCSUM);
    if rxcsum & (regs::RXCSUM_IP | regs::RXCSUM_TRANSPORT) == 0 {
        return IGNORED;
    }
    Network::find(frame).map_or(IGNORED, |network| verdict_of(rxcsum, frame, &network))
}

#[inline]
fn verdict_of(rxcsum: u32, frame: &[u8], network: &Network) -> u32 {
    let found = checksum::judge_packet(frame, *network);
    let mut bits = 0;
    // An IPv6 header has no checksum (i210, 7.1.4.1).
    if rxcsum & regs::RXCSUM_IP != 0 && network.version == 4 {
        bits |= IP_LOOKED_AT | if found.header_wrong { IP_WRONG } else { 0 };
    }
    if rxcsum & regs::RXCSUM_TRANSPORT != 0 {
        let looked_at = match found.transport {
            Some(TCP) => TRANSPORT_LOOKED_AT,
            Some(UDP) if is_without_checksum(frame, network) => 0,
            Some(UDP) => UDP_LOOKED_AT,
            _ => 0,
        };
        let wrong = looked_at != 0 && found.transport_wrong;
        bits |= looked_at | if wrong { TRANSPORT_WRONG } else { 0 };
    }
    if bits == 0 { IGNORED } else { bits }
}

/// The same of a card that looks at SCTP, too, if the driver wants that (i210, 7.1.7.3): L4I and L4E.
#[inline]
pub(crate) fn verdict_with_sctp(file: &Registers, frame: &[u8]) -> u32 {
    let bits = verdict(file, frame);
    // A packet has one transport.
    if file.get(regs::RXCSUM) & regs::RXCSUM_SCTP == 0 || bits & TRANSPORT_LOOKED_AT != 0 {
        return bits;
    }
    match Network::find(frame).filter(|network| network.protocol == SCTP && !network.fragment) {
        Some(network) if offload::is_crc32c_right(&frame[network.payload..network.end]) => {
            bits & !IGNORED | TRANSPORT_LOOKED_AT
        }
        Some(_) => bits & !IGNORED | TRANSPORT_LOOKED_AT | TRANSPORT_WRONG,
        None => bits,
    }
}

/// Whether a datagram over IPv4 has no checksum, so that nothing is said of it (82598, table 3-55).
#[inline]
fn is_without_checksum(frame: &[u8], network: &Network) -> bool {
    const CHECKSUM: usize = 6;
    let field = frame.get(network.payload + CHECKSUM..network.payload + CHECKSUM + 2);
    network.version == 4 && field == Some(&[0, 0])
}

/// The sum of a frame from the byte on that RXCSUM names, and the number of its IP packet, where a descriptor has no
/// hash (10.2.5.13, PCSD).
#[cold]
pub(crate) fn packet_sum(file: &Registers, frame: &[u8]) -> u32 {
    let start = (file.get(regs::RXCSUM) & regs::RXCSUM_START) as usize;
    let summed = frame.get(start..).unwrap_or(&[]);
    let sum = u16::from_be_bytes(checksum::field(checksum::sum(summed)));
    let network = Network::find(frame).filter(|network| network.version == 4);
    let number = network.and_then(|network| frame.get(network.start + 4..network.start + 6));
    let number = number.map_or(0, |bytes| u32::from(u16::from_be_bytes([bytes[0], bytes[1]])));
    u32::from(sum) << 16 | number
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;
    use crate::e1000e::regs::TABLE;

    #[test]
    fn each_bit_stands_for_one_finding() {
        let ip = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        let (mut udp, mut tcp) = (Vec::new(), Vec::new());
        ip().udp(1, 2).write(&mut udp, &[1, 2, 3]).unwrap();
        ip().tcp(1, 2, 3, 4).write(&mut tcp, &[1, 2, 3]).unwrap();
        let mut file = Registers::new(&TABLE);
        for (frame, looked_at) in [(&mut udp, UDP_LOOKED_AT), (&mut tcp, TRANSPORT_LOOKED_AT)] {
            let good = looked_at | IP_LOOKED_AT;
            assert_eq!(verdict(&file, frame), good);
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(verdict(&file, frame), good | TRANSPORT_WRONG);
            frame[22] ^= 1; // time to live
            assert_eq!(verdict(&file, frame), good | TRANSPORT_WRONG | IP_WRONG);
        }
        assert_eq!(verdict(&file, &[0; 60]), IGNORED);
        file.set(regs::RXCSUM, regs::RXCSUM_IP);
        assert_eq!(verdict(&file, &tcp), IP_LOOKED_AT | IP_WRONG);
        file.set(regs::RXCSUM, 0);
        assert_eq!(verdict(&file, &tcp), IGNORED);
    }

    #[test]
    fn nothing_is_said_of_a_datagram_without_a_checksum_nor_of_a_header_that_has_none() {
        let mut file = Registers::new(&TABLE);
        let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]);
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        ethernet().ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64).udp(1, 2).write(&mut v4, &[1]).unwrap();
        ethernet().ipv6([0xfd; 16], [0xfe; 16], 64).udp(1, 2).write(&mut v6, &[1]).unwrap();
        assert_eq!(verdict(&file, &v6), UDP_LOOKED_AT);
        v4[40..42].fill(0);
        v6[60..62].fill(0);
        assert_eq!(verdict(&file, &v4), IP_LOOKED_AT);
        assert_eq!(verdict(&file, &v6), UDP_LOOKED_AT | TRANSPORT_WRONG, "RFC 8200, 8.1");
        file.set(regs::RXCSUM, regs::RXCSUM_IP);
        assert_eq!(verdict(&file, &v6), IGNORED);
        file.set(regs::RXCSUM, regs::RXCSUM_TRANSPORT);
        assert_eq!(verdict(&file, &v4), IGNORED);
    }
}

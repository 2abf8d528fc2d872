//! What a receive descriptor says about checksums (82574, 7.1.5.2 and 7.1.11; 82576, 7.1.5.2 and 7.1.11).

use super::regs::{self, Registers};
use crate::checksum::{self, Network, TCP, UDP};

// Status.
const IGNORED: u32 = 1 << 2;
const UDP_LOOKED_AT: u32 = 1 << 4;
const TCP_LOOKED_AT: u32 = 1 << 5;
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
    let Some(found) = checksum::judge(frame) else { return IGNORED };
    let mut bits = 0;
    if rxcsum & regs::RXCSUM_IP != 0 {
        bits |= IP_LOOKED_AT | if found.header_wrong { IP_WRONG } else { 0 };
    }
    if rxcsum & regs::RXCSUM_TRANSPORT != 0 {
        // A TCP segment's word of status has the bit of UDP clear, and the other way round.
        let looked_at = match found.transport {
            Some(TCP) => TCP_LOOKED_AT,
            Some(UDP) => UDP_LOOKED_AT,
            _ => 0,
        };
        let wrong = looked_at != 0 && found.transport_wrong;
        bits |= looked_at | if wrong { TRANSPORT_WRONG } else { 0 };
    }
    if bits == 0 { IGNORED } else { bits }
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
        for (frame, looked_at) in [(&mut udp, UDP_LOOKED_AT), (&mut tcp, TCP_LOOKED_AT)] {
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
}

//! What a receive descriptor says about checksums.

use crate::checksum::{self, TCP, UDP};

// Receive status, first word (RTL8169 Rev. 1.21, page 57; Linux 6.1, enum rtl_rx_desc_bit).
const PID_TCP: u32 = 1 << 17;
const PID_UDP: u32 = 1 << 18;
const PID_IP: u32 = PID_TCP | PID_UDP;
const IP_FAIL: u32 = 1 << 16;
const UDP_FAIL: u32 = 1 << 15;
const TCP_FAIL: u32 = 1 << 14;

/// What receive checksum offload says about a frame: protocol, and which checksum is wrong.
#[inline]
pub(super) fn verdict(frame: &[u8]) -> u32 {
    let Some(found) = checksum::judge(frame) else { return 0 };
    let (protocol, transport_fail) = match found.transport {
        Some(TCP) => (PID_TCP, TCP_FAIL),
        Some(UDP) => (PID_UDP, UDP_FAIL),
        _ => (PID_IP, 0),
    };
    protocol
        | if found.header_wrong { IP_FAIL } else { 0 }
        | if found.transport_wrong { transport_fail } else { 0 }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    #[test]
    fn each_bit_stands_for_one_finding() {
        let ip = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        let (mut udp, mut tcp) = (Vec::new(), Vec::new());
        ip().udp(1, 2).write(&mut udp, &[1, 2, 3]).unwrap();
        ip().tcp(1, 2, 3, 4).write(&mut tcp, &[1, 2, 3]).unwrap();
        for (frame, pid, fail) in [(&mut udp, PID_UDP, UDP_FAIL), (&mut tcp, PID_TCP, TCP_FAIL)] {
            assert_eq!(verdict(frame), pid);
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(verdict(frame), pid | fail);
            frame[22] ^= 1; // time to live
            assert_eq!(verdict(frame), pid | fail | IP_FAIL);
        }
        assert_eq!(verdict(&[0; 60]), 0);
    }
}

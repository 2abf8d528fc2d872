//! What a receive descriptor of the C+ mode says about checksums.

use crate::checksum::{self, TCP, UDP};

// Receive status, first word (Linux 6.1 8139cp.c: PID1, PID0, RxProtoTCP to RxProtoIP, IPFail, UDPFail, TCPFail).
const PID_TCP: u32 = 1 << 16;
const PID_UDP: u32 = 2 << 16;
const PID_IP: u32 = 3 << 16;
const IP_FAIL: u32 = 1 << 15;
const UDP_FAIL: u32 = 1 << 14;
const TCP_FAIL: u32 = 1 << 13;

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

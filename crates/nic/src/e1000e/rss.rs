//! Which queue a frame is for (82574, 7.1.10; registers MRQC, RETA and RSSRK in 10.2.5).

use super::regs::{self, Registers};
use crate::intel::hash::{self, field};

// MRQC: what counts, and which hashes are on.
const MODE: u32 = 3;
const MODE_RSS: u32 = 1;
const FIELDS: u32 = field::TCP_IPV4 | field::IPV4 | field::IPV6 | field::TCP_IPV6;
/// TCP over IPv6, with extension headers or without (82575, 5.4.2, TCPIPv6Ex). FreeBSD (em_initialize_rss_mapping) and
/// QEMU (E1000_MRQC_EN_TCPIPV6EX) know no other bit for it; Linux sets both (e1000e_setup_rss_hash).
const TCP_IPV6_EXTENDED: u32 = 1 << 18;

/// A frame's queue, and what the descriptor says of its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steered {
    pub(super) queue: u16,
    /// The hash's type.
    pub(super) kind: u32,
    pub(super) hash: u32,
}

/// Where a frame goes. Without a hash that is queue 0.
#[inline]
pub(super) fn steer(file: &Registers, frame: &[u8]) -> Steered {
    let mrqc = file.get(regs::MRQC);
    if mrqc & MODE != MODE_RSS || file.get(regs::RXCSUM) & regs::RXCSUM_NO_PACKET_SUM == 0 {
        return Steered::default();
    }
    let extended = if mrqc & TCP_IPV6_EXTENDED != 0 { field::TCP_IPV6 } else { 0 };
    let Some((kind, hash)) = hash::hash(file, mrqc & FIELDS | extended, frame) else {
        return Steered::default();
    };
    // The upper bit of an entry is the queue (10.2.5.22).
    Steered { queue: (hash::entry(file, hash) >> 7).into(), kind, hash }
}

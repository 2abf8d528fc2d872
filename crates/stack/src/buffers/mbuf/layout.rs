//! How a message is cut: the rules of 4.4BSD (`sosend`, `m_prepend`).

use crate::datagram::{FRAGMENT_HEADER_BYTES, HEADER_BYTES};
use crate::fragment::Cut;

/// Bytes of a small mbuf.
pub const MSIZE: u32 = 256;
/// Of these, bytes of data in the first mbuf of a packet.
pub const MHLEN: u32 = 212;
/// Bytes of data in any other.
pub(super) const MLEN: u32 = 236;
/// Bytes of data from which on a cluster is used.
pub const MINCLSIZE: u32 = MHLEN + 1;
/// Bytes of a cluster, as it was published.
pub const MCLBYTES: u32 = 2_048;
/// Data begins at a multiple of this.
const ALIGNMENT_BYTES: u32 = 4;
/// The longest message, in bytes, that leaves room for its headers in its small mbuf.
pub const HEADERS_FIT_BYTES: u32 = MHLEN - (HEADER_BYTES as u32).next_multiple_of(ALIGNMENT_BYTES);
/// Where headers lie in an mbuf of their own: IP and UDP at its end, Ethernet's in front of them.
pub(super) const HEADERS_OFFSET: u32 = MSIZE - HEADER_BYTES as u32;

/// The same of a fragment behind the first.
pub(super) const FRAGMENT_HEADERS_OFFSET: u32 = MSIZE - FRAGMENT_HEADER_BYTES as u32;

/// Where data of this length begins in the first mbuf of a packet.
#[inline]
pub(super) fn offset_of_data(bytes: u32) -> u32 {
    MSIZE - MHLEN + (MHLEN - bytes) / ALIGNMENT_BYTES * ALIGNMENT_BYTES
}

/// What a message is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Headers have an mbuf of their own.
    headers_apart: bool,
    pub(super) clusters: usize,
    /// Bytes behind the clusters, in a small mbuf; 0 if there are none.
    rest_bytes: u32,
    /// Mbufs of all fragments but the first: one with the headers, and one for each cluster that is shared or small
    /// mbuf that is copied.
    in_fragments: usize,
}

impl Layout {
    #[inline]
    pub(super) fn of(message_bytes: u32, cluster_bytes: u32, mtu_bytes: u32) -> Layout {
        let cut = Cut::new(message_bytes as usize, mtu_bytes);
        let of_fragment = |index| {
            let part = cut.payload(index);
            1 + (part.end - 1) / cluster_bytes as usize - part.start / cluster_bytes as usize + 1
        };
        let (full, rest) = (message_bytes / cluster_bytes, message_bytes % cluster_bytes);
        let (clusters, rest_bytes) = if rest >= MINCLSIZE { (full + 1, 0) } else { (full, rest) };
        Layout {
            headers_apart: message_bytes > HEADERS_FIT_BYTES,
            clusters: clusters as usize,
            rest_bytes,
            in_fragments: (1..cut.count()).map(of_fragment).sum(),
        }
    }

    /// Small mbufs, those that hold clusters among them.
    #[inline]
    pub(super) fn mbufs(self) -> usize {
        let rest = self.rest_bytes > 0 || self.clusters == 0;
        usize::from(self.headers_apart) + self.clusters + usize::from(rest) + self.in_fragments
    }
}

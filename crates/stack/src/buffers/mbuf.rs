//! Small mbufs and clusters, by the rules of 4.4BSD (`sosend`, `m_prepend`) on a machine of 32 bits.
//!
//! A message that is shorter than [`MINCLSIZE`] goes into a small mbuf, as far behind as it fits, so that
//! headers may find room in front of it. A longer one goes into clusters, one after the other; a rest that
//! is shorter than [`MINCLSIZE`] into a small mbuf. A cluster is held by a small mbuf of its own, whose
//! data area is not used then. In front of a cluster there is no room: headers get an mbuf of their own.

use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::{DmaError, DmaMemory};

use super::demand::{Demand, SendBuffers};
use super::pool::{Packets, Pool};
use crate::datagram::HEADER_BYTES;

/// Bytes of a small mbuf.
pub const MSIZE: u32 = 256;
/// Of these, bytes of data in the first mbuf of a packet.
pub const MHLEN: u32 = 212;
/// Bytes of data in any other.
const MLEN: u32 = 236;
/// Bytes of data from which on a cluster is used.
pub const MINCLSIZE: u32 = MHLEN + 1;
/// Bytes of a cluster, as it was published.
pub const MCLBYTES: u32 = 2_048;
/// Data begins at a multiple of this.
const ALIGNMENT_BYTES: u32 = 4;
/// The longest message, in bytes, that leaves room for its headers in its small mbuf.
pub const HEADERS_FIT_BYTES: u32 = MHLEN - (HEADER_BYTES as u32).next_multiple_of(ALIGNMENT_BYTES);
/// Where headers lie in an mbuf of their own: IP and UDP at its end, Ethernet's in front of them.
const HEADERS_OFFSET: u32 = MSIZE - HEADER_BYTES as u32;

/// Where data of so many bytes begins in the first mbuf of a packet.
#[inline]
fn offset_of_data(bytes: u32) -> u32 {
    MSIZE - MHLEN + (MHLEN - bytes) / ALIGNMENT_BYTES * ALIGNMENT_BYTES
}

/// What a message is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Headers have an mbuf of their own.
    headers_apart: bool,
    clusters: usize,
    /// Bytes behind the clusters, in a small mbuf; 0 if there are none.
    rest_bytes: u32,
}

impl Layout {
    #[inline]
    fn of(message_bytes: u32, cluster_bytes: u32) -> Layout {
        let (full, rest) = (message_bytes / cluster_bytes, message_bytes % cluster_bytes);
        let (clusters, rest_bytes) = if rest >= MINCLSIZE { (full + 1, 0) } else { (full, rest) };
        Layout {
            headers_apart: message_bytes > HEADERS_FIT_BYTES,
            clusters: clusters as usize,
            rest_bytes,
        }
    }

    /// Small mbufs, those that hold clusters among them.
    #[inline]
    fn mbufs(self) -> usize {
        let rest = self.rest_bytes > 0 || self.clusters == 0;
        usize::from(self.headers_apart) + self.clusters + usize::from(rest)
    }
}

/// A packet: its buffers, by their bus addresses, and its pieces.
#[derive(Debug)]
struct Chain {
    mbufs: Vec<u64>,
    clusters: Vec<u64>,
    pieces: Vec<(u64, u32)>,
}

/// Pools of small mbufs and of clusters.
#[derive(Debug)]
pub struct MbufBuffers {
    cluster_bytes: u32,
    mbufs: Pool,
    clusters: Pool,
    packets: Packets<Chain>,
}

impl MbufBuffers {
    /// Enough for `demand`, with clusters of so many bytes, in DMA memory from the bus address `first` on.
    pub fn new(cluster_bytes: u32, demand: Demand<'_>, first: u64) -> MbufBuffers {
        let (mbufs, clusters) = counts(cluster_bytes, demand);
        let behind = first + clusters as u64 * u64::from(cluster_bytes);
        let most = |uses: fn(Layout) -> usize| {
            let sizes = demand.sizes_bytes.iter();
            sizes.map(|&bytes| uses(Layout::of(bytes, cluster_bytes))).max().unwrap_or(0)
        };
        let (most_mbufs, most_clusters) = (most(Layout::mbufs), most(|layout| layout.clusters));
        MbufBuffers {
            cluster_bytes,
            clusters: Pool::new(first, cluster_bytes.into(), clusters),
            mbufs: Pool::new(behind, MSIZE.into(), mbufs),
            packets: Packets::new(demand.packets(), || Chain {
                mbufs: Vec::with_capacity(most_mbufs),
                clusters: Vec::with_capacity(most_clusters),
                pieces: Vec::with_capacity(most_mbufs),
            }),
        }
    }

    /// Bytes of DMA memory that [`new`](Self::new) takes.
    pub fn dma_bytes(cluster_bytes: u32, demand: Demand<'_>) -> u64 {
        let (mbufs, clusters) = counts(cluster_bytes, demand);
        mbufs as u64 * u64::from(MSIZE) + clusters as u64 * u64::from(cluster_bytes)
    }
}

/// Small mbufs and clusters for `demand`.
fn counts(cluster_bytes: u32, demand: Demand<'_>) -> (usize, usize) {
    let layout = |bytes| Layout::of(bytes, cluster_bytes);
    (demand.most(|bytes| layout(bytes).mbufs()), demand.most(|bytes| layout(bytes).clusters))
}

impl Chain {
    /// Copies headers and message into the buffers that it has.
    #[inline]
    fn copy(
        &mut self,
        memory: &dyn DmaMemory,
        (layout, cluster_bytes): (Layout, u32),
        headers: &[u8; HEADER_BYTES],
        message: &[u8],
    ) -> Result<(), DmaError> {
        self.pieces.clear();
        let mut mbufs = self.mbufs.iter().copied();
        let (in_clusters, rest) = message.split_at(message.len() - layout.rest_bytes as usize);
        if layout.headers_apart {
            let at = mbufs.next().unwrap_or_default() + u64::from(HEADERS_OFFSET);
            memory.write(at, headers)?;
            self.pieces.push((at, HEADER_BYTES as u32));
        }
        for (part, &cluster) in in_clusters.chunks(cluster_bytes as usize).zip(&self.clusters) {
            memory.write(cluster, part)?;
            self.pieces.push((cluster, part.len() as u32));
        }
        let Some(mbuf) = mbufs.nth(layout.clusters) else { return Ok(()) };
        if layout.headers_apart {
            let offset =
                if layout.clusters == 0 { offset_of_data(layout.rest_bytes) } else { MSIZE - MLEN };
            memory.write(mbuf + u64::from(offset), rest)?;
            self.pieces.push((mbuf + u64::from(offset), layout.rest_bytes));
        } else {
            let offset = offset_of_data(layout.rest_bytes) - HEADER_BYTES as u32;
            memory.write_pieces(mbuf + u64::from(offset), &[headers, rest])?;
            let bytes = HEADER_BYTES as u32 + layout.rest_bytes;
            self.pieces.push((mbuf + u64::from(offset), bytes));
        }
        Ok(())
    }
}

impl SendBuffers for MbufBuffers {
    #[inline]
    fn fill<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        headers: &[u8; HEADER_BYTES],
        message: &[u8],
    ) -> Result<Option<u32>, DmaError> {
        let layout = Layout::of(message.len() as u32, self.cluster_bytes);
        let mbufs = layout.mbufs();
        if self.mbufs.free() < mbufs || self.clusters.free() < layout.clusters {
            return Ok(None);
        }
        let Some((token, chain)) = self.packets.add() else { return Ok(None) };
        chain.mbufs.extend((0..mbufs).filter_map(|_| self.mbufs.take()));
        chain.clusters.extend((0..layout.clusters).filter_map(|_| self.clusters.take()));
        clock.spend(Work::Take { buffers: mbufs + layout.clusters });
        match chain.copy(memory, (layout, self.cluster_bytes), headers, message) {
            Ok(()) => {
                clock.spend(Work::Copy { bytes: message.len() });
                Ok(Some(token))
            }
            Err(error) => {
                self.free(clock, token);
                Err(error)
            }
        }
    }

    #[inline]
    fn pieces(&self, token: u32) -> &[(u64, u32)] {
        self.packets.get(token).map_or(&[], |chain| &chain.pieces)
    }

    #[inline]
    fn free<C: CostClock>(&mut self, clock: &mut C, token: u32) -> bool {
        let Some(chain) = self.packets.remove(token) else { return false };
        clock.spend(Work::Free { buffers: chain.mbufs.len() + chain.clusters.len() });
        chain.mbufs.drain(..).for_each(|mbuf| self.mbufs.give_back(mbuf));
        chain.clusters.drain(..).for_each(|cluster| self.clusters.give_back(cluster));
        true
    }

    fn refused(&self) -> u64 {
        self.packets.refused()
    }

    fn is_full(&self) -> bool {
        self.mbufs.is_full() && self.clusters.is_full() && self.packets.is_empty()
    }
}

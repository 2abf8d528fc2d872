//! Buffers that a message is copied into before it is sent, as two families of systems have them.

mod contiguous;
mod demand;
mod mbuf;
mod pool;

use std::fmt;
use std::str::FromStr;

use warikomi_driver::transmit::CostClock;
use warikomi_pci::DmaMemory;

use crate::datagram::Headers;
use crate::segment::Stream;

pub use contiguous::ContiguousBuffers;
pub use demand::{BufferCounts, BufferError, Demand, SendBuffers};
pub use mbuf::{HEADERS_FIT_BYTES, MCLBYTES, MHLEN, MINCLSIZE, MOST_DMA_BYTES, MSIZE, MbufBuffers};

/// Bytes of a cluster: a power of two in this range.
pub const CLUSTER_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// Kinds of send buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// BSD: chains of small mbufs and of clusters of so many bytes (2,048 or 4,096).
    Mbuf {
        /// Bytes of a cluster.
        cluster_bytes: u32,
    },
    /// Linux: one contiguous buffer for each packet.
    Contiguous,
}

/// Why a text names no buffers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' are no buffers; there are mbuf-2k, mbuf-4k, mbuf:BYTES (a power of two from 512 to 65536) and contiguous"
)]
pub struct ParseBuffersError(String);

impl FromStr for BufferKind {
    type Err = ParseBuffersError;

    fn from_str(text: &str) -> Result<BufferKind, ParseBuffersError> {
        let cluster_bytes = match text.trim() {
            "contiguous" => return Ok(BufferKind::Contiguous),
            "mbuf-2k" => 2_048,
            "mbuf-4k" => 4_096,
            other => other
                .strip_prefix("mbuf:")
                .and_then(|bytes| bytes.parse::<u32>().ok())
                .filter(|bytes| bytes.is_power_of_two() && CLUSTER_BYTES.contains(bytes))
                .ok_or_else(|| ParseBuffersError(other.to_owned()))?,
        };
        Ok(BufferKind::Mbuf { cluster_bytes })
    }
}

impl fmt::Display for BufferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferKind::Contiguous => f.write_str("contiguous"),
            BufferKind::Mbuf { cluster_bytes: 2_048 } => f.write_str("mbuf-2k"),
            BufferKind::Mbuf { cluster_bytes: 4_096 } => f.write_str("mbuf-4k"),
            BufferKind::Mbuf { cluster_bytes } => write!(f, "mbuf:{cluster_bytes}"),
        }
    }
}

/// Either kind.
#[derive(Debug)]
pub enum Buffers {
    /// Chains of mbufs.
    Mbuf(Box<MbufBuffers>),
    /// Contiguous buffers.
    Contiguous(ContiguousBuffers),
}

impl Buffers {
    /// Enough buffers for `demand`, in DMA memory from the bus address `first` on.
    pub fn new(kind: BufferKind, demand: Demand<'_>, first: u64) -> Buffers {
        match kind {
            BufferKind::Mbuf { cluster_bytes } => {
                Buffers::Mbuf(Box::new(MbufBuffers::new(cluster_bytes, demand, first)))
            }
            BufferKind::Contiguous => Buffers::Contiguous(ContiguousBuffers::new(demand, first)),
        }
    }

    /// Bytes of DMA memory that these take.
    pub fn dma_bytes(kind: BufferKind, demand: Demand<'_>) -> u64 {
        match kind {
            BufferKind::Mbuf { cluster_bytes } => MbufBuffers::dma_bytes(cluster_bytes, demand),
            BufferKind::Contiguous => ContiguousBuffers::dma_bytes(demand),
        }
    }
}

/// The same call on whichever kind it is.
macro_rules! either {
    ($self:ident, $buffers:ident => $call:expr) => {
        match $self {
            Buffers::Mbuf($buffers) => $call,
            Buffers::Contiguous($buffers) => $call,
        }
    };
}

impl SendBuffers for Buffers {
    #[inline]
    fn fill<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        message: &[u8],
        checksum: bool,
    ) -> Result<Option<u32>, BufferError> {
        either!(self, buffers => buffers.fill(clock, memory, message, checksum))
    }

    #[inline]
    fn output<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        headers: Headers,
        checksum: bool,
    ) -> Result<(), BufferError> {
        either!(self, buffers => buffers.output(clock, memory, token, headers, checksum))
    }

    #[inline]
    fn output_segments<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        stream: &Stream,
    ) -> Result<(), BufferError> {
        either!(self, buffers => buffers.output_segments(clock, memory, token, stream))
    }

    #[inline]
    fn gather<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<(), BufferError> {
        either!(self, buffers => buffers.gather(clock, memory, token, pieces))
    }

    #[inline]
    fn free<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
    ) -> Result<bool, BufferError> {
        either!(self, buffers => buffers.free(clock, memory, token))
    }

    fn counts(&self) -> BufferCounts {
        either!(self, buffers => buffers.counts())
    }

    fn refused(&self) -> u64 {
        either!(self, buffers => buffers.refused())
    }

    fn is_full(&self) -> bool {
        either!(self, buffers => buffers.is_full())
    }
}

#[cfg(test)]
mod tests;

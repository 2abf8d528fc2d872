//! Buffers that a message is copied into before it is sent, as two families of systems have them.

mod contiguous;
mod mbuf;

use std::fmt;
use std::str::FromStr;

use warikomi_driver::transmit::Course;
use warikomi_pci::DmaError;

/// Which buffers.
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
                .filter(|bytes| bytes.is_power_of_two() && (512..=65_536).contains(bytes))
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

/// A pool of buffers that packets are made of.
///
/// A packet is known by its token; what it is made of belongs to it until [`SendBuffers::free`].
pub trait SendBuffers {
    /// Copies headers and message into buffers; the packet's token, or `None`, and nothing taken, if
    /// there are not enough.
    fn fill<C: Course>(
        &mut self,
        course: &mut C,
        headers: &[u8],
        message: &[u8],
    ) -> Result<Option<u32>, DmaError>;

    /// Bus address and length in bytes of each piece of a packet, the first one with the headers.
    fn pieces(&self, token: u32) -> &[(u64, u32)];

    /// The packet's buffers go back; `false` if there is no such packet.
    fn free<C: Course>(&mut self, course: &mut C, token: u32) -> bool;

    /// Whether every buffer is in its pool.
    fn is_full(&self) -> bool;
}

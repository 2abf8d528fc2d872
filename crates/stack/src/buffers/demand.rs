//! What all send buffers do, and what is asked of them.

use warikomi_driver::DriverError;
use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::{DmaError, DmaMemory};

use crate::datagram::Headers;
use crate::segment::{Division, Stream};

/// What must be in buffers at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Lengths of messages in bytes, none of them 0.
    pub sizes_bytes: &'a [u32],
    /// Packets at most.
    pub packets: usize,
    /// Bytes of their messages, at most.
    pub bytes: u64,
    /// The link's MTU: a datagram that is longer is cut by IP.
    pub mtu_bytes: u32,
    /// Of TCP, bytes of a message that go into each packet at most.
    pub segment_bytes: Option<u32>,
}

impl Demand<'_> {
    /// How a message is divided among packets.
    pub(super) fn division(&self) -> Division {
        match self.segment_bytes {
            Some(bytes) => Division::Segments { bytes },
            None => Division::Fragments { mtu_bytes: self.mtu_bytes },
        }
    }

    /// Packets at most, of these lengths in these bytes.
    pub(super) fn packets(&self) -> usize {
        self.most(|_| 1)
    }

    /// Buffers at most, where a message of so many bytes takes `uses` of them.
    pub(super) fn most(&self, uses: impl Fn(u32) -> usize) -> usize {
        let each = || self.sizes_bytes.iter().map(|&bytes| (u64::from(bytes.max(1)), uses(bytes)));
        let by_packets = self.packets * each().map(|(_, used)| used).max().unwrap_or(0);
        // What takes most buffers for its bytes, as often as the bytes allow.
        let by_bytes = each().map(|(bytes, used)| self.bytes * used as u64 / bytes).max();
        by_packets.min(by_bytes.unwrap_or(0) as usize)
    }
}

/// What buffers have done since they were made: each step that a cost is declared for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Buffers taken from their pools: mbufs, clusters, contiguous ones.
    pub taken: u64,
    /// Buffers that a walk along a packet looked at: UDP's checksum, IP's, the driver that gathers.
    pub visited: u64,
    /// Bytes summed up for checksums.
    pub summed_bytes: u64,
    /// Buffers given back.
    pub freed: u64,
}

impl BufferCounts {
    /// Counts a step, and charges it.
    #[inline]
    pub(super) fn spend<C: CostClock>(&mut self, clock: &mut C, work: Work) {
        match work {
            Work::Take { buffers } => self.taken += buffers as u64,
            Work::Visit { buffers } => self.visited += buffers as u64,
            Work::Sum { bytes } | Work::SumCopied { bytes } => self.summed_bytes += bytes as u64,
            Work::Free { buffers } => self.freed += buffers as u64,
            _ => {}
        }
        clock.spend(work);
    }

    /// What was done since `before`.
    pub fn since(self, before: BufferCounts) -> BufferCounts {
        BufferCounts {
            taken: self.taken - before.taken,
            visited: self.visited - before.visited,
            summed_bytes: self.summed_bytes - before.summed_bytes,
            freed: self.freed - before.freed,
        }
    }
}

/// Why buffers cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// Memory is not there.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// What a packet's buffers say of themselves cannot be. Nothing of them was used.
    #[error(
        "the buffers of packet {token} are damaged: {what}. Only the sender writes there, so look at what else \
         writes to its DMA memory: the card, by descriptors that its driver made"
    )]
    Damaged {
        /// The packet's token.
        token: u32,
        /// What cannot be.
        what: &'static str,
    },
    /// They are not made for TCP.
    #[error("TCP is sent from contiguous buffers only; a chain of mbufs carries UDP")]
    NoSegments,
}

impl From<BufferError> for DriverError {
    fn from(error: BufferError) -> DriverError {
        match error {
            BufferError::Dma(error) => error.into(),
            other => DriverError::Invalid(other.to_string()),
        }
    }
}

/// A pool of buffers that packets are made of, and what is done with a packet on its way down.
///
/// A packet is known by its token; what it is made of belongs to it until [`SendBuffers::free`].
pub trait SendBuffers {
    /// The socket: takes buffers of `memory` and copies the message into them; the packet's token, or `None`, and
    /// nothing taken, if there are not enough for it and its headers. `checksum`: UDP will want its sum.
    fn fill<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        message: &[u8],
        checksum: bool,
    ) -> Result<Option<u32>, BufferError>;

    /// UDP and IP: puts the headers in front, with their checksums; UDP's only if `checksum`. IP cuts what is longer
    /// than the MTU, and each packet behind the first gets headers of its own.
    fn output<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        headers: Headers,
        checksum: bool,
    ) -> Result<(), BufferError>;

    /// TCP and IP: puts the connection's headers in front of each packet of its next message.
    fn output_segments<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        stream: &Stream,
    ) -> Result<(), BufferError>;

    /// The driver: bus address and length in bytes of each piece of a packet are put into `pieces`, the first one
    /// with the headers. Those of all its fragments follow each other, and each of these begins with its headers.
    fn gather<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<(), BufferError>;

    /// The packet's buffers go back; `false`, which is counted, if there is no such packet. They also go back if
    /// they are damaged.
    fn free<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
    ) -> Result<bool, BufferError>;

    /// What they have done.
    fn counts(&self) -> BufferCounts;

    /// Tokens that were freed without being a packet's.
    fn refused(&self) -> u64;

    /// Whether every buffer is in its pool.
    fn is_full(&self) -> bool;
}

/// There is no packet of this token.
pub(super) fn no_packet(token: u32) -> BufferError {
    BufferError::Damaged { token, what: "there is no such packet" }
}

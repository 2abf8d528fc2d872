//! What all send buffers do, and what is asked of them.

use warikomi_driver::transmit::CostClock;
use warikomi_pci::{DmaError, DmaMemory};

use crate::datagram::HEADER_BYTES;

/// What must be in buffers at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Lengths of messages in bytes, none of them 0.
    pub sizes_bytes: &'a [u32],
    /// Packets at most.
    pub packets: usize,
    /// Bytes of their messages, at most.
    pub bytes: u64,
}

impl Demand<'_> {
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

/// A pool of buffers that packets are made of.
///
/// A packet is known by its token; what it is made of belongs to it until [`SendBuffers::free`].
pub trait SendBuffers {
    /// Copies headers and message into buffers of `memory`; the packet's token, or `None`, and nothing
    /// taken, if there are not enough.
    fn fill<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        headers: &[u8; HEADER_BYTES],
        message: &[u8],
    ) -> Result<Option<u32>, DmaError>;

    /// Bus address and length in bytes of each piece of a packet, the first one with the headers; none if
    /// there is no such packet.
    fn pieces(&self, token: u32) -> &[(u64, u32)];

    /// The packet's buffers go back; `false`, which is counted, if there is no such packet.
    fn free<C: CostClock>(&mut self, clock: &mut C, token: u32) -> bool;

    /// Tokens that were freed without being a packet's.
    fn refused(&self) -> u64;

    /// Whether every buffer is in its pool.
    fn is_full(&self) -> bool;
}

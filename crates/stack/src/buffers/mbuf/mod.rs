//! Small mbufs and clusters, by the rules of 4.4BSD (`sosend`, `m_prepend`) on a machine of 32 bits.
//!
//! A message that is shorter than [`MINCLSIZE`] goes into a small mbuf, as far behind as it fits, so that
//! headers may find room in front of it. A longer one goes into clusters, one after the other; a rest that
//! is shorter than [`MINCLSIZE`] into a small mbuf. A cluster is held by a small mbuf of its own, whose
//! data area is not used then. In front of a cluster there is no room: headers get an mbuf of their own.
//!
//! The chain is one in memory ([`arena`]). The socket allocates and fills it mbuf by mbuf. UDP puts the headers in
//! front and walks all of it for its checksum, in a pass of its own; IP walks as far as its header goes for its own; the
//! driver walks it when it gathers; and when it was sent it is freed one by one. What is longer than the MTU is cut by
//! IP before ([`fragment`]).

mod arena;
mod fragment;
mod layout;

use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::DmaMemory;

use super::demand::{BufferCounts, BufferError, Demand, SendBuffers, no_packet};
use super::pool::Packets;
use crate::checksum::Sum;
use crate::datagram::{HEADER_BYTES, Headers};
use crate::segment::Stream;
pub use arena::MOST_DMA_BYTES;
use arena::{Arena, Chain, Mbuf};
pub use layout::{HEADERS_FIT_BYTES, MCLBYTES, MHLEN, MINCLSIZE, MSIZE};
use layout::{HEADERS_OFFSET, Layout, MLEN, offset_of_data};

/// Bytes that are copied out of a chain and summed up together.
const PASS_BYTES: usize = 2_048;

/// A packet.
#[derive(Clone, Copy, Debug, Default)]
struct Packet {
    chain: Chain,
    /// Bytes in it.
    bytes: usize,
}

/// Pools of small mbufs and of clusters.
#[derive(Debug)]
pub struct MbufBuffers {
    cluster_bytes: u32,
    mtu_bytes: u32,
    arena: Arena,
    packets: Packets<Packet>,
    counts: BufferCounts,
    /// What is being summed up: a copy, because the card may write to the original.
    pass: Box<[u8; PASS_BYTES]>,
    /// A packet's chain while it is cut.
    uncut: Vec<Mbuf>,
}

impl MbufBuffers {
    /// Enough for `demand`, with clusters of `cluster_bytes`, in DMA memory from the bus address `first` on.
    pub fn new(cluster_bytes: u32, demand: Demand<'_>, first: u64) -> MbufBuffers {
        MbufBuffers {
            cluster_bytes,
            mtu_bytes: demand.mtu_bytes,
            arena: Arena::new(first, cluster_bytes, counts(cluster_bytes, demand)),
            packets: Packets::new(demand.packets(), Packet::default),
            counts: BufferCounts::default(),
            pass: Box::new([0; PASS_BYTES]),
            uncut: Vec::new(),
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
    let layout = |bytes| Layout::of(bytes, cluster_bytes, demand.mtu_bytes);
    (demand.most(|bytes| layout(bytes).mbufs()), demand.most(|bytes| layout(bytes).clusters))
}

/// There are as many buffers as there were before the packet was begun.
fn ran_out(token: u32) -> BufferError {
    BufferError::Damaged { token, what: "a pool that had enough for it is empty" }
}

impl MbufBuffers {
    /// `sosend`: allocates mbuf after mbuf, copies the next part of the message into it, and links it to the one
    /// before.
    #[inline]
    fn copy_in<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        message: &[u8],
    ) -> Result<Chain, BufferError> {
        let mut chain = Chain::default();
        let (mut rest, mut last) = (message, None);
        loop {
            let mbuf = self.arena.get(memory, token)?.ok_or_else(|| ran_out(token))?;
            self.counts.spend(clock, Work::Take { buffers: 1 });
            let (at, room) = if rest.len() >= MINCLSIZE as usize {
                let cluster = self.arena.get_cluster(memory, token, mbuf)?;
                self.counts.spend(clock, Work::Take { buffers: 1 });
                chain.clusters += 1;
                (cluster.ok_or_else(|| ran_out(token))?, self.cluster_bytes as usize)
            } else if last.is_none() {
                (mbuf + u64::from(offset_of_data(rest.len() as u32)), MHLEN as usize)
            } else {
                (mbuf + u64::from(MSIZE - MLEN), MLEN as usize)
            };
            let (part, behind) = rest.split_at(room.min(rest.len()));
            memory.write(at, part)?;
            self.arena.set(memory, mbuf, None, (at, part.len() as u32))?;
            match last.replace(mbuf) {
                Some(last) => self.arena.link(memory, last, mbuf)?,
                None => chain.first = mbuf,
            }
            chain.mbufs += 1;
            rest = behind;
            if rest.is_empty() {
                return Ok(chain);
            }
        }
    }

    /// `M_PREPEND`: room for the headers in front of the first mbuf's data, or in an mbuf of their own; where.
    #[inline]
    fn prepend<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        chain: &mut Chain,
    ) -> Result<u64, BufferError> {
        const BYTES: u32 = HEADER_BYTES as u32;
        let first = self.arena.read(memory, chain.first, token)?;
        if first.leading_bytes(MSIZE - MHLEN) >= u64::from(BYTES) && first.len <= MHLEN - BYTES {
            let at = first.data - u64::from(BYTES);
            self.arena.set_data(memory, first.at, (at, first.len + BYTES))?;
            return Ok(at);
        }
        let mbuf = self.arena.get(memory, token)?.ok_or_else(|| ran_out(token))?;
        self.counts.spend(clock, Work::Take { buffers: 1 });
        let at = mbuf + u64::from(HEADERS_OFFSET);
        self.arena.set(memory, mbuf, Some(first.at), (at, BYTES))?;
        *chain = Chain { first: mbuf, mbufs: chain.mbufs + 1, ..*chain };
        Ok(at)
    }

    /// `in_cksum`: the sum of `bytes` of a packet, from `skip` bytes behind its beginning.
    #[inline]
    fn sum<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        (token, chain): (u32, Chain),
        mut skip: usize,
        bytes: usize,
    ) -> Result<Sum, BufferError> {
        let (mut sum, mut left) = (Sum::default(), bytes);
        let pass = &mut *self.pass;
        let visited = self.arena.walk(memory, token, chain, |mbuf| {
            let skipped = skip.min(mbuf.len as usize);
            skip -= skipped;
            let mut at = mbuf.data + skipped as u64;
            let mut here = (mbuf.len as usize - skipped).min(left);
            left -= here;
            while here > 0 {
                let part = &mut pass[..here.min(PASS_BYTES)];
                memory.read(at, part)?;
                sum.add(part);
                at += part.len() as u64;
                here -= part.len();
            }
            Ok(left > 0)
        })?;
        self.counts.spend(clock, Work::Visit { buffers: visited });
        self.counts.spend(clock, Work::Sum { bytes: bytes - left });
        if left > 0 { Err(too_short(token)) } else { Ok(sum) }
    }

    /// Gives all that a packet has back, whatever its links say.
    #[cold]
    fn give_up<C: CostClock>(&mut self, clock: &mut C, token: u32) {
        let buffers = self.arena.give_all_back(token);
        self.counts.spend(clock, Work::Free { buffers });
    }
}

fn too_short(token: u32) -> BufferError {
    BufferError::Damaged { token, what: "its chain ends before its last byte" }
}

impl SendBuffers for MbufBuffers {
    #[inline]
    fn fill<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        message: &[u8],
        _checksum: bool,
    ) -> Result<Option<u32>, BufferError> {
        let layout = Layout::of(message.len() as u32, self.cluster_bytes, self.mtu_bytes);
        let (mbufs, clusters) = self.arena.free();
        if mbufs < layout.mbufs() || clusters < layout.clusters {
            return Ok(None);
        }
        let Some((token, _)) = self.packets.add() else { return Ok(None) };
        match self.copy_in(clock, memory, token, message) {
            Ok(chain) => {
                clock.spend(Work::Copy { bytes: message.len() });
                if let Some(packet) = self.packets.get_mut(token) {
                    *packet = Packet { chain, bytes: message.len() };
                }
                Ok(Some(token))
            }
            Err(error) => {
                self.packets.remove(token);
                self.give_up(clock, token);
                Err(error)
            }
        }
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
        let Packet { mut chain, bytes } =
            *self.packets.get(token).ok_or_else(|| no_packet(token))?;
        let at = self.prepend(clock, memory, token, &mut chain)?;
        let bytes = bytes + HEADER_BYTES;
        if let Some(packet) = self.packets.get_mut(token) {
            *packet = Packet { chain, bytes };
        }
        memory.write(at, headers.bytes())?;
        if checksum {
            let (from, packet) = (Headers::UDP, (token, chain));
            let sum = self.sum(clock, memory, packet, from, bytes - from)?;
            memory.write(at + Headers::UDP_CHECKSUM as u64, &headers.udp_checksum(sum))?;
        }
        if headers.cut().count() > 1 {
            self.cut_up(clock, memory, token, &headers)?;
        }
        let chain = self.packets.get(token).ok_or_else(|| no_packet(token))?.chain;
        let ip = Headers::IP;
        let sum = self.sum(clock, memory, (token, chain), ip.start, ip.len())?;
        Ok(memory.write(at + Headers::IP_CHECKSUM as u64, &sum.checksum())?)
    }

    /// The systems that had these had no TSO, and their TCP is not here.
    fn output_segments<C: CostClock>(
        &mut self,
        _clock: &mut C,
        _memory: &dyn DmaMemory,
        _token: u32,
        _stream: &Stream,
    ) -> Result<(), BufferError> {
        Err(BufferError::NoSegments)
    }

    #[inline]
    fn gather<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<(), BufferError> {
        let &Packet { chain, bytes } = self.packets.get(token).ok_or_else(|| no_packet(token))?;
        pieces.clear();
        let mut gathered = 0;
        let visited = self.arena.walk(memory, token, chain, |mbuf| {
            gathered += mbuf.len as usize;
            if mbuf.len > 0 {
                pieces.push((mbuf.data, mbuf.len));
            }
            Ok(true)
        })?;
        self.counts.spend(clock, Work::Visit { buffers: visited });
        match gathered {
            same if same == bytes => Ok(()),
            less if less < bytes => Err(too_short(token)),
            _ => Err(BufferError::Damaged { token, what: "its chain is longer than the packet" }),
        }
    }

    #[inline]
    fn free<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
    ) -> Result<bool, BufferError> {
        let Some(&mut Packet { chain, .. }) = self.packets.remove(token) else {
            return Ok(false);
        };
        let (mut next, mut freed) = (Some(chain.first), 0);
        while let Some(at) = next {
            match self.arena.free_one(memory, at, token) {
                Ok((behind, buffers)) => {
                    self.counts.spend(clock, Work::Free { buffers });
                    next = behind;
                    freed += buffers;
                }
                Err(error) => {
                    self.give_up(clock, token);
                    return Err(error);
                }
            }
        }
        if freed < chain.mbufs + chain.clusters {
            self.give_up(clock, token);
            let what = "its chain has lost some of its buffers";
            return Err(BufferError::Damaged { token, what });
        }
        Ok(true)
    }

    fn counts(&self) -> BufferCounts {
        self.counts
    }

    fn refused(&self) -> u64 {
        self.packets.refused()
    }

    fn is_full(&self) -> bool {
        self.arena.is_full() && self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warikomi_clock::Time;
    use warikomi_pci::SharedMemory;

    use super::*;
    use crate::checksum::plain;

    /// Nothing is charged.
    struct Free;

    impl CostClock for Free {
        fn now(&mut self) -> Time {
            Time::ZERO
        }
        fn spend(&mut self, _: Work) {}
    }

    proptest! {
        /// Mbufs of any lengths, odd ones and empty ones among them, at any place in their clusters.
        #[test]
        fn a_chain_has_the_checksum_of_its_bytes_however_they_are_cut(
            bytes in prop::collection::vec(any::<u8>(), 5_120),
            cuts in prop::collection::vec((0u32..=512, 0u32..=512), 10),
            from in any::<prop::sample::Index>(),
            upto in any::<prop::sample::Index>(),
        ) {
            const BASE: u64 = 0x3_0000_0000;
            let demand = Demand { sizes_bytes: &[5_120], packets: 1, bytes: 5_120, mtu_bytes: 65_535, segment_bytes: None };
            let mut buffers = MbufBuffers::new(512, demand, BASE);
            let memory = SharedMemory::anonymous(BASE, 16_384).unwrap();
            let token = buffers.fill(&mut Free, &memory, &bytes, true).unwrap().unwrap();
            let chain = buffers.packets.get(token).unwrap().chain;
            prop_assert_eq!(chain.mbufs, 10);
            let mut mbufs = Vec::new();
            buffers.arena.walk(&memory, token, chain, |mbuf| { mbufs.push(mbuf); Ok(true) }).unwrap();
            let mut flat = Vec::new();
            for ((number, mbuf), (offset, len)) in mbufs.iter().enumerate().zip(cuts) {
                let len = len.min(512 - offset);
                let data = (mbuf.data + u64::from(offset), len);
                buffers.arena.set_data(&memory, mbuf.at, data).unwrap();
                let first = 512 * number + offset as usize;
                flat.extend_from_slice(&bytes[first..first + len as usize]);
            }
            let from = from.index(flat.len() + 1);
            let count = upto.index(flat.len() - from + 1);
            let sum = buffers.sum(&mut Free, &memory, (token, chain), from, count).unwrap();
            prop_assert_eq!(sum.checksum(), plain(&flat[from..from + count]));
            let beyond = flat.len() - from + 1;
            prop_assert!(buffers.sum(&mut Free, &memory, (token, chain), from, beyond).is_err());
        }
    }
}

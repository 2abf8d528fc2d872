//! Mbufs and clusters in memory, with their links, as a machine of 32 bits had them (FreeBSD 4, mbuf(9)).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `m_next`: the next mbuf of the packet; 0 in the last |
//! | 4 | 4 | `m_nextpkt`: 0, there are no queues of packets here |
//! | 8 | 4 | `m_data`: where the data is, in this mbuf or in its cluster |
//! | 12 | 4 | `m_len`: bytes of it |
//! | 16 | 2 | `m_type`: `MT_DATA` |
//! | 18 | 2 | `m_flags`: `M_EXT` if a cluster belongs to it |
//! | 20 | 24 | `m_pkthdr` of a packet's first mbuf, which leaves [`MHLEN`](super::MHLEN) bytes of data; of any other data |
//! | 44 | 16 | `m_ext`, with `M_EXT`: `ext_buf`, `ext_free` (0), `ext_size`, and 1 |
//!
//! Addresses are 32 bits. The first byte of this memory has the address [`BASE`], so that 0 is none.
//!
//! The card's side has this memory mapped, and a driver can be wrong about what it lets the card write. So a link is
//! a number until it is an mbuf of the packet that is walked, data must lie in that mbuf or in a cluster of that packet,
//! and a walk ends when it has seen as many mbufs as the packet has. Whose a buffer is stands outside of this memory.

use warikomi_pci::{Descriptor, DmaError, DmaMemory};

use super::super::demand::BufferError;
use super::super::pool::Pool;
use super::layout::{MLEN, MSIZE};

/// The address of the first byte.
const BASE: u64 = 4_096;
/// The most bytes of it that have addresses.
pub const MOST_DMA_BYTES: u64 = (1 << 32) - BASE;

const M_DATA: u64 = 8;
const M_TYPE_AND_FLAGS: u64 = 16;
const M_EXT_BUF: u64 = 44;
/// Bytes of an mbuf's header.
const HEADER: u64 = (MSIZE - MLEN) as u64;

const MT_DATA: u32 = 1;
/// In the word of type and flags.
const M_EXT: u32 = 0x0001 << 16;

/// The owner of a buffer that no packet has.
const FREE: u32 = u32::MAX;

/// Equal buffers, and the token of the packet that has each.
#[derive(Debug)]
struct OwnedPool {
    pool: Pool,
    first: u64,
    stride: u64,
    owners: Vec<u32>,
    /// How many mbufs have each: a cluster may be shared by fragments of its packet (`mclrefcnt` of 4.4BSD).
    users: Vec<u32>,
}

impl OwnedPool {
    fn new(first: u64, stride: u64, count: usize) -> OwnedPool {
        OwnedPool {
            pool: Pool::new(first, stride, count),
            first,
            stride,
            owners: vec![FREE; count],
            users: vec![0; count],
        }
    }

    /// The number of the buffer that has this byte.
    #[inline]
    fn number(&self, address: u64) -> Option<usize> {
        let number = address.checked_sub(self.first)? / self.stride;
        usize::try_from(number).ok().filter(|&number| number < self.owners.len())
    }

    /// Whether a buffer of this packet begins here.
    #[inline]
    fn begins(&self, address: u64, token: u32) -> bool {
        self.number(address).is_some_and(|number| {
            self.owners[number] == token && self.first + number as u64 * self.stride == address
        })
    }

    /// Whether all these bytes are in one buffer of this packet.
    #[inline]
    fn holds(&self, address: u64, bytes: u32, token: u32) -> bool {
        self.number(address).is_some_and(|number| {
            let end = self.first + (number as u64 + 1) * self.stride;
            self.owners[number] == token && u64::from(bytes) <= end - address
        })
    }

    #[inline]
    fn take(&mut self, token: u32) -> Option<u64> {
        let address = self.pool.take()?;
        let number = self.number(address)?;
        (self.owners[number], self.users[number]) = (token, 1);
        Some(address)
    }

    /// Another user of the packet's buffer that has this byte; where it begins, if there is one.
    fn share(&mut self, address: u64, token: u32) -> Option<u64> {
        let number = self.number(address).filter(|&number| self.owners[number] == token)?;
        self.users[number] += 1;
        Some(self.first + number as u64 * self.stride)
    }

    /// Gives the packet's buffer that begins here back, if this was its last user; how many buffers came back, or
    /// `None` if there is no such buffer.
    #[inline]
    fn give_back(&mut self, address: u64, token: u32) -> Option<usize> {
        let is_its = self.begins(address, token);
        let number = self.number(address).filter(|_| is_its)?;
        self.users[number] -= 1;
        if self.users[number] > 0 {
            return Some(0);
        }
        self.owners[number] = FREE;
        self.pool.give_back(address);
        Some(1)
    }

    /// Gives all that a packet has back; how many.
    #[cold]
    fn give_all_back(&mut self, token: u32) -> usize {
        let mut count = 0;
        for (number, owner) in self.owners.iter_mut().enumerate().filter(|(_, of)| **of == token) {
            (*owner, self.users[number]) = (FREE, 0);
            self.pool.give_back(self.first + number as u64 * self.stride);
            count += 1;
        }
        count
    }
}

/// What an mbuf says of itself, judged: bus addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mbuf {
    /// Where it is.
    pub(super) at: u64,
    /// The next one, of which nothing is known yet.
    next: Option<u64>,
    /// Its data.
    pub(super) data: u64,
    /// Bytes of that.
    pub(super) len: u32,
}

impl Mbuf {
    /// Whether its data is in it, and not in a cluster.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        (self.at..self.at + u64::from(MSIZE)).contains(&self.data)
    }

    /// The mbuf with another part of its data.
    pub(super) fn part(self, data: u64, len: u32) -> Mbuf {
        Mbuf { data, len, ..self }
    }

    /// Bytes in front of its data that are its own.
    #[inline]
    pub(super) fn leading_bytes(&self, first_data: u32) -> u64 {
        let first = self.at + u64::from(first_data);
        if self.is_small() { self.data.saturating_sub(first) } else { 0 }
    }
}

/// A packet's chain: its first mbuf, how many there are, and how many clusters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    pub(super) first: u64,
    pub(super) mbufs: usize,
    pub(super) clusters: usize,
}

/// All mbufs and clusters.
#[derive(Debug)]
pub(super) struct Arena {
    first: u64,
    mbufs: OwnedPool,
    clusters: OwnedPool,
}

impl Arena {
    /// This number of mbufs and clusters, from the bus address `first` on.
    pub(super) fn new(first: u64, cluster_bytes: u32, (mbufs, clusters): (usize, usize)) -> Arena {
        let behind = first + clusters as u64 * u64::from(cluster_bytes);
        Arena {
            first,
            clusters: OwnedPool::new(first, cluster_bytes.into(), clusters),
            mbufs: OwnedPool::new(behind, MSIZE.into(), mbufs),
        }
    }

    /// Mbufs and clusters that no packet has.
    #[inline]
    pub(super) fn free(&self) -> (usize, usize) {
        (self.mbufs.pool.free(), self.clusters.pool.free())
    }

    pub(super) fn is_full(&self) -> bool {
        self.mbufs.pool.is_full() && self.clusters.pool.is_full()
    }

    #[inline]
    fn to_address(&self, bus: u64) -> u32 {
        (bus - self.first + BASE) as u32
    }

    /// The bus address of what may be anything.
    #[inline]
    fn to_bus(&self, address: u32) -> u64 {
        self.first.wrapping_add(u64::from(address)).wrapping_sub(BASE)
    }

    /// `MGET`: an mbuf without data for this packet.
    #[inline]
    pub(super) fn get(
        &mut self,
        memory: &dyn DmaMemory,
        token: u32,
    ) -> Result<Option<u64>, DmaError> {
        let Some(at) = self.mbufs.take(token) else { return Ok(None) };
        memory.store_u32(at + M_TYPE_AND_FLAGS, MT_DATA)?;
        Ok(Some(at))
    }

    /// `MCLGET`: a cluster for this mbuf; where its data is.
    #[inline]
    pub(super) fn get_cluster(
        &mut self,
        memory: &dyn DmaMemory,
        token: u32,
        mbuf: u64,
    ) -> Result<Option<u64>, DmaError> {
        let Some(cluster) = self.clusters.take(token) else { return Ok(None) };
        let ext = [self.to_address(cluster), 0, self.clusters.stride as u32, 1];
        memory.store_descriptor(mbuf + M_EXT_BUF, Descriptor::new(ext))?;
        memory.store_u32(mbuf + M_TYPE_AND_FLAGS, MT_DATA | M_EXT)?;
        Ok(Some(cluster))
    }

    /// Makes an mbuf a user of the cluster of this packet that has this byte.
    pub(super) fn share_cluster(
        &mut self,
        memory: &dyn DmaMemory,
        token: u32,
        (mbuf, data): (u64, u64),
    ) -> Result<(), BufferError> {
        let what = "data that is to be shared is in no cluster of the packet";
        let cluster = self.clusters.share(data, token);
        let cluster = cluster.ok_or(BufferError::Damaged { token, what })?;
        let ext = [self.to_address(cluster), 0, self.clusters.stride as u32, 1];
        memory.store_descriptor(mbuf + M_EXT_BUF, Descriptor::new(ext))?;
        Ok(memory.store_u32(mbuf + M_TYPE_AND_FLAGS, MT_DATA | M_EXT)?)
    }

    /// Says where an mbuf's data is, and which mbuf is next.
    #[inline]
    pub(super) fn set(
        &self,
        memory: &dyn DmaMemory,
        mbuf: u64,
        next: Option<u64>,
        (data, len): (u64, u32),
    ) -> Result<(), DmaError> {
        let next = next.map_or(0, |next| self.to_address(next));
        memory.store_descriptor(mbuf, Descriptor::new([next, 0, self.to_address(data), len]))
    }

    /// Links an mbuf to the next.
    #[inline]
    pub(super) fn link(
        &self,
        memory: &dyn DmaMemory,
        mbuf: u64,
        next: u64,
    ) -> Result<(), DmaError> {
        memory.store_u32(mbuf, self.to_address(next))
    }

    /// Moves an mbuf's data.
    #[inline]
    pub(super) fn set_data(
        &self,
        memory: &dyn DmaMemory,
        mbuf: u64,
        (data, len): (u64, u32),
    ) -> Result<(), DmaError> {
        memory.store_u32(mbuf + M_DATA, self.to_address(data))?;
        memory.store_u32(mbuf + M_DATA + 4, len)
    }

    /// The packet's mbuf here, judged.
    #[inline]
    pub(super) fn read(
        &self,
        memory: &dyn DmaMemory,
        at: u64,
        token: u32,
    ) -> Result<Mbuf, BufferError> {
        let damaged = |what| Err(BufferError::Damaged { token, what });
        if !self.mbufs.begins(at, token) {
            return damaged("a link leads to no mbuf of it");
        }
        let [next, _, data, len] = memory.load_descriptor(at)?.words();
        let data = self.to_bus(data);
        let in_itself = data >= at + HEADER && self.mbufs.number(data) == self.mbufs.number(at);
        let holds = match in_itself {
            true => self.mbufs.holds(data, len, token),
            false => self.clusters.holds(data, len, token),
        };
        if !holds {
            return damaged("data of an mbuf lies neither in it nor in a cluster of the packet");
        }
        Ok(Mbuf { at, next: (next != 0).then(|| self.to_bus(next)), data, len })
    }

    /// Follows a packet's links as long as `each` wants another mbuf; how many there were.
    #[inline]
    pub(super) fn walk(
        &self,
        memory: &dyn DmaMemory,
        token: u32,
        chain: Chain,
        mut each: impl FnMut(Mbuf) -> Result<bool, BufferError>,
    ) -> Result<usize, BufferError> {
        let (mut next, mut visited) = (Some(chain.first), 0);
        while let Some(at) = next {
            if visited == chain.mbufs {
                let what = "its links go on behind its last mbuf, or in a circle";
                return Err(BufferError::Damaged { token, what });
            }
            let mbuf = self.read(memory, at, token)?;
            visited += 1;
            next = mbuf.next;
            if !each(mbuf)? {
                break;
            }
        }
        Ok(visited)
    }

    /// `m_free`: gives the packet's mbuf here back, and its cluster; the next one, and how many buffers came back.
    #[inline]
    pub(super) fn free_one(
        &mut self,
        memory: &dyn DmaMemory,
        at: u64,
        token: u32,
    ) -> Result<(Option<u64>, usize), BufferError> {
        let Mbuf { next, .. } = self.read(memory, at, token)?;
        let has_cluster = memory.load_u32(at + M_TYPE_AND_FLAGS)? & M_EXT != 0;
        let mut buffers = 1;
        if has_cluster {
            let cluster = self.to_bus(memory.load_u32(at + M_EXT_BUF)?);
            let what = "an mbuf has a cluster that is not the packet's";
            let given_back = self.clusters.give_back(cluster, token);
            buffers += given_back.ok_or(BufferError::Damaged { token, what })?;
        }
        self.mbufs.give_back(at, token);
        Ok((next, buffers))
    }

    /// Gives back whatever a packet has, without a look at its links; how many buffers.
    #[cold]
    pub(super) fn give_all_back(&mut self, token: u32) -> usize {
        self.mbufs.give_all_back(token) + self.clusters.give_all_back(token)
    }
}

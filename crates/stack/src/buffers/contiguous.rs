//! Contiguous buffers, one for each packet, from classes of sizes as `kmalloc` has them in Linux: one allocation,
//! and one pass over the message, which is summed up while it is copied (`csum_and_copy_from_iter`).

use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::{DmaError, DmaMemory};

use super::demand::{BufferCounts, BufferError, Demand, SendBuffers, no_packet};
use super::pool::{Packets, Pool};
use crate::checksum::Sum;
use crate::datagram::{HEADER_BYTES, Headers};
use crate::entry::HEADROOM_BYTES;

/// Classes are powers of two, in bytes, from this on.
const LEAST_CLASS_BYTES: u32 = 128;
/// Bytes of the largest class.
const MOST_CLASS_BYTES: u32 = 131_072;

/// The class of a message's buffer, in bytes: headroom and message.
#[inline]
fn class_of(message_bytes: u32) -> u32 {
    let bytes = message_bytes.saturating_add(HEADROOM_BYTES.into());
    bytes.clamp(LEAST_CLASS_BYTES, MOST_CLASS_BYTES).next_power_of_two()
}

/// Buffers of a class: its size in bytes, and how many `demand` needs; the largest class first.
fn classes(demand: Demand<'_>) -> impl Iterator<Item = (u32, usize)> {
    let possible = LEAST_CLASS_BYTES.ilog2()..=MOST_CLASS_BYTES.ilog2();
    possible.rev().map(|exponent| 1 << exponent).filter_map(move |class| {
        let count = demand.most(|bytes| usize::from(class_of(bytes) == class));
        (count > 0).then_some((class, count))
    })
}

/// Bytes that are copied and summed up together: while the sum is made they are in the nearest cache, so the message
/// is read from memory once.
const PASS_BYTES: usize = 4_096;

/// A packet's buffer: its class in bytes, its bus address, and the message in it.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    class: u32,
    address: u64,
    message_bytes: u32,
    /// The sum of the message, if it was asked for.
    sum: Sum,
}

impl Buffer {
    /// Where the message begins; headers end there.
    fn message(&self) -> u64 {
        self.address + u64::from(HEADROOM_BYTES)
    }

    /// Copies the message, and sums it up on the way if that is asked for.
    #[inline]
    fn copy(
        &mut self,
        memory: &dyn DmaMemory,
        message: &[u8],
        checksum: bool,
    ) -> Result<(), DmaError> {
        if !checksum {
            return memory.write(self.message(), message);
        }
        let mut at = self.message();
        for part in message.chunks(PASS_BYTES) {
            memory.write(at, part)?;
            self.sum.add(part);
            at += part.len() as u64;
        }
        Ok(())
    }
}

/// Contiguous buffers: a pool for each size class.
#[derive(Debug)]
pub struct ContiguousBuffers {
    classes: Vec<(u32, Pool)>,
    packets: Packets<Buffer>,
    counts: BufferCounts,
}

impl ContiguousBuffers {
    /// Enough for `demand`, in DMA memory from the bus address `first` on.
    pub fn new(demand: Demand<'_>, first: u64) -> ContiguousBuffers {
        let mut at = first;
        let pool = |(class, count): (u32, usize)| {
            let pool = Pool::new(at, class.into(), count);
            at += u64::from(class) * count as u64;
            (class, pool)
        };
        ContiguousBuffers {
            classes: classes(demand).map(pool).collect(),
            packets: Packets::new(demand.packets(), Buffer::default),
            counts: BufferCounts::default(),
        }
    }

    /// Bytes of DMA memory that [`new`](Self::new) takes.
    pub fn dma_bytes(demand: Demand<'_>) -> u64 {
        classes(demand).map(|(class, count)| u64::from(class) * count as u64).sum()
    }

    #[inline]
    fn pool(&mut self, class: u32) -> Option<&mut Pool> {
        self.classes.iter_mut().find(|(bytes, _)| *bytes == class).map(|(_, pool)| pool)
    }
}

impl SendBuffers for ContiguousBuffers {
    #[inline]
    fn fill<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        message: &[u8],
        checksum: bool,
    ) -> Result<Option<u32>, BufferError> {
        let class = class_of(message.len() as u32);
        if !self.packets.has_room() || message.len() > (class - u32::from(HEADROOM_BYTES)) as usize
        {
            return Ok(None);
        }
        let Some(address) = self.pool(class).and_then(Pool::take) else { return Ok(None) };
        let Some((token, buffer)) = self.packets.add() else { return Ok(None) };
        self.counts.spend(clock, Work::Take { buffers: 1 });
        let bytes = message.len();
        *buffer = Buffer { class, address, message_bytes: bytes as u32, sum: Sum::default() };
        if let Err(error) = buffer.copy(memory, message, checksum) {
            self.free(clock, memory, token)?;
            return Err(error.into());
        }
        clock.spend(Work::Copy { bytes });
        if checksum {
            self.counts.spend(clock, Work::SumCopied { bytes });
        }
        Ok(Some(token))
    }

    #[inline]
    fn output<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        mut headers: Headers,
        checksum: bool,
    ) -> Result<(), BufferError> {
        let buffer = self.packets.get(token).ok_or_else(|| no_packet(token))?;
        let mut bytes = Headers::IP.len();
        if checksum {
            headers.sum_udp(buffer.sum);
            bytes += HEADER_BYTES - Headers::UDP;
        }
        headers.sum_ip();
        self.counts.spend(clock, Work::Sum { bytes });
        Ok(memory.write(buffer.message() - HEADER_BYTES as u64, headers.bytes())?)
    }

    #[inline]
    fn gather<C: CostClock>(
        &mut self,
        clock: &mut C,
        _memory: &dyn DmaMemory,
        token: u32,
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<(), BufferError> {
        let buffer = self.packets.get(token).ok_or_else(|| no_packet(token))?;
        let first = buffer.message() - HEADER_BYTES as u64;
        pieces.clear();
        pieces.push((first, HEADER_BYTES as u32 + buffer.message_bytes));
        self.counts.spend(clock, Work::Visit { buffers: 1 });
        Ok(())
    }

    #[inline]
    fn free<C: CostClock>(
        &mut self,
        clock: &mut C,
        _memory: &dyn DmaMemory,
        token: u32,
    ) -> Result<bool, BufferError> {
        let Some(&mut Buffer { class, address, .. }) = self.packets.remove(token) else {
            return Ok(false);
        };
        self.counts.spend(clock, Work::Free { buffers: 1 });
        if let Some(pool) = self.pool(class) {
            pool.give_back(address);
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
        self.packets.is_empty() && self.classes.iter().all(|(_, pool)| pool.is_full())
    }
}

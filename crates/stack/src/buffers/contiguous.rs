//! Contiguous buffers, one for each packet, from classes of sizes as `kmalloc` has them in Linux: one allocation,
//! and one pass over the message, which is summed up while it is copied (`csum_and_copy_from_iter`). Of a message that
//! IP cuts each fragment has a buffer of its own from the beginning (`ip_append_data`).

use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::{DmaError, DmaMemory};

use super::demand::{BufferCounts, BufferError, Demand, SendBuffers, no_packet};
use super::pool::{Packets, Pool};
use crate::checksum::Sum;
use crate::datagram::{FRAGMENT_HEADER_BYTES, HEADER_BYTES, Headers};
use crate::entry::HEADROOM_BYTES;
use crate::segment::{Division, SEGMENT_HEADER_BYTES, Stream};

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
        let count = demand.most(|bytes| {
            let (division, bytes) = (demand.division(), bytes as usize);
            let parts =
                (0..division.count(bytes)).map(|index| division.part(bytes, index).len() as u32);
            parts.filter(|&part| class_of(part) == class).count()
        });
        (count > 0).then_some((class, count))
    })
}

/// Bytes that are copied and summed up together: while the sum is made they are in the nearest cache, so the message
/// is read from memory once.
const PASS_BYTES: usize = 4_096;

/// A packet's buffer: its class in bytes, its bus address, and the bytes of the message in it.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    class: u32,
    address: u64,
    message_bytes: u32,
    /// Their sum, if it was asked for.
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

/// A message on its way: a buffer, or one for each packet.
#[derive(Debug, Default)]
struct Packet {
    buffers: Vec<Buffer>,
}

/// A pool for each size class.
#[derive(Debug)]
struct Classes(Vec<(u32, Pool)>);

impl Classes {
    #[inline]
    fn pool(&mut self, class: u32) -> Option<&mut Pool> {
        self.0.iter_mut().find(|(bytes, _)| *bytes == class).map(|(_, pool)| pool)
    }

    /// Takes a buffer for so many bytes.
    #[inline]
    fn take(&mut self, message_bytes: u32) -> Option<Buffer> {
        let class = class_of(message_bytes);
        let fits = message_bytes <= class - u32::from(HEADROOM_BYTES);
        let address = self.pool(class).filter(|_| fits)?.take()?;
        Some(Buffer { class, address, message_bytes, sum: Sum::default() })
    }
}

/// Contiguous buffers: a pool for each size class.
#[derive(Debug)]
pub struct ContiguousBuffers {
    classes: Classes,
    packets: Packets<Packet>,
    division: Division,
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
            classes: Classes(classes(demand).map(pool).collect()),
            packets: Packets::new(demand.packets(), Packet::default),
            division: demand.division(),
            counts: BufferCounts::default(),
        }
    }

    /// Bytes of DMA memory that [`new`](Self::new) takes.
    pub fn dma_bytes(demand: Demand<'_>) -> u64 {
        classes(demand).map(|(class, count)| u64::from(class) * count as u64).sum()
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
        let Some((token, packet)) = self.packets.add() else { return Ok(None) };
        let division = self.division;
        let mut copied = Ok(true);
        for index in 0..division.count(message.len()) {
            let part = &message[division.part(message.len(), index)];
            copied = match self.classes.take(part.len() as u32) {
                Some(mut buffer) => {
                    self.counts.spend(clock, Work::Take { buffers: 1 });
                    let copied = buffer.copy(memory, part, checksum);
                    packet.buffers.push(buffer);
                    copied.map(|()| true)
                }
                None => Ok(false),
            };
            if copied != Ok(true) {
                break;
            }
        }
        if copied != Ok(true) {
            self.free(clock, memory, token)?;
            return copied.map(|_| None).map_err(BufferError::from);
        }
        let bytes = message.len();
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
        let packet = self.packets.get(token).ok_or_else(|| no_packet(token))?;
        let [first, rest @ ..] = &packet.buffers[..] else { return Err(no_packet(token)) };
        let mut bytes = Headers::IP.len() * packet.buffers.len();
        if checksum {
            // All but the last fragment have an even number of bytes.
            let sums = packet.buffers.iter().map(|buffer| buffer.sum);
            headers.sum_udp(sums.fold(Sum::default(), Sum::join));
            bytes += HEADER_BYTES - Headers::UDP;
        }
        headers.sum_ip();
        memory.write(first.message() - HEADER_BYTES as u64, headers.bytes())?;
        for (index, buffer) in rest.iter().enumerate() {
            let at = buffer.message() - FRAGMENT_HEADER_BYTES as u64;
            memory.write(at, &headers.of_fragment(index + 1))?;
        }
        self.counts.spend(clock, Work::Sum { bytes });
        Ok(())
    }

    #[inline]
    fn output_segments<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        stream: &Stream,
    ) -> Result<(), BufferError> {
        let packet = self.packets.get(token).ok_or_else(|| no_packet(token))?;
        let (mut start, count) = (0, packet.buffers.len());
        for (index, buffer) in packet.buffers.iter().enumerate() {
            let part = start..start + buffer.message_bytes as usize;
            let headers = stream.headers(&part, index + 1 == count, buffer.sum);
            memory.write(buffer.message() - SEGMENT_HEADER_BYTES as u64, &headers)?;
            start = part.end;
        }
        let bytes = stream.summed_header_bytes() * count;
        self.counts.spend(clock, Work::Sum { bytes });
        Ok(())
    }

    #[inline]
    fn gather<C: CostClock>(
        &mut self,
        clock: &mut C,
        _memory: &dyn DmaMemory,
        token: u32,
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<(), BufferError> {
        let packet = self.packets.get(token).ok_or_else(|| no_packet(token))?;
        pieces.clear();
        let (first, others) = match self.division {
            Division::Fragments { .. } => (HEADER_BYTES, FRAGMENT_HEADER_BYTES),
            Division::Segments { .. } => (SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES),
        };
        let mut header_bytes = first as u32;
        for buffer in &packet.buffers {
            let first = buffer.message() - u64::from(header_bytes);
            pieces.push((first, header_bytes + buffer.message_bytes));
            header_bytes = others as u32;
        }
        self.counts.spend(clock, Work::Visit { buffers: pieces.len() });
        Ok(())
    }

    #[inline]
    fn free<C: CostClock>(
        &mut self,
        clock: &mut C,
        _memory: &dyn DmaMemory,
        token: u32,
    ) -> Result<bool, BufferError> {
        let Some(packet) = self.packets.remove(token) else { return Ok(false) };
        self.counts.spend(clock, Work::Free { buffers: packet.buffers.len() });
        for Buffer { class, address, .. } in packet.buffers.drain(..) {
            if let Some(pool) = self.classes.pool(class) {
                pool.give_back(address);
            }
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
        self.packets.is_empty() && self.classes.0.iter().all(|(_, pool)| pool.is_full())
    }
}

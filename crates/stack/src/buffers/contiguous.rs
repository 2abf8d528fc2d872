//! Contiguous buffers, one for each packet, from classes of sizes as `kmalloc` has them in Linux.

use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::{DmaError, DmaMemory};

use super::demand::{Demand, SendBuffers};
use super::pool::{Packets, Pool};
use crate::datagram::HEADER_BYTES;
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

/// A packet's buffer: its class in bytes, its bus address, and the packet in it.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    class: u32,
    address: u64,
    piece: [(u64, u32); 1],
}

/// Contiguous buffers: a pool for each size class.
#[derive(Debug)]
pub struct ContiguousBuffers {
    classes: Vec<(u32, Pool)>,
    packets: Packets<Buffer>,
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
        headers: &[u8; HEADER_BYTES],
        message: &[u8],
    ) -> Result<Option<u32>, DmaError> {
        let class = class_of(message.len() as u32);
        if !self.packets.has_room() || message.len() > (class - u32::from(HEADROOM_BYTES)) as usize
        {
            return Ok(None);
        }
        let Some(address) = self.pool(class).and_then(Pool::take) else { return Ok(None) };
        let Some((token, buffer)) = self.packets.add() else { return Ok(None) };
        clock.spend(Work::Take { buffers: 1 });
        let at = address + u64::from(HEADROOM_BYTES) - HEADER_BYTES as u64;
        let bytes = HEADER_BYTES + message.len();
        *buffer = Buffer { class, address, piece: [(at, bytes as u32)] };
        match memory.write_pieces(at, &[headers, message]) {
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
        self.packets.get(token).map_or(&[], |buffer| &buffer.piece)
    }

    #[inline]
    fn free<C: CostClock>(&mut self, clock: &mut C, token: u32) -> bool {
        let Some(&mut Buffer { class, address, .. }) = self.packets.remove(token) else {
            return false;
        };
        clock.spend(Work::Free { buffers: 1 });
        if let Some(pool) = self.pool(class) {
            pool.give_back(address);
        }
        true
    }

    fn refused(&self) -> u64 {
        self.packets.refused()
    }

    fn is_full(&self) -> bool {
        self.packets.is_empty() && self.classes.iter().all(|(_, pool)| pool.is_full())
    }
}

//! The receive FIFO and its completion ring.
//!
//! From `head` on, `posted` buffers are the device's, in the order in which they were pushed; entry *n* of
//! the ring is that of the *n*-th buffer, modulo the ring. An entry may say anything: its length is held
//! against the buffer, and everything else about the buffer comes from our own memory.

use warikomi_pci::{DmaMemory, Mmio};

use super::regs;
use crate::access::{write32, write64};
use crate::{Buffer, DriverError, Hardware, Received, RxSink};

/// Buffers that the device has at most.
pub(super) const MOST_BUFFERS: usize = regs::FIFO;
/// Frames that are taken before new buffers are pushed: one cache line of entries.
const REFILL_AT: usize = 16;

#[derive(Debug)]
pub(super) struct Receiver {
    ring: u64,
    slots: [Option<Buffer>; MOST_BUFFERS],
    head: usize,
    posted: usize,
    /// Buffers that may be with the device.
    most: usize,
    /// The longest buffer that is of use: one for the longest frame.
    max_buffer_bytes: u32,
    errors: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver {
            ring: 0,
            slots: [None; MOST_BUFFERS],
            head: 0,
            posted: 0,
            most: 0,
            max_buffer_bytes: 0,
            errors: 0,
        }
    }
}

impl Receiver {
    /// An empty ring at `ring`, for at most so many buffers at a time, of which no more than so many bytes are of
    /// use.
    pub(super) fn set_up(
        &mut self,
        memory: &dyn DmaMemory,
        ring: u64,
        most: usize,
        max_buffer_bytes: u32,
    ) -> Result<(), DriverError> {
        *self = Receiver { ring, most, max_buffer_bytes, ..Receiver::default() };
        Ok(memory.write(ring, &[0; MOST_BUFFERS * regs::ENTRY_BYTES as usize])?)
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    #[inline]
    fn at(&self, index: usize) -> u64 {
        self.ring + regs::ENTRY_BYTES * index as u64
    }

    /// Pushes as many buffers as the device lacks and `sink` has.
    #[inline]
    pub(super) fn refill(
        &mut self,
        mmio: &mut dyn Mmio,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        while self.posted < self.most {
            let Some(buffer) = sink.buffer() else { return Ok(()) };
            if let Err(error) = self.post(mmio, buffer) {
                sink.returned(buffer);
                return Err(error);
            }
        }
        Ok(())
    }

    #[inline]
    fn post(&mut self, mmio: &mut dyn Mmio, buffer: Buffer) -> Result<(), DriverError> {
        let bytes = buffer.bytes().min(self.max_buffer_bytes);
        write64(mmio, regs::RX_ADDRESS, buffer.address)?;
        write32(mmio, regs::RX_PUSH, bytes)?;
        self.slots[(self.head + self.posted) % MOST_BUFFERS] = Some(buffer);
        self.posted += 1;
        Ok(())
    }

    /// Takes at most `budget` frames that have come; how many.
    #[inline]
    pub(super) fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        let mut taken = 0;
        while taken < budget && self.posted > 0 {
            let entry = hw.memory.load_u32(self.at(self.head))?;
            if entry & regs::DONE == 0 {
                break;
            }
            hw.memory.store_u32(self.at(self.head), 0)?;
            self.take(entry, sink);
            taken += 1;
            if self.most - self.posted >= REFILL_AT {
                self.refill(hw.mmio, sink)?;
            }
        }
        if self.posted < self.most {
            self.refill(hw.mmio, sink)?;
        }
        Ok(taken)
    }

    /// Passes the buffer at the head on.
    #[inline]
    fn take(&mut self, entry: u32, sink: &mut dyn RxSink) {
        let Some(buffer) = self.slots[self.head].take() else { return };
        self.head = (self.head + 1) % MOST_BUFFERS;
        self.posted -= 1;
        let bytes = entry & regs::LENGTH;
        if bytes == 0 || bytes > buffer.bytes() || entry & regs::TOO_LONG != 0 {
            self.errors += 1;
            return sink.returned(buffer);
        }
        let checksums_good = entry & regs::CHECKSUMS_GOOD != 0;
        sink.received(buffer, Received { bytes, checksums_good });
    }

    /// The ring goes away; every buffer goes back.
    pub(super) fn give_back(&mut self, sink: &mut dyn RxSink) {
        self.slots.iter_mut().filter_map(Option::take).for_each(|buffer| sink.returned(buffer));
        (self.head, self.posted) = (0, 0);
    }
}

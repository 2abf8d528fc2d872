//! The receive ring.
//!
//! From `head` on, `posted` descriptors hold buffers that are the device's; the others hold none. A
//! descriptor that the device hands back may say anything: its length is held against the buffer, and
//! everything else about the buffer comes from our own memory, never from the descriptor.

use warikomi_pci::DmaMemory;

use super::regs;
use crate::{Buffer, DriverError, Received, RxSink};

/// Descriptors of a ring at most.
pub(super) const MOST_DESCRIPTORS: usize = 1_024;
/// The check sequence, which the device leaves behind the frame.
const FCS_BYTES: u32 = 4;
/// The longest buffer that a descriptor can name.
pub(super) const MAX_BUFFER_BYTES: u32 = regs::RX_LENGTH;
/// Descriptors that are taken before new ones go on the ring: four cache lines of them, so that the
/// two sides do not pull at one line all the time.
const REFILL_AT: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Receiver {
    ring: u64,
    slots: Vec<Option<Buffer>>,
    head: usize,
    posted: usize,
    /// The frame that the last descriptor belonged to goes on in the next.
    continued: bool,
    errors: u64,
}

impl Receiver {
    /// An empty ring of so many descriptors at `ring`, none of them the device's.
    pub(super) fn set_up(
        &mut self,
        memory: &dyn DmaMemory,
        ring: u64,
        descriptors: usize,
    ) -> Result<(), DriverError> {
        let slots = vec![None; descriptors];
        *self = Receiver { ring, slots, ..Receiver::default() };
        for index in 0..descriptors {
            memory.write(self.at(index), &[0; regs::DESCRIPTOR_BYTES as usize])?;
            memory.store_u32(self.at(index), self.end_mark(index))?;
        }
        Ok(())
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    #[inline]
    fn at(&self, index: usize) -> u64 {
        self.ring + regs::DESCRIPTOR_BYTES * index as u64
    }

    #[inline]
    fn end_mark(&self, index: usize) -> u32 {
        if index + 1 == self.slots.len() { regs::RING_END } else { 0 }
    }

    #[inline]
    fn wrap(&self, index: usize) -> usize {
        if index >= self.slots.len() { index - self.slots.len() } else { index }
    }

    /// Puts as many buffers on the ring as it lacks and `sink` has.
    #[inline]
    pub(super) fn refill(
        &mut self,
        memory: &dyn DmaMemory,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        while self.posted < self.slots.len() {
            let Some(buffer) = sink.buffer() else { return Ok(()) };
            let index = self.wrap(self.head + self.posted);
            if let Err(error) = self.post(memory, index, buffer) {
                sink.returned(buffer);
                return Err(error);
            }
        }
        Ok(())
    }

    #[inline]
    fn post(
        &mut self,
        memory: &dyn DmaMemory,
        index: usize,
        buffer: Buffer,
    ) -> Result<(), DriverError> {
        let bytes = buffer.bytes.min(MAX_BUFFER_BYTES);
        if bytes == 0 {
            return Err(DriverError::Invalid(format!("the receive buffer {buffer:?} is empty")));
        }
        let first = regs::DESC_OWN | self.end_mark(index) | bytes;
        let (low, high) = (buffer.address as u32, (buffer.address >> 32) as u32);
        memory.store_descriptor(self.at(index), [first, 0, low, high])?;
        self.slots[index] = Some(buffer);
        self.posted += 1;
        Ok(())
    }

    /// Takes at most `budget` descriptors that have come back; how many.
    #[inline]
    pub(super) fn poll(
        &mut self,
        memory: &dyn DmaMemory,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        let mut taken = 0;
        while taken < budget && self.posted > 0 {
            let status = memory.load_u32(self.at(self.head))?;
            if status & regs::DESC_OWN != 0 {
                break;
            }
            // Cleared, so that whoever looks at the ring sees how far we are even while there is no
            // new buffer for it.
            memory.store_u32(self.at(self.head), self.end_mark(self.head))?;
            self.take(status, sink);
            taken += 1;
            if self.slots.len() - self.posted >= REFILL_AT {
                self.refill(memory, sink)?;
            }
        }
        if self.posted < self.slots.len() {
            self.refill(memory, sink)?;
        }
        Ok(taken)
    }

    /// Passes the buffer at the head on.
    #[inline]
    fn take(&mut self, status: u32, sink: &mut dyn RxSink) {
        let Some(buffer) = self.slots[self.head].take() else { return };
        self.head = self.wrap(self.head + 1);
        self.posted -= 1;
        let length = status & regs::RX_LENGTH;
        let whole =
            status & (regs::FIRST_FRAG | regs::LAST_FRAG) == regs::FIRST_FRAG | regs::LAST_FRAG;
        let fits = length > FCS_BYTES && length <= buffer.bytes;
        if whole && fits && status & regs::RX_RES == 0 {
            self.continued = false;
            let bytes = length - FCS_BYTES;
            let checksums_good = checksums_good(status);
            return sink.received(Received { buffer, bytes, checksums_good });
        }
        self.refuse(status, buffer, sink);
    }

    /// A damaged frame, or a piece of one that was longer than its buffer: counted once a frame.
    #[cold]
    fn refuse(&mut self, status: u32, buffer: Buffer, sink: &mut dyn RxSink) {
        self.errors += u64::from(!self.continued || status & regs::FIRST_FRAG != 0);
        self.continued = status & regs::LAST_FRAG == 0;
        sink.returned(buffer);
    }

    /// The ring goes away; every buffer goes back.
    pub(super) fn give_back(&mut self, sink: &mut dyn RxSink) {
        self.slots.iter_mut().filter_map(Option::take).for_each(|buffer| sink.returned(buffer));
        (self.head, self.posted, self.continued) = (0, 0, false);
        self.slots.clear();
    }
}

/// Whether the device has checked the IP header and what is in it, and found both right
/// (rtl8169_rx_csum).
#[inline]
fn checksums_good(status: u32) -> bool {
    let verdict = status & (regs::RX_PROTO_MASK | regs::RX_CS_FAIL_MASK);
    verdict == regs::RX_PROTO_TCP || verdict == regs::RX_PROTO_UDP
}

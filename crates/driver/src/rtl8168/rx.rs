//! The receive ring.
//!
//! From `head` on, descriptors hold buffers that are the device's; the others hold none. A
//! descriptor that the device hands back may say anything: its length is held against the buffer, and
//! everything else about the buffer comes from our own memory, never from the descriptor.
//!
//! A driver that can be replaced notes each buffer in a slot, and leaves descriptors as the device filled
//! them until what was in them has been shown: at the next poll.

use std::collections::VecDeque;
use std::vec;

use warikomi_pci::{Descriptor, DmaMemory};

use super::regs;
use crate::state::{InUse, Progress, Slots, StateError};
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
    descriptors: usize,
    /// Names of the buffers on the ring, from `head` on, that a predecessor has put there.
    inherited: vec::IntoIter<u32>,
    /// The buffers behind them. Not one place for each descriptor: a driver that takes over would fill them all with
    /// nothing while none serves the device.
    buffers: VecDeque<Buffer>,
    /// Where a successor finds the same.
    slots: Option<Slots>,
    /// Count of the buffer at `head`.
    given: u64,
    head: usize,
    /// Descriptors before `head` that are as the device filled them.
    unshown: usize,
    /// The frame that the last descriptor belonged to goes on in the next.
    continued: bool,
    errors: u64,
}

impl Receiver {
    /// An empty ring of so many descriptors at `ring`, none of them the device's. `given` buffers have
    /// been given to the layer above before.
    pub(super) fn set_up(
        &mut self,
        memory: &dyn DmaMemory,
        ring: u64,
        descriptors: usize,
        (slots, given): (Option<Slots>, u64),
    ) -> Result<(), DriverError> {
        if let Some(slots) = &slots {
            slots.clear();
        }
        let buffers = VecDeque::with_capacity(descriptors);
        *self = Receiver { ring, descriptors, buffers, slots, given, ..Receiver::default() };
        for index in 0..descriptors {
            memory.write(self.at(index), &[0; regs::DESCRIPTOR_BYTES as usize])?;
            memory.store_u32(self.at(index), self.end_mark(index))?;
        }
        Ok(())
    }

    /// A predecessor's ring, of which this is in use. Nothing is stored.
    pub(super) fn take_over(ring: u64, slots: Slots, in_use: InUse) -> Receiver {
        let InUse { first, index, tokens } = in_use;
        let mut receiver = Receiver {
            ring,
            descriptors: slots.len(),
            buffers: VecDeque::with_capacity(slots.len()),
            slots: Some(slots),
            given: first,
            head: index,
            ..Receiver::default()
        };
        receiver.inherited = tokens.into_iter();
        // The predecessor may have left them as they were.
        receiver.unshown = receiver.unposted();
        receiver
    }

    /// The names of the buffers on the ring, in order.
    pub(super) fn tokens(&self) -> Vec<u32> {
        let own = self.buffers.iter().map(|buffer| buffer.token());
        self.inherited.as_slice().iter().copied().chain(own).collect()
    }

    /// Descriptors that hold buffers.
    #[inline]
    fn posted(&self) -> usize {
        self.inherited.len() + self.buffers.len()
    }

    #[inline]
    fn unposted(&self) -> usize {
        self.descriptors - self.posted()
    }

    pub(super) fn progress(&self) -> Progress {
        let taken = self.given.wrapping_add(self.posted() as u64);
        Progress { given: self.given, taken, index: self.head }
    }

    /// Where its slots are, if it has any.
    pub(super) fn slots(&self) -> Option<&Slots> {
        self.slots.as_ref()
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
        if index + 1 == self.descriptors { regs::RING_END } else { 0 }
    }

    #[inline]
    fn wrap(&self, index: usize) -> usize {
        if index >= self.descriptors { index - self.descriptors } else { index }
    }

    /// Puts as many buffers on the ring as it lacks and `sink` has.
    #[inline]
    pub(super) fn refill(
        &mut self,
        memory: &dyn DmaMemory,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        while self.unposted() > self.unshown {
            let Some(buffer) = sink.buffer() else { return Ok(()) };
            let index = self.wrap(self.head + self.posted());
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
        let bytes = buffer.bytes().min(MAX_BUFFER_BYTES);
        if let Some(slots) = &self.slots {
            // Empty first: a successor that finds the new slot must not take the last frame as its own.
            memory.store_u32(self.at(index), self.end_mark(index))?;
            slots.set(index, self.given.wrapping_add(self.posted() as u64), buffer.token())?;
        }
        let first = regs::DESC_OWN | self.end_mark(index) | bytes;
        let (low, high) = (buffer.address as u32, (buffer.address >> 32) as u32);
        memory.store_descriptor(self.at(index), Descriptor::new([first, 0, low, high]))?;
        self.buffers.push_back(buffer);
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
        if self.unshown > 0 {
            self.reuse(memory, sink)?;
        }
        let mut taken = 0;
        while taken < budget && self.posted() > 0 {
            let status = memory.load_u32(self.at(self.head))?;
            if status & regs::DESC_OWN != 0 {
                break;
            }
            let Some(buffer) = self.next_buffer(sink)? else { break };
            self.unshown += usize::from(self.slots.is_some());
            self.pass_on(status, buffer, sink);
            taken += 1;
            if self.unposted() - self.unshown >= REFILL_AT {
                self.refill(memory, sink)?;
            }
        }
        if self.unposted() > self.unshown {
            self.refill(memory, sink)?;
        }
        if self.slots.is_none() {
            self.empty_before_head(memory, taken)?;
        }
        Ok(taken)
    }

    /// Empties a descriptor, so that a reader of the ring sees how far we are even while there is no
    /// new buffer for it.
    #[inline]
    fn empty(&self, memory: &dyn DmaMemory, index: usize) -> Result<(), DriverError> {
        Ok(memory.store_u32(self.at(index), self.end_mark(index))?)
    }

    /// What was taken has been shown by now: its descriptors get new buffers, or are emptied.
    fn reuse(&mut self, memory: &dyn DmaMemory, sink: &mut dyn RxSink) -> Result<(), DriverError> {
        let shown = std::mem::take(&mut self.unshown);
        self.refill(memory, sink)?;
        self.unshown = shown.min(self.unposted());
        self.empty_shown(memory)
    }

    /// Empties the descriptors of what was taken and has been shown.
    pub(super) fn empty_shown(&mut self, memory: &dyn DmaMemory) -> Result<(), DriverError> {
        let shown = std::mem::take(&mut self.unshown);
        self.empty_before_head(memory, shown)
    }

    /// Empties the last `count` descriptors that were taken, but for those that hold a new buffer. Not one by one as they
    /// are taken: the device is about to fill those behind them in the same cache line.
    fn empty_before_head(&self, memory: &dyn DmaMemory, count: usize) -> Result<(), DriverError> {
        let before = |number| self.wrap(self.head + self.descriptors - number);
        let without = count.min(self.unposted());
        (1..=without).try_for_each(|number| self.empty(memory, before(number)))
    }

    /// Takes the buffer at the head off the ring; `None` if there is none.
    #[inline]
    fn next_buffer(&mut self, sink: &dyn RxSink) -> Result<Option<Buffer>, DriverError> {
        let buffer = match self.inherited.as_slice() {
            [] => self.buffers.pop_front(),
            [token, ..] => Some(named(*token, sink)?),
        };
        if buffer.is_some() {
            self.inherited.next();
            self.head = self.wrap(self.head + 1);
            self.given = self.given.wrapping_add(1);
        }
        Ok(buffer)
    }

    /// Passes what the device says of a buffer on.
    #[inline]
    fn pass_on(&mut self, status: u32, buffer: Buffer, sink: &mut dyn RxSink) {
        let length = status & regs::RX_LENGTH;
        let whole =
            status & (regs::FIRST_FRAG | regs::LAST_FRAG) == regs::FIRST_FRAG | regs::LAST_FRAG;
        let fits = length > FCS_BYTES && length <= buffer.bytes();
        if whole && fits && status & regs::RX_RES == 0 {
            self.continued = false;
            let bytes = length - FCS_BYTES;
            let checksums_good = checksums_good(status);
            return sink.received(buffer, Received { bytes, checksums_good });
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
        while self.posted() > 0 {
            match self.next_buffer(sink) {
                Ok(Some(buffer)) => sink.returned(buffer),
                Ok(None) | Err(_) => drop(self.inherited.next()),
            }
        }
        *self = Receiver { errors: self.errors, ..Receiver::default() };
    }
}

/// The buffer of that name, which a predecessor has put on the ring.
#[cold]
fn named(token: u32, sink: &dyn RxSink) -> Result<Buffer, DriverError> {
    let unknown = || StateError::Nonsense(format!("there is no buffer {token}"));
    Ok(sink.named(token).ok_or_else(unknown)?)
}

/// Whether the device has checked the IP header and what is in it, and found both right
/// (rtl8169_rx_csum).
#[inline]
fn checksums_good(status: u32) -> bool {
    let verdict = status & (regs::RX_PROTO_MASK | regs::RX_CS_FAIL_MASK);
    verdict == regs::RX_PROTO_TCP || verdict == regs::RX_PROTO_UDP
}

//! The FIFO of empty buffers, and the completion ring.

use warikomi_pci::DmaError;

use super::fifo::Fifo;
use super::{regs, timers};
use crate::NicContext;
use crate::queue::{Completion, RxDescriptor, RxFormat, RxQueue};
use crate::strict::{FindingKind, Look, Place};

// An entry of the completion ring.
const DONE: u32 = 1 << 31;
pub(super) const TOO_LONG: u32 = 1 << 30;
pub(super) const CHECKSUMS_GOOD: u32 = 1 << 29;
/// Bytes of an entry.
const ENTRY: u64 = 4;
const ENTRIES: u64 = regs::FIFO as u64;

/// Where buffers come from, and where completions go.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) fifo: Fifo,
    ring: u64,
}

impl RxFormat for Buffers {
    /// How many were pushed before it since RESET.
    type Place = u64;
    type Words = ();
    /// The entry without DONE and length.
    type Status = u32;

    const SOURCE: &'static str = "docs/descriptor-fifo.md, section 5";
    const DESCRIPTORS: usize = regs::FIFO;
    const CHAINS: bool = false;

    /// The address of the completion of buffer `number`.
    #[inline]
    fn at(&self, number: u64) -> u64 {
        self.ring.wrapping_add(ENTRY * (number % ENTRIES))
    }

    fn units(&self) -> usize {
        0
    }

    #[inline]
    fn descriptor(
        &self,
        place: u64,
        _bytes: usize,
        _units: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u64, ()>> {
        self.fifo.get(place).map(|buffer| RxDescriptor {
            place,
            next: place + 1,
            buffer: buffer.address,
            bytes: buffer.bytes(),
            words: (),
        })
    }

    #[inline]
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u64, ()>,
        Completion { bytes, frame_bytes, .. }: Completion,
        status: u32,
    ) -> Result<(), DmaError> {
        let status = if bytes < frame_bytes { TOO_LONG } else { status };
        cx.dma_store_u32(self.at(found.place), DONE | status | bytes as u32 & regs::LENGTH)
    }

    fn is_taken(&self, cx: &NicContext<'_>, place: u64) -> bool {
        cx.peek_u32(self.at(place)).is_some_and(|entry| entry & DONE == 0)
    }

    fn look(&self, _cx: &NicContext<'_>, place: u64) -> Option<Look<u64>> {
        self.fifo.look(place).map(|look| Look { first: true, last: true, ..look })
    }

    fn is_set(&self) -> bool {
        self.ring != 0
    }

    #[inline]
    fn is_reused(earlier: u64, place: u64) -> bool {
        earlier + ENTRIES <= place
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) queue: RxQueue<Buffers>,
    pub(super) max_frame_bytes: usize,
}

impl Receiver {
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        let buffers = Buffers { fifo: Fifo::new(), ring: 0 };
        Receiver { queue: RxQueue::new(buffers, timers::LATE), max_frame_bytes }
    }

    pub(super) fn reset(&mut self, cx: &NicContext<'_>) {
        self.queue.reset(cx);
        self.queue.format.fifo.reset();
        self.queue.format.ring = 0;
    }

    /// RX_RING.
    pub(super) fn ring(&self) -> u64 {
        self.queue.format.ring
    }

    pub(super) fn set_ring(&mut self, cx: &NicContext<'_>, base: u64) {
        self.queue.settle(cx);
        self.queue.format.ring = base & !(regs::RING_ALIGNMENT - 1);
    }

    /// RX_REMAINING.
    pub(super) fn remaining(&self) -> usize {
        self.queue.format.fifo.remaining(self.queue.head())
    }

    /// RX_PUSH. One for which there is no room is lost.
    pub(super) fn push(&mut self, cx: &mut NicContext<'_>, command: u32) {
        let head = self.queue.head();
        if !self.queue.format.fifo.push(head, command, cx.now()) {
            let which = (FindingKind::FifoFull, Place::RxQueue(0));
            cx.note(which, Buffers::SOURCE, || "a buffer was pushed, and there was no room".into());
        }
    }

    /// Whether frames for this address are taken: the station's own, broadcast and multicast.
    pub(super) fn admits(destination: &[u8; 6]) -> bool {
        destination[0] & 1 != 0 || *destination == regs::station()
    }
}

//! A receive queue: the next descriptor is found, a frame placed and completed, and account kept of
//! what the driver has taken.
//!
//! `accepted` is seen in memory, never asked of the driver: each completed descriptor is remembered
//! in order until a look at it ([`RxFormat::is_taken`]) says that the driver has taken its frame, or
//! until the card comes to use the same place again, which it may only then.

use std::fmt::Debug;

use warikomi_pci::{DmaError, Pieces};

use super::Found;
use super::fifo::Fifo;
use super::late::Late;
use crate::strict::{FindingKind, Look, Misuse, Place, Queue, Watch};
use crate::{NicContext, RxCounters, RxFault};

/// What a cache keeps and fetches in one.
const LINE_BYTES: u64 = 64;

/// A descriptor that belongs to the card, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct RxDescriptor<P, W> {
    /// Place of the descriptor on its ring.
    pub place: P,
    /// The one behind it.
    pub next: P,
    /// Bus address of the buffer.
    pub buffer: u64,
    /// Bytes that have room there.
    pub bytes: usize,
    /// What else the format needs to complete it.
    pub words: W,
}

/// What a completion says of a descriptor's place within its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The frame begins in this descriptor.
    pub first: bool,
    /// Whether the frame ends in this descriptor.
    pub last: bool,
    /// Bytes of it in this descriptor's buffer.
    pub bytes: usize,
    /// Bytes of the whole frame: more than the buffers hold, if the card cuts off what is too long.
    pub frame_bytes: usize,
}

/// Where the next frame will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<P> {
    /// The descriptor behind this one.
    pub next: P,
    /// Bus address of the descriptor: of its first byte that will be written.
    pub descriptor: u64,
    /// Bus address of the buffer.
    pub buffer: u64,
    /// Bytes that will be written there.
    pub bytes: usize,
}

/// What a card's receive descriptors look like.
pub trait RxFormat {
    /// Tells descriptors of a queue apart: the index in a ring, the running number in a FIFO. Reception
    /// starts at its default.
    type Place: Copy + Default + PartialEq + Debug;
    /// What [`RxDescriptor::words`] holds.
    type Words: Copy + Debug;
    /// What the card says of a frame besides its length, in the descriptors that hold it.
    type Status: Copy + Debug;

    /// What says what descriptors look like: document and section, or Linux symbol.
    const SOURCE: &'static str;
    /// Descriptors that a queue has at most; frames that are with the driver are no more.
    const DESCRIPTORS: usize;
    /// Whether a frame may go into several descriptors. Otherwise what has no room is cut off.
    const CHAINS: bool;

    /// Reads the descriptor for what is left of a frame, which is `bytes` bytes; `None` if it does not belong to the
    /// card. The room in a ring of bytes is a descriptor, too: as long as the frame, with the next one behind it.
    fn load(
        &self,
        cx: &mut NicContext<'_>,
        place: Self::Place,
        bytes: usize,
    ) -> Found<RxDescriptor<Self::Place, Self::Words>>;

    /// Writes the pieces of a frame, one behind the other, to where a descriptor has room for them.
    #[inline]
    fn write(
        &self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<Self::Place, Self::Words>,
        pieces: &Pieces<'_>,
    ) -> Result<(), DmaError> {
        cx.dma_write_pieces(descriptor.buffer, pieces)
    }

    /// A fault: a descriptor stays the card's although its buffer is filled, and the card goes on behind it. For a
    /// format in which a driver would take it for its own otherwise.
    fn withhold(
        &self,
        _cx: &mut NicContext<'_>,
        _descriptor: &RxDescriptor<Self::Place, Self::Words>,
    ) -> Result<(), DmaError> {
        Ok(())
    }

    /// Gives a descriptor whose buffer is filled to the driver.
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<Self::Place, Self::Words>,
        completion: Completion,
        status: Self::Status,
    ) -> Result<(), DmaError>;

    /// Whether the driver has taken the frame whose last descriptor this is, by a look that costs the
    /// card nothing ([`NicContext::peek_u32`]).
    fn is_taken(&self, cx: &NicContext<'_>, place: Self::Place) -> bool;

    /// The place behind a descriptor that belongs to the card, by such a look; `None` if it does not.
    fn behind_free(&self, cx: &NicContext<'_>, place: Self::Place) -> Option<Self::Place>;

    /// What a frame of `bytes` bytes in a descriptor that belongs to the card will be written to, by such a look.
    fn expected(
        &self,
        cx: &NicContext<'_>,
        place: Self::Place,
        bytes: usize,
    ) -> Option<Expected<Self::Place>>;

    /// A descriptor that belongs to the card, with all that a strict card compares, by such a look.
    fn look(&self, cx: &NicContext<'_>, place: Self::Place) -> Option<Look<Self::Place>>;

    /// What a driver must not have written into a descriptor that it gives to the card, besides what every
    /// card refuses. `before` are the words of the descriptor before it, if both are of one frame.
    fn misuse(_look: &Look<Self::Place>, _before: Option<[u32; 4]>) -> Option<Misuse> {
        None
    }

    /// Whether the driver has said where the ring is. A ring at bus address 0 counts as none.
    fn is_set(&self) -> bool;

    /// Whether the driver must have taken the frame at `earlier`, because the card has been given
    /// `place`.
    fn is_reused(earlier: Self::Place, place: Self::Place) -> bool;
}

/// What became of a frame at its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The descriptor was completed: the driver owns it.
    Completed,
    /// There were too few descriptors.
    NoDescriptor,
    /// A fault: it is in memory and will be completed late.
    CompletedLate,
    /// A fault: it is in memory and will never be completed.
    NeverCompleted,
}

/// A frame that waits for its completion.
#[derive(Debug)]
struct LateFrame<F: RxFormat> {
    descriptor: RxDescriptor<F::Place, F::Words>,
    completion: Completion,
    status: F::Status,
}

/// A receive queue of a card: its ring and the frames on it.
#[derive(Debug)]
pub struct RxQueue<F: RxFormat> {
    /// Where the descriptors are, and what they look like.
    pub format: F,
    enabled: bool,
    halted: bool,
    head: F::Place,
    /// For each frame that is with the driver, in order, its last descriptor.
    outstanding: Fifo<F::Place>,
    /// Frames in memory whose descriptors are still the card's, because of a fault.
    late: Late<LateFrame<F>>,
    counters: RxCounters,
    watch: Watch<F::Place>,
}

impl<F: RxFormat> RxQueue<F> {
    /// A queue that is switched off. Its timer has this tag.
    pub fn new(format: F, tag: u32) -> Self {
        RxQueue {
            format,
            enabled: false,
            halted: false,
            head: F::Place::default(),
            outstanding: Fifo::with_room(F::DESCRIPTORS),
            late: Late::new(tag),
            counters: RxCounters::default(),
            watch: Watch::default(),
        }
    }

    /// The driver switches the queue on or off. Off settles its account.
    pub fn enable(&mut self, cx: &NicContext<'_>, on: bool) {
        if self.enabled && !on {
            self.settle(cx);
        }
        self.enabled = on;
    }

    /// Whether the driver has switched the queue on.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A DMA transfer has failed: nothing is received before a reset.
    pub fn halt(&mut self) {
        self.halted = true;
    }

    /// Whether the queue is halted after an error.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.halted
    }

    /// Whether frames are placed.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.enabled && !self.halted
    }

    /// Switched off, at its first descriptor, its account settled. The format is as it was.
    pub fn reset(&mut self, cx: &NicContext<'_>) {
        self.restart(cx);
        (self.enabled, self.halted) = (false, false);
    }

    /// Settles the account, and goes back to the first descriptor: to be called before the format
    /// gets another ring.
    pub fn restart(&mut self, cx: &NicContext<'_>) {
        self.restart_at(cx, F::Place::default());
    }

    /// The same, and goes to this descriptor, where a driver may say that.
    pub fn restart_at(&mut self, cx: &NicContext<'_>, place: F::Place) {
        self.settle(cx);
        self.head = place;
    }

    /// The ring goes away: what the driver has not given back by now, it never will.
    pub fn settle(&mut self, cx: &NicContext<'_>) {
        self.progress(cx, usize::MAX);
        self.counters.abandoned += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.late.clear();
        self.watch.forget();
    }

    /// The descriptor that the next frame goes into.
    #[inline]
    pub fn head(&self) -> F::Place {
        self.head
    }

    /// How far the queue's frames have come, as far as is known without a look.
    #[inline]
    pub fn counters(&self) -> RxCounters {
        self.counters
    }

    /// Takes over the account of the queue that was here before: counts never go back.
    pub fn keep_counters(&mut self, before: &Self) {
        self.counters = before.counters;
    }

    /// Counts the frames at the head of the line that the driver has taken, looking at no more than
    /// `limit`; how far the queue's frames have come.
    pub fn progress(&mut self, cx: &NicContext<'_>, limit: usize) -> RxCounters {
        for _ in 0..limit {
            match self.outstanding.front() {
                Some(place) if self.format.is_taken(cx, place) && !self.is_late(place) => {
                    self.accept_oldest();
                }
                _ => break,
            }
        }
        self.counters
    }

    /// Descriptors in a row, from the head on, that belong to the card, looking at no more than
    /// `limit`.
    pub fn free(&self, cx: &NicContext<'_>, limit: usize) -> usize {
        let limit = limit.min(F::DESCRIPTORS);
        let mut place = self.head;
        for count in 0..limit {
            match self.format.behind_free(cx, place) {
                Some(next) if !self.is_late(place) => place = next,
                _ => return count,
            }
            if place == self.head {
                return count + 1;
            }
        }
        limit
    }

    /// Looks at the descriptors of the next `frames` frames, of `bytes` each, and asks for their lines and the first ones
    /// of their buffers: they are in the cache when the frames come. How many of these descriptors belong to the card.
    pub fn look_ahead(&self, cx: &NicContext<'_>, frames: usize, bytes: usize) -> usize {
        // As many lines as are asked for without a wait on the processors that this was measured on.
        const MOST_BYTES: usize = 24 * LINE_BYTES as usize;
        let (mut place, mut line) = (self.head, None);
        let frames = frames.min(F::DESCRIPTORS);
        for found in 0..frames {
            let expected = match self.format.expected(cx, place, bytes.min(MOST_BYTES)) {
                Some(expected) if !self.is_late(place) => expected,
                _ => return found,
            };
            // Several descriptors are in one line.
            let before = line.replace(expected.descriptor / LINE_BYTES);
            if before != line {
                cx.expect_write(expected.descriptor, 1);
            }
            cx.expect_write(expected.buffer, expected.bytes);
            place = expected.next;
            if place == self.head {
                return found + 1;
            }
        }
        frames
    }

    /// Notes what the driver has done to descriptors and buffers that are the card's, of a card with this queue alone;
    /// for [`NicModel::inspect`](crate::NicModel::inspect).
    pub fn inspect(&mut self, cx: &mut NicContext<'_>) {
        Self::inspect_all(std::slice::from_mut(self), cx);
    }

    /// The same, of a card with all of these queues, by their numbers. What the card has used is let go in each of them
    /// before any is looked at: the driver may have given such a buffer to another queue since.
    pub fn inspect_all(queues: &mut [Self], cx: &mut NicContext<'_>) {
        for queue in &mut *queues {
            match queue.is_open() {
                true => queue.watch.follow(queue.head, queue.counters.on_ring),
                false => queue.watch.forget(),
            }
        }
        for number in 0..queues.len() {
            Self::inspect_one(queues, number, cx);
        }
    }

    fn inspect_one(queues: &mut [Self], number: usize, cx: &mut NicContext<'_>) {
        let place = Place::RxQueue(number as u16);
        let one = &mut queues[number];
        if !one.is_open() {
            return;
        }
        if !one.format.is_set() {
            let which = (FindingKind::RingNotSet, place);
            return cx.note(which, F::SOURCE, || "switched on without a ring".to_owned());
        }
        let mut watch = std::mem::take(&mut one.watch);
        let all = &*queues;
        let one = &all[number];
        let look =
            |cx: &NicContext<'_>, place| one.format.look(cx, place).filter(|_| !one.is_late(place));
        // The queue's own watch is out here, so that only others are asked.
        let elsewhere = |begin, end| {
            let holder = |(number, queue): (usize, &Self)| {
                let descriptor = queue.watch.holder(begin, end)?;
                Some((Place::RxQueue(number as u16), descriptor))
            };
            all.iter().enumerate().find_map(holder)
        };
        let queue = Queue {
            place,
            head: one.head,
            completed: one.counters.on_ring,
            most: F::DESCRIPTORS,
            source: F::SOURCE,
            look: &look,
            misuse: F::misuse,
            elsewhere: Some(&elsewhere),
            marks_first: true,
            active: true,
        };
        watch.inspect(cx, &queue);
        queues[number].watch = watch;
    }

    #[inline]
    fn is_late(&self, place: F::Place) -> bool {
        self.late.holds(|frame| frame.descriptor.place == place)
    }

    #[inline]
    fn load(
        &self,
        cx: &mut NicContext<'_>,
        place: F::Place,
        bytes: usize,
    ) -> Found<RxDescriptor<F::Place, F::Words>> {
        Ok(self.format.load(cx, place, bytes)?.filter(|_| !self.is_late(place)))
    }

    #[inline]
    fn accept_oldest(&mut self) {
        self.outstanding.pop();
        self.counters.accepted += 1;
    }

    /// The card has been given `place` again: the driver has taken what was there one lap ago.
    #[inline]
    fn complete_oldest(&mut self, place: F::Place) {
        if self.outstanding.front().is_some_and(|earlier| F::is_reused(earlier, place)) {
            self.accept_oldest();
        }
    }

    /// A frame is with the driver, or will be; `last` is its last descriptor.
    #[inline]
    fn push_outstanding(&mut self, last: F::Place) {
        if self.outstanding.len() >= F::DESCRIPTORS {
            // Only a driver that moves the ring's end around gets here.
            self.outstanding.pop();
            self.counters.abandoned += 1;
        }
        self.outstanding.push(last);
        self.counters.on_ring += 1;
    }

    #[inline]
    fn complete(
        &mut self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<F::Place, F::Words>,
        completion: Completion,
        status: F::Status,
    ) -> Result<(), DmaError> {
        self.format.complete(cx, descriptor, completion, status)?;
        self.head = descriptor.next;
        Ok(())
    }

    /// Writes a frame, which is these pieces one behind the other, into as many descriptors as it
    /// takes, and completes them.
    #[inline]
    pub fn place(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        status: F::Status,
    ) -> Result<Placement, DmaError> {
        let bytes = pieces.bytes();
        let Some(descriptor) = self.load(cx, self.head, bytes)? else {
            return Ok(Placement::NoDescriptor);
        };
        if bytes > descriptor.bytes {
            return self.place_long(cx, pieces, status, descriptor);
        }
        self.complete_oldest(descriptor.place);
        self.format.write(cx, &descriptor, pieces)?;
        self.complete(cx, &descriptor, whole(bytes), status)?;
        self.push_outstanding(descriptor.place);
        Ok(Placement::Completed)
    }

    /// A frame longer than the first buffer. Nothing is written unless there is room for all of it, or
    /// the card cuts off what is too long.
    #[cold]
    fn place_long(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        status: F::Status,
        first: RxDescriptor<F::Place, F::Words>,
    ) -> Result<Placement, DmaError> {
        let frame = pieces.concat();
        let (mut room, mut next, mut chain) = (first.bytes, first.next, vec![first]);
        while F::CHAINS && room < frame.len() {
            if next == self.head || chain.len() >= F::DESCRIPTORS {
                return Ok(Placement::NoDescriptor);
            }
            let left = frame.len() - room;
            let Some(descriptor) = self.load(cx, next, left)? else {
                return Ok(Placement::NoDescriptor);
            };
            room += descriptor.bytes;
            next = descriptor.next;
            chain.push(descriptor);
        }
        let (mut rest, last) = (&frame[..], chain.len() - 1);
        for (index, descriptor) in chain.iter().enumerate() {
            let (piece, behind) = rest.split_at(descriptor.bytes.min(rest.len()));
            rest = behind;
            self.complete_oldest(descriptor.place);
            if !piece.is_empty() {
                self.format.write(cx, descriptor, &Pieces::whole(piece))?;
            }
            let completion = Completion {
                first: index == 0,
                last: index == last,
                bytes: piece.len(),
                frame_bytes: frame.len(),
            };
            self.complete(cx, descriptor, completion, status)?;
        }
        self.push_outstanding(chain[last].place);
        Ok(Placement::Completed)
    }

    /// The same with a fault of the hardware. A frame that does not fit into the first descriptor's
    /// buffer, or whose fault is not one of completing, goes the way of all others.
    #[cold]
    pub fn place_with_fault(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        status: F::Status,
        fault: RxFault,
    ) -> Result<Placement, DmaError> {
        let bytes = pieces.bytes();
        let said = match fault {
            RxFault::Length(said) => said.into(),
            RxFault::NeverCompleted | RxFault::CompletedLate(_) => bytes,
            RxFault::Crc | RxFault::Alignment | RxFault::Reported(_) => {
                return self.place(cx, pieces, status);
            }
        };
        let descriptor = match self.load(cx, self.head, bytes)? {
            Some(descriptor) if bytes <= descriptor.bytes => descriptor,
            _ => return self.place(cx, pieces, status),
        };
        self.complete_oldest(descriptor.place);
        self.format.write(cx, &descriptor, pieces)?;
        let completion = whole(said);
        let placement = match fault {
            RxFault::NeverCompleted => {
                self.format.withhold(cx, &descriptor)?;
                self.head = descriptor.next;
                return Ok(Placement::NeverCompleted);
            }
            RxFault::CompletedLate(by) => {
                self.format.withhold(cx, &descriptor)?;
                self.late.add(cx, by, LateFrame { descriptor, completion, status });
                self.head = descriptor.next;
                Placement::CompletedLate
            }
            _ => {
                self.complete(cx, &descriptor, completion, status)?;
                Placement::Completed
            }
        };
        self.push_outstanding(descriptor.place);
        Ok(placement)
    }

    /// The queue's timer: whether [`complete_late`](Self::complete_late) is to be called until it has
    /// nothing more to say.
    pub fn timer(&mut self, cx: &mut NicContext<'_>) -> bool {
        self.late.event(cx)
    }

    /// Completes one of the late frames that are due: its status, or why it could not be. Such a one
    /// stays the card's.
    pub fn complete_late(
        &mut self,
        cx: &mut NicContext<'_>,
    ) -> Option<Result<F::Status, DmaError>> {
        let frame = self.late.take_due(cx)?;
        let LateFrame { descriptor, completion, status } = &frame;
        let status = *status;
        let written = self.format.complete(cx, descriptor, *completion, status);
        if written.is_err() {
            self.late.keep(frame);
        }
        Some(written.map(|()| status))
    }
}

/// A frame that is in one descriptor.
#[inline]
fn whole(bytes: usize) -> Completion {
    Completion { first: true, last: true, bytes, frame_bytes: bytes }
}

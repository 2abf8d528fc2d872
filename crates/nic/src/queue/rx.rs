//! A receive queue: the next descriptor is found, a frame placed and completed, and account kept of
//! what the driver has taken.
//!
//! `accepted` is seen in memory, never asked of the driver: each completed descriptor is remembered
//! in order until a look at it ([`RxFormat::is_taken`]) says that the driver has taken its frame, or
//! until the card comes to use the same place again, which it may only then.

use warikomi_pci::{DmaError, Pieces};

use super::ahead::{Expected, Fetched, ROW, offset};
use super::fifo::Fifo;
use super::late::Late;
use super::{Completion, Found, RxDescriptor, RxFormat};
use crate::strict::{FindingKind, Place, Queue, Watch};
use crate::{FCS_BYTES, NicContext, RxCounters, RxFault};

/// The longest frame that Ethernet has without a tag, with its check sequence.
const USUAL_LONGEST: usize = 1_514 + FCS_BYTES;

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
    /// Descriptors from the head on that were read at the beginning of a burst.
    fetched: Fetched<F::Place>,
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
            fetched: Fetched::default(),
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
        self.fetched.clear();
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
            let units = self.units(place, |at| cx.peek_descriptor(at).ok_or(()));
            match units.ok().and_then(|units| self.of(place, USUAL_LONGEST, units)) {
                Some(descriptor) => place = descriptor.next,
                None => return count,
            }
            if place == self.head {
                return count + 1;
            }
        }
        limit
    }

    /// Looks at the descriptors of the next `frames` frames, of `bytes` each, and asks for their lines and the first ones
    /// of their buffers: they are in the cache when the frames come. How many of these descriptors belong to the card.
    /// In a burst they are read now, and not when the frames come.
    pub fn look_ahead(&mut self, cx: &NicContext<'_>, frames: usize, bytes: usize) -> usize {
        self.fetched.begin(self.head);
        let (mut place, mut found, mut wrapped) = (self.head, 0, false);
        let frames = frames.min(F::DESCRIPTORS);
        while found < frames {
            let most = ROW.min(frames - found);
            let row = self.look_at_row(cx, &mut place, most, bytes);
            found += row;
            // A row that is not full goes on at the beginning of the ring, or there are no more. Once: a ring whose end
            // is before the head never comes there, and no descriptor is read twice.
            if row == 0 || place == self.head || row < most && wrapped {
                break;
            }
            wrapped |= row < most;
        }
        if !cx.is_in_burst() {
            self.fetched.clear();
        }
        found
    }

    /// The same with as many of them, up to `most`, as lie one behind the other from a place on.
    fn look_at_row(
        &mut self,
        cx: &NicContext<'_>,
        place: &mut F::Place,
        most: usize,
        bytes: usize,
    ) -> usize {
        let (each, begin) = (self.format.units(), self.format.at(*place));
        let first = self.fetched.read(cx, begin, most * each);
        let (mut expected, mut found) = (Expected::new(), 0);
        while found < most {
            let at = self.format.at(*place);
            if each > 0 && at != begin.wrapping_add(offset(found, each)) {
                break;
            }
            let units = self.fetched.at(first + found * each, each);
            let Some(descriptor) =
                units.and_then(|units| self.of(*place, bytes + FCS_BYTES, units))
            else {
                break;
            };
            expected.push(at, descriptor.buffer);
            (*place, found) = (descriptor.next, found + 1);
            if *place == self.head {
                break;
            }
        }
        self.fetched.keep(first + found * each);
        expected.ask(cx, bytes);
        found
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
        let look = |cx: &NicContext<'_>, place| {
            if one.can_be_owned(place) { one.format.look(cx, place) } else { None }
        };
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

    /// Whether a descriptor can be one that the card may fill, by what is known without a look.
    #[inline]
    fn can_be_owned(&self, place: F::Place) -> bool {
        self.format.is_owned(place) && !self.is_late(place)
    }

    /// A descriptor of these units, if it belongs to the card.
    #[inline]
    fn of(
        &self,
        place: F::Place,
        bytes: usize,
        units: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<F::Place, F::Words>> {
        self.can_be_owned(place).then(|| self.format.descriptor(place, bytes, units))?
    }

    /// The units of a descriptor.
    #[inline]
    fn units<E>(
        &self,
        place: F::Place,
        mut read: impl FnMut(u64) -> Result<[u32; 4], E>,
    ) -> Result<[[u32; 4]; 2], E> {
        let at = self.format.at(place);
        Ok(match self.format.units() {
            0 => [[0; 4]; 2],
            1 => [read(at)?, [0; 4]],
            _ => [read(at)?, read(at.wrapping_add(offset(1, 1)))?],
        })
    }

    /// Reads a descriptor for what is left of a frame.
    #[inline]
    fn load(
        &self,
        cx: &mut NicContext<'_>,
        place: F::Place,
        bytes: usize,
    ) -> Found<RxDescriptor<F::Place, F::Words>> {
        if !self.format.is_owned(place) {
            return Ok(None);
        }
        let units = self.units(place, |at| cx.dma_load_descriptor(at))?;
        Ok(self.of(place, bytes, units))
    }

    /// The descriptor for the next frame, which was read at the beginning of a burst or is read now.
    #[inline]
    fn next(
        &mut self,
        cx: &mut NicContext<'_>,
        bytes: usize,
    ) -> Found<RxDescriptor<F::Place, F::Words>> {
        let place = self.head;
        let Some(units) = self.fetched.take(place, self.format.units()) else {
            return self.load(cx, place, bytes);
        };
        let descriptor = self.format.descriptor(place, bytes, units);
        if let Some(descriptor) = &descriptor {
            self.fetched.behind(descriptor.next);
        }
        Ok(descriptor)
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
        let Some(descriptor) = self.next(cx, bytes)? else {
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
        self.fetched.clear();
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

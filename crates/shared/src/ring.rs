//! A ring with one producer and one consumer.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Words;

/// What a ring carries: two words, of the users' own meaning.
pub type Entry = [u64; 2];

const WORDS_PER_ENTRY: usize = 2;

/// Where in the words a ring is. The two counts only grow; each is written by one side, and lies in a
/// cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The word that counts entries produced.
    pub head: usize,
    /// The word that counts entries consumed.
    pub tail: usize,
    /// The first word of the first entry.
    pub entries: usize,
    /// Entries that the ring holds, a power of two.
    pub capacity: usize,
    /// The first of three words in the cache line of `head`, in which the latest entry stands a second time: its
    /// count, and the entry. A consumer that has kept up then moves one cache line for each entry instead of
    /// two.
    pub latest: Option<usize>,
}

impl RingPlace {
    fn checked_in(self, words: &impl Words) -> RingPlace {
        let end = self.entries + self.capacity * WORDS_PER_ENTRY;
        assert!(self.capacity.is_power_of_two(), "capacity {} is no power of two", self.capacity);
        let last =
            end.max(self.head + 1).max(self.tail + 1).max(self.latest.map_or(0, |at| at + 3));
        assert!(last <= words.len(), "{self:?} is outside");
        self
    }

    #[inline]
    fn entry(self, count: u64) -> usize {
        self.entries + (count as usize & (self.capacity - 1)) * WORDS_PER_ENTRY
    }
}

/// The other side's count makes no sense: it claims more than the ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring is corrupt: its other end counts {claimed} entries where {capacity} can be")]
pub struct Corrupt {
    /// Entries that would be in the ring.
    pub claimed: u64,
    /// Entries that it holds.
    pub capacity: usize,
}

/// The end that puts entries in.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    place: RingPlace,
    head: u64,
    published: u64,
    tail: u64,
}

impl<W: Words> Producer<W> {
    /// The producing end of an empty ring that lies at `place`.
    pub fn new(words: W, place: RingPlace) -> Self {
        let place = place.checked_in(&words);
        let head = words.load(place.head, Relaxed);
        let mut producer = Producer { words, place, head, published: head, tail: head };
        producer.tail = producer.checked_tail();
        producer
    }

    /// What the consumer says that it has taken. While that makes no sense, it has taken nothing of a full
    /// ring.
    fn checked_tail(&self) -> u64 {
        let tail = self.words.load(self.place.tail, Acquire);
        let capacity = self.place.capacity as u64;
        if self.head.wrapping_sub(tail) <= capacity {
            tail
        } else {
            self.head.wrapping_sub(capacity)
        }
    }

    /// Puts an entry in, which the consumer sees after [`publish`](Self::publish). `false`, and
    /// nothing done, if the ring is full.
    #[inline]
    pub fn push(&mut self, entry: Entry) -> bool {
        if self.room() == 0 {
            return false;
        }
        let at = self.place.entry(self.head);
        self.words.store(at, entry[0], Relaxed);
        self.words.store(at + 1, entry[1], Relaxed);
        self.head = self.head.wrapping_add(1);
        true
    }

    /// Lets the consumer see all that was pushed.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.head {
            self.show_latest();
            self.words.store(self.place.head, self.head, Release);
            self.published = self.head;
        }
    }

    /// The count is changed before the entry, and each word after the one before it: a reader who finds the same
    /// count behind the entry has read all of one entry.
    #[inline]
    fn show_latest(&self) {
        let Some(latest) = self.place.latest else { return };
        let count = self.head.wrapping_sub(1);
        let at = self.place.entry(count);
        self.words.store(latest, count, Relaxed);
        for word in 0..WORDS_PER_ENTRY {
            let value = self.words.load(at + word, Relaxed);
            self.words.store(latest + 1 + word, value, Release);
        }
    }

    /// Entries that can be pushed now. A consumer that claims to have taken what was never put in is
    /// not believed.
    #[inline]
    pub fn room(&mut self) -> usize {
        let capacity = self.place.capacity as u64;
        if self.head.wrapping_sub(self.tail) >= capacity {
            let tail = self.words.load(self.place.tail, Acquire);
            if self.head.wrapping_sub(tail) <= capacity {
                self.tail = tail;
            }
        }
        (capacity - self.head.wrapping_sub(self.tail)) as usize
    }

    /// Entries that the ring holds.
    pub fn capacity(&self) -> usize {
        self.place.capacity
    }

    /// The count that the consumer sees: of the entry to be published next, by the last producer
    /// last.
    pub fn shown(&self) -> u64 {
        self.words.load(self.place.head, Acquire)
    }

    /// The count of the next entry to be pushed here.
    pub fn count(&self) -> u64 {
        self.head
    }

    /// The entries from count `from` up to count `to`, as they are in memory now: what was pushed there, if
    /// nothing was pushed in their places since and nobody wrote over them. None if the ring cannot have held
    /// so many.
    pub fn again(&self, from: u64, to: u64) -> impl Iterator<Item = Entry> {
        let count = to.wrapping_sub(from);
        let count = if count <= self.place.capacity as u64 { count } else { 0 };
        (0..count).map(move |more| {
            let at = self.place.entry(from.wrapping_add(more));
            [self.words.load(at, Relaxed), self.words.load(at + 1, Relaxed)]
        })
    }

    /// Goes on where another producer has stopped; what was pushed here and not published is forgotten.
    pub fn resume(&mut self) {
        self.head = self.shown();
        self.published = self.head;
        self.tail = self.checked_tail();
    }

    /// Entries pushed that the consumer has not taken, as far as can be believed.
    pub fn waiting(&mut self) -> usize {
        let tail = self.words.load(self.place.tail, Acquire);
        if self.head.wrapping_sub(tail) <= self.head.wrapping_sub(self.tail) {
            self.tail = tail;
        }
        self.head.wrapping_sub(self.tail) as usize
    }
}

/// The end that takes entries out.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    place: RingPlace,
    head: u64,
    tail: u64,
    released: u64,
    looks: u64,
}

impl<W: Words> Consumer<W> {
    /// The consuming end of a ring that lies at `place`.
    pub fn new(words: W, place: RingPlace) -> Self {
        let place = place.checked_in(&words);
        let tail = words.load(place.tail, Relaxed);
        Consumer { words, place, head: tail, tail, released: tail, looks: 0 }
    }

    /// Takes the next entry, if there is one. Its place is free for the producer after
    /// [`release`](Self::release).
    #[inline]
    pub fn pop(&mut self) -> Result<Option<Entry>, Corrupt> {
        let mut latest = None;
        if self.head == self.tail {
            match self.look()? {
                0 => return Ok(None),
                1 => latest = self.latest(self.tail),
                _ => {}
            }
        }
        let entry = latest.unwrap_or_else(|| self.entry(self.tail));
        self.tail = self.tail.wrapping_add(1);
        Ok(Some(entry))
    }

    /// The entry of this count, if it was the latest until it had been read.
    #[inline]
    fn latest(&self, count: u64) -> Option<Entry> {
        let latest = self.place.latest?;
        let entry = [self.words.load(latest + 1, Acquire), self.words.load(latest + 2, Acquire)];
        (self.words.load(latest, Relaxed) == count).then_some(entry)
    }

    #[inline]
    fn entry(&self, count: u64) -> Entry {
        let at = self.place.entry(count);
        [self.words.load(at, Relaxed), self.words.load(at + 1, Relaxed)]
    }

    /// Gives the places of all that was popped back to the producer.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.tail {
            self.words.store(self.place.tail, self.tail, Release);
            self.released = self.tail;
        }
    }

    /// Entries that wait, looking afresh.
    #[inline]
    pub fn look(&mut self) -> Result<usize, Corrupt> {
        self.looks += 1;
        let waiting = self.waiting_from(self.tail)?;
        self.head = self.tail.wrapping_add(waiting as u64);
        Ok(waiting)
    }

    /// How often this end has looked whether there is something new.
    #[inline]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The count that the producer sees: all before it were taken, by the last consumer.
    pub fn taken(&self) -> u64 {
        self.words.load(self.place.tail, Acquire)
    }

    /// The count of the next entry to be taken here.
    pub fn count(&self) -> u64 {
        self.tail
    }

    /// Entries that were taken, by the last consumer, since there were `answered`.
    pub fn taken_since(&self, answered: u64) -> Result<u64, Corrupt> {
        self.plausible(self.taken().wrapping_sub(answered))
    }

    /// Entries from count `at` on that wait for the consumer that takes the entry `at` next.
    pub fn waiting_from(&self, at: u64) -> Result<usize, Corrupt> {
        let head = self.words.load(self.place.head, Acquire);
        Ok(self.plausible(head.wrapping_sub(at))? as usize)
    }

    #[inline]
    fn plausible(&self, claimed: u64) -> Result<u64, Corrupt> {
        let capacity = self.place.capacity;
        if claimed <= capacity as u64 { Ok(claimed) } else { Err(Corrupt { claimed, capacity }) }
    }

    /// Goes on with the entry of count `at`, where another consumer has stopped. All before it are
    /// released.
    pub fn resume(&mut self, at: u64) -> Result<(), Corrupt> {
        self.waiting_from(at)?;
        (self.head, self.tail, self.released) = (at, at, self.taken());
        self.release();
        Ok(())
    }

    /// Goes on behind everything that the producer claims to have put in: the way out of
    /// [`Corrupt`]. What was in between is lost.
    pub fn resynchronise(&mut self) {
        self.head = self.words.load(self.place.head, Acquire);
        self.tail = self.head;
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedWords;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::{hint, thread};
    use vm_memory::{Bytes, MmapRegion, VolatileMemory};

    const PLACE: RingPlace =
        RingPlace { head: 0, tail: 16, entries: 32, capacity: 8, latest: None };

    /// The same, with the latest entry beside the count.
    const BESIDE: RingPlace = RingPlace { latest: Some(1), ..PLACE };

    fn words() -> SharedWords {
        SharedWords::anonymous(4_096)
    }

    #[test]
    fn entries_come_out_in_order_and_a_full_ring_takes_no_more() {
        [PLACE, BESIDE].into_iter().for_each(in_order);
    }

    fn in_order(place: RingPlace) {
        let words = words();
        let (mut producer, mut consumer) =
            (Producer::new(words.clone(), place), Consumer::new(words, place));
        for round in 0..5 {
            for n in 0..8 {
                assert!(producer.push([round, n]));
            }
            assert!(!producer.push([9, 9]));
            assert_eq!(consumer.pop(), Ok(None), "not published");
            producer.publish();
            assert_eq!((producer.waiting(), producer.room()), (8, 0));
            for n in 0..8 {
                assert_eq!(consumer.pop(), Ok(Some([round, n])));
            }
            assert_eq!((consumer.pop(), producer.room()), (Ok(None), 0), "not released");
            consumer.release();
            assert_eq!(producer.room(), 8);
        }
    }

    #[test]
    fn the_latest_entry_stands_beside_the_count_and_another_than_the_next_is_not_taken() {
        let words = words();
        let mut producer = Producer::new(words.clone(), BESIDE);
        let mut consumer = Consumer::new(words.clone(), BESIDE);
        assert!(producer.push([1, 2]) && producer.push([3, 4]));
        producer.publish();
        assert_eq!([1, 2, 3].map(|at| words.load(at, Relaxed)), [1, 3, 4]);
        assert_eq!([32, 33, 34, 35].map(|at| words.load(at, Relaxed)), [1, 2, 3, 4]);
        assert_eq!(
            [(); 3].map(|()| consumer.pop()),
            [Ok(Some([1, 2])), Ok(Some([3, 4])), Ok(None)]
        );
        // As if the next one were just being written.
        assert!(producer.push([5, 6]));
        producer.publish();
        words.store(1, 3, Relaxed);
        words.store(2, 7, Relaxed);
        assert_eq!(consumer.pop(), Ok(Some([5, 6])), "from its place in the ring");
        // The place in the ring is not needed if the latest entry is the next one.
        assert!(producer.push([7, 8]));
        producer.publish();
        words.store(32 + 2 * 3, 0, Relaxed);
        assert_eq!(consumer.pop(), Ok(Some([7, 8])), "from beside the count");
    }

    #[test]
    fn a_ring_must_be_inside_the_words() {
        let words = words();
        let end = Words::len(&words);
        let new = |place: RingPlace| {
            let result = std::panic::catch_unwind(|| {
                Producer::new(words.clone(), place);
                Consumer::new(words.clone(), place);
            });
            result.is_ok()
        };
        let entries = |entries| RingPlace { entries, ..PLACE };
        assert_eq!([end - 16, end - 15].map(|at| new(entries(at))), [true, false]);
        let head = |head| RingPlace { head, ..PLACE };
        assert_eq!([end - 1, end].map(|at| new(head(at))), [true, false]);
        let tail = |tail| RingPlace { tail, ..PLACE };
        assert_eq!([end - 1, end].map(|at| new(tail(at))), [true, false]);
        let latest = |at| RingPlace { latest: Some(at), ..PLACE };
        assert_eq!([end - 3, end - 2].map(|at| new(latest(at))), [true, false]);
        assert!(!new(RingPlace { capacity: 6, ..PLACE }), "no power of two");
    }

    #[test]
    fn a_producer_goes_on_where_another_has_stopped() {
        let words = words();
        let mut first = Producer::new(words.clone(), PLACE);
        (0..5).for_each(|n| assert!(first.push([n, 10 + n])));
        first.publish();
        assert!(first.push([99, 99]), "which is never published");
        assert_eq!((first.count(), first.shown()), (6, 5));
        assert_eq!((first.waiting(), first.room(), first.capacity()), (6, 2, 8));
        let mut consumer = Consumer::new(words.clone(), PLACE);
        assert_eq!([consumer.pop(), consumer.pop()], [0, 1].map(|n| Ok(Some([n, 10 + n]))));
        consumer.release();

        let mut second = Producer::new(words, PLACE);
        second.resume();
        first.resume();
        for producer in [&mut first, &mut second] {
            assert_eq!((producer.count(), producer.shown()), (5, 5));
            assert_eq!((producer.waiting(), producer.room()), (3, 5));
        }
        let again = |from, to| second.again(from, to).collect::<Vec<_>>();
        assert_eq!(again(2, 5), [[2, 12], [3, 13], [4, 14]]);
        assert_eq!(
            [(5, 5), (0, 8), (0, 9), (5, 2)].map(|(from, to)| again(from, to).len()),
            [0, 8, 0, 0]
        );
    }

    #[test]
    fn a_consumer_goes_on_where_another_has_stopped() {
        let words = words();
        let mut producer = Producer::new(words.clone(), PLACE);
        (0..5).for_each(|n| assert!(producer.push([n, 10 + n])));
        producer.publish();
        let mut first = Consumer::new(words.clone(), PLACE);
        assert_eq!([first.pop(), first.pop()], [0, 1].map(|n| Ok(Some([n, 10 + n]))));
        first.release();
        assert_eq!((first.looks(), first.look(), first.looks()), (1, Ok(3), 2));
        assert_eq!(first.pop(), Ok(Some([2, 12])), "which is never released");

        let mut second = Consumer::new(words, PLACE);
        assert_eq!((second.taken(), second.count()), (2, 2));
        assert_eq!((second.waiting_from(3), second.waiting_from(5)), (Ok(2), Ok(0)));
        assert_eq!((second.taken_since(1), second.taken_since(2)), (Ok(1), Ok(0)));
        let corrupt = |claimed: i64| Corrupt { claimed: claimed as u64, capacity: 8 };
        assert_eq!((second.taken_since(3), second.resume(6)), (Err(corrupt(-1)), Err(corrupt(-1))));
        second.resume(3).unwrap();
        assert_eq!((second.taken(), second.count()), (3, 3));
        assert_eq!(second.pop(), Ok(Some([3, 13])));
    }

    #[test]
    fn a_producer_that_takes_up_nonsense_waits_until_it_makes_sense() {
        let words = words();
        words.store(0, 100, Release);
        for nonsense in [0, 91, 101, u64::MAX] {
            words.store(16, nonsense, Release);
            let mut producer = Producer::new(words.clone(), PLACE);
            assert_eq!((producer.room(), producer.push([1, 1])), (0, false), "{nonsense}");
            producer.resume();
            assert_eq!(producer.room(), 0, "{nonsense}");
            words.store(16, 95, Release);
            assert_eq!(producer.room(), 3);
        }
    }

    /// What Miri and ThreadSanitizer are shown: memory beside the ring, as that of DMA, which no atomic guards but the
    /// ring's own counts.
    #[test]
    fn what_an_entry_is_about_passes_with_it_and_comes_back_with_its_place() {
        [PLACE, BESIDE].into_iter().for_each(passes_payload);
    }

    fn passes_payload(place: RingPlace) {
        const BYTES: usize = 16;
        let count = if cfg!(miri) { 50 } else { 1_000 };
        let words = words();
        let (mut producer, mut consumer) =
            (Producer::new(words.clone(), place), Consumer::new(words, place));
        let payload = Arc::new(MmapRegion::<()>::new(place.capacity * BYTES).unwrap());
        let written = payload.clone();
        let slot = move |number: u64| (number % place.capacity as u64) as usize * BYTES;
        let other = thread::spawn(move || {
            for number in 0..count {
                while producer.room() == 0 {
                    hint::spin_loop();
                }
                let into = written.get_slice(slot(number), BYTES).unwrap();
                into.write_slice(&[number as u8; BYTES], 0).unwrap();
                assert!(producer.push([number, 0]));
                producer.publish();
            }
        });
        for number in 0..count {
            let entry = std::iter::repeat_with(|| {
                hint::spin_loop();
                consumer.pop().unwrap()
            });
            assert_eq!(entry.flatten().next(), Some([number, 0]));
            let mut seen = [0; BYTES];
            payload.get_slice(slot(number), BYTES).unwrap().read_slice(&mut seen, 0).unwrap();
            assert_eq!(seen, [number as u8; BYTES]);
            consumer.release();
        }
        other.join().unwrap();
    }

    proptest! {
        /// Whatever the other side writes over the counts, nothing panics, and never more than a
        /// ring's worth is taken or offered.
        #[test]
        fn nonsense_from_the_other_side_is_survived(writes in prop::collection::vec((0u64..24, any::<u64>(), any::<bool>()), 1..60)) {
            let words = words();
            let (mut producer, mut consumer) =
                (Producer::new(words.clone(), BESIDE), Consumer::new(words.clone(), BESIDE));
            for (value, wild, choose) in writes {
                words.store(value as usize % 4, wild, Release);
                words.store(0, if choose { value } else { wild }, Release);
                let mut taken = 0;
                loop {
                    match consumer.pop() {
                        Ok(Some(_)) => taken += 1,
                        Ok(None) => break,
                        Err(error) => {
                            prop_assert!(error.claimed > 8);
                            consumer.resynchronise();
                        }
                    }
                    prop_assert!(taken <= 8);
                }
                consumer.release();
                words.store(16, if choose { wild } else { value }, Release);
                prop_assert!(producer.room() <= 8);
                producer.push([value, wild]);
                producer.publish();
                prop_assert!(producer.waiting() <= 8);
            }
        }
    }
}

//! Waking somebody who may be asleep.
//!
//! The sleeper says so in a word, looks once more whether there is something to do, and only then
//! sleeps; whoever has something for it publishes that, and only then looks at the word. A full fence
//! on each side between the two steps makes sure that at least one of them sees the other. While
//! nobody sleeps, ringing costs a fence and a look at a word that stays in the cache.
//!
//! A sleeper that is awake and does something else says that, too: it looks before it sleeps, and may have
//! looked long before that. Waking it is dear to both sides, so the one that rings decides how long to wait.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::Words;

/// What ends a sleep: an eventfd between processes, something of the model checker's in its tests.
pub trait Wakeup {
    /// Ends the present sleep, or else the next. Never blocks.
    fn wake(&self);
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is something to do, or there may be.
    Called,
    /// The time was up.
    TimedOut,
}

/// The sleeper's word: it looks all the time.
pub const LOOKS: u64 = 0;
/// It sleeps, or is about to.
pub const SLEEPS: u64 = 1;
/// It does something else, and will look behind it.
pub const BUSY: u64 = 2;

/// What came of ringing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Nothing is needed.
    Looks,
    /// It will look, but may take long.
    Busy,
    /// It was woken.
    Woken,
}

/// The end that rings.
#[derive(Debug)]
pub struct Bell<W, K> {
    words: W,
    sleeping: usize,
    wakeup: K,
    wakeups: u64,
}

impl<W: Words, K: Wakeup> Bell<W, K> {
    /// Rings for the sleeper whose word is number `sleeping`.
    pub fn new(words: W, sleeping: usize, wakeup: K) -> Self {
        assert!(sleeping < words.len(), "the word {sleeping} is outside");
        Bell { words, sleeping, wakeup, wakeups: 0 }
    }

    /// To be called after what the sleeper shall see has been published.
    #[inline]
    pub fn ring(&mut self) -> Rung {
        self.words.fence();
        match self.words.load(self.sleeping, Relaxed) {
            LOOKS => Rung::Looks,
            BUSY => Rung::Busy,
            _ => self.wake(),
        }
    }

    #[cold]
    fn wake(&mut self) -> Rung {
        // Swapped, so that a sleep is ended once however often it is rung for.
        if self.words.swap(self.sleeping, LOOKS, AcqRel) == LOOKS {
            return Rung::Looks;
        }
        // Also if it is busy by now: it has to say so again, since that was overwritten.
        self.wakeup.wake();
        self.wakeups += 1;
        Rung::Woken
    }

    /// Wakes whatever the word says: for a successor, whose predecessor may have taken the word back and
    /// ended before it woke anybody.
    pub fn ring_unconditionally(&mut self) {
        self.wakeup.wake();
        self.wakeups += 1;
    }

    /// What wakes.
    pub fn wakeup(&self) -> &K {
        &self.wakeup
    }

    /// How often somebody was woken: a system call each.
    pub fn wakeups(&self) -> u64 {
        self.wakeups
    }
}

/// The end that sleeps.
#[derive(Debug)]
pub struct Sleeper<W> {
    words: W,
    sleeping: usize,
}

impl<W: Words> Sleeper<W> {
    /// Sleeps by the word number `sleeping`.
    pub fn new(words: W, sleeping: usize) -> Self {
        assert!(sleeping < words.len(), "the word {sleeping} is outside");
        Sleeper { words, sleeping }
    }

    /// Sleeps by `sleep`, unless `ready` finds something to do: that is asked when whoever rings
    /// from now on will wake us.
    #[inline]
    pub fn sleep_unless<E>(
        &mut self,
        ready: impl FnOnce() -> Result<bool, E>,
        sleep: impl FnOnce() -> Result<Woken, E>,
    ) -> Result<Woken, E> {
        self.announce();
        let woken = match ready() {
            Ok(false) => sleep(),
            Ok(true) => Ok(Woken::Called),
            Err(error) => Err(error),
        };
        self.retract();
        woken
    }

    /// The first part of [`sleep_unless`](Self::sleep_unless), for whoever does the rest step by step: from
    /// here on whoever rings will wake us, so what is to be done is looked for once more, and then slept.
    #[inline]
    pub fn announce(&self) {
        self.words.store(self.sleeping, SLEEPS, Relaxed);
        self.words.fence();
    }

    /// The last part: awake again, or not asleep at all.
    #[inline]
    pub fn retract(&self) {
        self.words.store(self.sleeping, LOOKS, Relaxed);
    }
}

/// A word that counts events: written by one side, compared by the other with what it has seen.
#[derive(Debug)]
pub struct Tally<W> {
    words: W,
    at: usize,
    seen: u64,
}

impl<W: Words> Tally<W> {
    /// The tally kept in word number `at`, as it stands.
    pub fn new(words: W, at: usize) -> Self {
        let seen = words.load(at, Acquire);
        Tally { words, at, seen }
    }

    /// Counts one event. Everything before it is seen by a reader of the count.
    #[inline]
    pub fn add(&mut self) {
        self.seen = self.seen.wrapping_add(1);
        self.words.store(self.at, self.seen, Release);
    }

    /// Events that this end has counted, or taken.
    #[inline]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether there are events that have not been taken.
    #[inline]
    pub fn pending(&self) -> bool {
        self.behind() != 0
    }

    /// Events that have not been taken.
    #[inline]
    pub fn behind(&self) -> u64 {
        self.words.load(self.at, Acquire).wrapping_sub(self.seen)
    }

    /// Takes one event, if there is one: events are taken one by one, never merged.
    #[inline]
    pub fn take(&mut self) -> bool {
        let pending = self.pending();
        // Not by adding `pending` as a number: of that and a look at how many are left behind it, rustc 1.95
        // makes code at -O2 that takes events for ever (seen with a message's receiver).
        if pending {
            self.seen = self.seen.wrapping_add(1);
        }
        pending
    }

    /// Takes all events at once; how many.
    #[inline]
    pub fn take_all(&mut self) -> u64 {
        let count = self.words.load(self.at, Acquire);
        count.wrapping_sub(std::mem::replace(&mut self.seen, count))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::SharedWords;

    /// Counts how often it was used.
    impl Wakeup for Rc<Cell<u64>> {
        fn wake(&self) {
            self.set(self.get() + 1);
        }
    }

    #[test]
    fn only_a_sleeper_is_woken_and_one_sleep_is_ended_once() {
        let words = SharedWords::anonymous(4_096);
        let mut bell = Bell::new(words.clone(), 3, Rc::new(Cell::new(0)));
        let sleeper = Sleeper::new(words.clone(), 3);
        assert_eq!(bell.ring(), Rung::Looks);
        words.store(3, BUSY, Relaxed);
        assert_eq!(bell.ring(), Rung::Busy);
        sleeper.announce();
        assert_eq!([bell.ring(), bell.ring()], [Rung::Woken, Rung::Looks]);
        assert_eq!((bell.wakeups(), bell.wakeup().get()), (1, 1));
        sleeper.announce();
        sleeper.retract();
        assert_eq!(bell.ring(), Rung::Looks);
        bell.ring_unconditionally();
        assert_eq!((bell.wakeups(), bell.wakeup().get()), (2, 2));
    }

    struct NoWakeup;
    impl Wakeup for NoWakeup {
        fn wake(&self) {}
    }

    /// One word, that of a sleeper that looks.
    struct Looking;
    impl Words for Looking {
        fn len(&self) -> usize {
            1
        }
        fn load(&self, _: usize, _: Ordering) -> u64 {
            LOOKS
        }
        fn store(&self, _: usize, _: u64, _: Ordering) {
            unreachable!("the line stays in both caches");
        }
        fn swap(&self, _: usize, _: u64, _: Ordering) -> u64 {
            unreachable!("the line stays in both caches");
        }
        fn fence(&self) {}
    }

    #[test]
    fn ringing_for_one_that_looks_writes_nothing() {
        assert_eq!(Bell::new(Looking, 0, NoWakeup).ring(), Rung::Looks);
    }

    /// Miri finds it, if a fence is missing; a processor may.
    #[test]
    fn a_sleeper_sees_what_there_is_or_is_woken() {
        for _ in 0..200 {
            let words = SharedWords::anonymous(4_096);
            let mut bell = Bell::new(words.clone(), 3, NoWakeup);
            let sleeper = Sleeper::new(words.clone(), 3);
            let published = words.clone();
            let other = thread::spawn(move || {
                published.store(0, 1, Relaxed);
                bell.ring()
            });
            sleeper.announce();
            let seen = words.load(0, Relaxed) == 1;
            assert!(other.join().unwrap() == Rung::Woken || seen);
        }
    }

    #[test]
    fn a_sleep_is_left_out_if_there_is_something_to_do() {
        let words = SharedWords::anonymous(4_096);
        let mut sleeper = Sleeper::new(words.clone(), 3);
        let state = || words.load(3, Relaxed);
        let sleep = || {
            assert_eq!(state(), SLEEPS);
            Ok(Woken::TimedOut)
        };
        assert_eq!(sleeper.sleep_unless(|| Ok::<_, ()>(false), sleep), Ok(Woken::TimedOut));
        let no_sleep = || -> Result<Woken, ()> { unreachable!("there is something to do") };
        assert_eq!(sleeper.sleep_unless(|| Ok::<_, ()>(true), no_sleep), Ok(Woken::Called));
        assert_eq!(sleeper.sleep_unless(|| Err(()), no_sleep), Err(()));
        assert_eq!(state(), LOOKS);
    }

    #[test]
    fn events_are_taken_one_by_one_or_all_at_once() {
        let words = SharedWords::anonymous(4_096);
        let (mut added, mut seen) = (Tally::new(words.clone(), 5), Tally::new(words.clone(), 5));
        assert_eq!((seen.pending(), seen.take(), seen.take_all()), (false, false, 0));
        (0..5).for_each(|_| added.add());
        assert!(seen.take() && seen.pending());
        assert_eq!((seen.seen(), seen.behind(), seen.take_all()), (1, 4, 4));
        assert_eq!((seen.pending(), seen.seen(), added.seen()), (false, 5, 5));
        assert_eq!(Tally::new(words, 5).seen(), 5);
    }
}

//! The other end of a channel that puts entries in without end, each of which is refused: no call goes on for ever.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use warikomi_shared::{SharedWords, Wakeup, Words, create_region};
use warikomi_stack::{ChannelPlace, ProviderEnd, UserEnd, words};

const CAPACITY: usize = 8;
const PLACE: ChannelPlace = ChannelPlace { first_word: 0, capacity: CAPACITY };
const BUFFER_BYTES: u32 = 128;

/// Words in which one ring is never empty, however fast entries are taken: each look at its head finds one more.
#[derive(Clone)]
struct Endless {
    words: SharedWords,
    head: usize,
    looks: Rc<Cell<u64>>,
}

impl Endless {
    fn new(head: usize) -> Endless {
        let bytes = (ChannelPlace::words(CAPACITY) * 8).next_multiple_of(4_096);
        let words = SharedWords::map(create_region("test", bytes as u64).unwrap(), 0, bytes);
        let words = words.unwrap();
        // Of no buffer of the channel.
        (words::ENTRIES..Words::len(&words)).for_each(|at| words.store(at, 999, Ordering::Relaxed));
        Endless { words, head, looks: Rc::default() }
    }
}

impl Words for Endless {
    fn len(&self) -> usize {
        Words::len(&self.words)
    }

    fn load(&self, at: usize, order: Ordering) -> u64 {
        if at != self.head {
            return Words::load(&self.words, at, order);
        }
        self.looks.set(self.looks.get() + 1);
        assert!(self.looks.get() < 100_000, "it goes on for ever");
        self.looks.get()
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        Words::store(&self.words, at, value, order);
    }

    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        Words::swap(&self.words, at, value, order)
    }

    fn fence(&self) {
        self.words.fence();
    }
}

#[derive(Clone)]
struct NoSleeper;

impl Wakeup for NoSleeper {
    fn wake(&self) {}
}

#[test]
fn refused_entries_without_end_keep_no_provider() {
    for (head, is_post) in [(words::POSTS, true), (words::TRANSMITS, false)] {
        let mut provider =
            ProviderEnd::new(&Endless::new(head), PLACE, 0..8, BUFFER_BYTES, NoSleeper);
        for calls in 1..4 {
            let found = if is_post {
                provider.posted().unwrap().is_some()
            } else {
                provider.transmit().unwrap().is_some()
            };
            assert!(!found);
            assert_eq!(provider.refusals().unknown, calls * 64);
        }
        assert!(provider.prepare_to_sleep().unwrap(), "there is more to look at");
    }
}

#[test]
fn refused_answers_without_end_keep_no_user() {
    for (head, is_completion) in [(words::COMPLETIONS, true), (words::SENT, false)] {
        let mut user = UserEnd::new(&Endless::new(head), PLACE, 0..8, BUFFER_BYTES, &NoSleeper);
        for calls in 1..4 {
            let found = if is_completion { user.completion() } else { user.sent() };
            assert_eq!(found.unwrap(), None);
            assert_eq!(user.refusals().unknown, calls * 64);
        }
        assert!(user.prepare_to_sleep().unwrap(), "there is more to look at");
    }
}

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::{Tally, Words};

/// Where numbered messages are kept: a word that counts them, and the numbers of the last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePlace {
    /// The word that counts.
    pub count: usize,
    /// The first word of the numbers.
    pub numbers: usize,
    /// How many of them have room; one less is kept.
    pub capacity: usize,
    /// A word in the cache line of `count`: the latest message, counted from 0, times 65,536, and its number. A
    /// receiver that has kept up then needs no other cache line.
    pub latest: Option<usize>,
}

impl MessagePlace {
    fn of(self, message: u64) -> usize {
        self.numbers + (message % self.capacity as u64) as usize
    }
}

/// The end that sends messages, of which each is a number; it never waits.
#[derive(Debug)]
pub struct MessageSender<W> {
    words: W,
    place: MessagePlace,
    tally: Tally<W>,
}

impl<W: Words + Clone> MessageSender<W> {
    /// Goes on where the words stand.
    pub fn new(words: W, place: MessagePlace) -> MessageSender<W> {
        MessageSender { tally: Tally::new(words.clone(), place.count), words, place }
    }

    /// Messages sent so far.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.tally.seen()
    }

    /// Sends one. Everything before it is seen by its receiver.
    #[inline]
    pub fn send(&mut self, number: u16) {
        // Behind the count of those before it: whoever reads this in the place of an older message sees,
        // by the count, that the older one is gone.
        let at = self.place.of(self.tally.seen());
        self.words.store(at, number.into(), Release);
        // Right before the count, so that both go out with one fetch of their cache line.
        if let Some(latest) = self.place.latest {
            self.words.store(latest, self.tally.seen() << 16 | u64::from(number), Release);
        }
        self.tally.add();
    }
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// One of this number.
    Number(u16),
    /// One that was not taken in time, and was written over: it may have been of any number, and the only one of it.
    Lost,
}

/// The end that takes them, one by one: they are never merged. Of those that it has not taken in time only
/// the count is left.
#[derive(Debug)]
pub struct MessageReceiver<W> {
    words: W,
    place: MessagePlace,
    tally: Tally<W>,
}

impl<W: Words + Clone> MessageReceiver<W> {
    /// Takes what is sent from now on.
    pub fn new(words: W, place: MessagePlace) -> MessageReceiver<W> {
        MessageReceiver { tally: Tally::new(words.clone(), place.count), words, place }
    }
}

impl<W: Words> MessageReceiver<W> {
    /// Whether there are messages that have not been taken.
    #[inline]
    pub fn pending(&self) -> bool {
        self.tally.pending()
    }

    /// The number of this message, if it is the latest.
    fn latest(&self, message: u64) -> Option<u16> {
        let latest = self.words.load(self.place.latest?, Acquire);
        (latest >> 16 == message & (u64::MAX >> 16)).then_some(latest as u16)
    }

    /// Takes one message, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<Message> {
        let message = self.tally.seen();
        if !self.tally.take() {
            return None;
        }
        if let Some(number) = self.latest(message) {
            return Some(Message::Number(number));
        }
        let number = self.words.load(self.place.of(message), Acquire);
        // The one that comes into its place is there before it is counted.
        let gone = self.tally.behind() + 1 >= self.place.capacity as u64;
        Some(if gone { Message::Lost } else { Message::Number(number as u16) })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::atomic::Ordering;

    use super::*;

    struct Local([Cell<u64>; 8]);
    impl Words for Local {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn load(&self, at: usize, _: Ordering) -> u64 {
            self.0[at].get()
        }
        fn store(&self, at: usize, value: u64, _: Ordering) {
            self.0[at].set(value);
        }
        fn swap(&self, at: usize, value: u64, _: Ordering) -> u64 {
            self.0[at].replace(value)
        }
        fn fence(&self) {}
    }

    const PLACE: MessagePlace = MessagePlace { count: 1, numbers: 3, capacity: 4, latest: Some(2) };

    #[test]
    fn messages_are_taken_one_by_one_with_their_numbers() {
        let words = Rc::new(Local(Default::default()));
        let mut sender = MessageSender::new(words.clone(), PLACE);
        let mut receiver = MessageReceiver::new(words, PLACE);
        for round in 0..10 {
            [7, round, 9].into_iter().for_each(|number| sender.send(number));
            assert!(receiver.pending());
            let got: Vec<_> = std::iter::from_fn(|| receiver.take()).collect();
            assert_eq!(got, [7, round, 9].map(Message::Number));
            assert!(!receiver.pending());
            assert_eq!(sender.sent(), 3 * (u64::from(round) + 1));
        }
    }

    #[test]
    fn a_receiver_that_has_kept_up_finds_the_number_beside_the_count() {
        let words = Rc::new(Local(Default::default()));
        let mut sender = MessageSender::new(words.clone(), PLACE);
        let mut receiver = MessageReceiver::new(words.clone(), PLACE);
        for message in 0..10 {
            sender.send(100 + message);
            // The places of all are in another cache line, which it does not need.
            (3..7).for_each(|at| words.store(at, 0, Ordering::Relaxed));
            let number = Message::Number(100 + message);
            assert_eq!((receiver.take(), receiver.take()), (Some(number), None));
        }
    }

    #[test]
    fn each_that_was_not_taken_in_time_may_have_been_of_any_number() {
        let words = Rc::new(Local(Default::default()));
        let mut sender = MessageSender::new(words.clone(), PLACE);
        let mut receiver = MessageReceiver::new(words, PLACE);
        (0..10).for_each(|_| sender.send(9));
        let got: Vec<_> = std::iter::from_fn(|| receiver.take()).collect();
        assert_eq!(got, [[Message::Lost; 7].as_slice(), &[Message::Number(9); 3]].concat());
    }
}

//! Every interleaving of the protocols, as far as the memory model allows more than one
//! (`loom`: all of them, up to a bound of preemptions or without one, as `model/explore.rs` says).
//!
//! A failure prints the interleaving; `LOOM_LOG=trace cargo test -p warikomi-shared --test models NAME`
//! shows it step by step.

#[path = "model/event.rs"]
mod event;
#[path = "model/explore.rs"]
mod explore;
#[path = "model/words.rs"]
mod words;

use std::sync::atomic::Ordering;

use loom::thread;
use warikomi_shared::{
    BUSY, Bell, Consumer, Message, MessagePlace, MessageReceiver, MessageSender, Producer,
    RingPlace, SLEEPS, Sleeper, Tally, Words,
};

use event::ModelEvent;
use explore::explore;
use words::ModelWords;

const RING: RingPlace = RingPlace { head: 0, tail: 1, entries: 2, capacity: 2, latest: None };
const SLEEPING: usize = 6;
/// With the latest entry beside the count.
const BESIDE: RingPlace = RingPlace { latest: Some(7), ..RING };
const WORDS: usize = 10;

/// Preemptions in one interleaving: two are enough for every known bug of this kind, three take
/// seconds.
const PREEMPTIONS: usize = 3;

#[test]
fn a_ring_passes_every_entry_once_and_in_order() {
    passes_every_entry(RING);
}

#[test]
fn a_ring_with_its_latest_entry_beside_the_count_does_so_too() {
    passes_every_entry(BESIDE);
}

#[track_caller]
fn passes_every_entry(place: RingPlace) {
    explore(PREEMPTIONS, move || {
        let words = ModelWords::new(WORDS, None);
        let mut producer = Producer::new(words.clone(), place);
        let mut consumer = Consumer::new(words, place);
        let other = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..4 {
                if producer.push([pushed, !pushed]) {
                    pushed += 1;
                    producer.publish();
                }
            }
            pushed
        });
        let mut taken = 0;
        let mut take = || {
            if let Some(entry) = consumer.pop().unwrap() {
                assert_eq!(entry, [taken, !taken]);
                taken += 1;
                consumer.release();
            }
            taken
        };
        for _ in 0..2 {
            take();
        }
        let pushed = other.join().unwrap();
        while take() < pushed {}
    });
}

/// A consumer that sleeps when the ring is empty; a lost wake-up would be a deadlock, which `loom`
/// reports.
fn sleeping_consumer(look_again: bool) {
    let words = ModelWords::new(WORDS, Some(SLEEPING));
    let event = ModelEvent::new();
    let mut producer = Producer::new(words.clone(), RING);
    let mut bell = Bell::new(words.clone(), SLEEPING, event.clone());
    let mut consumer = Consumer::new(words.clone(), RING);
    let mut sleeper = Sleeper::new(words, SLEEPING);
    let other = thread::spawn(move || {
        for number in 1..=2 {
            assert!(producer.push([number, 0]));
            producer.publish();
            bell.ring();
        }
    });
    let mut taken = 0;
    while taken < 2 {
        while consumer.pop().unwrap().is_some() {
            taken += 1;
        }
        if taken < 2 {
            let look =
                || if look_again { consumer.look().map(|found| found > 0) } else { Ok(false) };
            let sleep = || Ok(event.wait());
            sleeper.sleep_unless(look, sleep).unwrap();
        }
    }
    other.join().unwrap();
}

#[test]
fn no_entry_is_missed_between_the_last_look_and_the_sleep() {
    explore(PREEMPTIONS, || sleeping_consumer(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_last_look_one_is_missed() {
    explore(PREEMPTIONS, || sleeping_consumer(false));
}

/// Two interrupts, counted in word 0, for the sleeper of word 1.
fn raise_twice(words: &ModelWords, event: &ModelEvent) -> thread::JoinHandle<()> {
    let mut raised = Tally::new(words.clone(), 0);
    let mut bell = Bell::new(words.clone(), 1, event.clone());
    thread::spawn(move || {
        for _ in 0..2 {
            raised.add();
            bell.ring();
        }
    })
}

/// As the kernel's bridge does it: busy until it sleeps. Who rings never insists.
#[test]
fn a_busy_sleeper_misses_nothing_that_was_not_rung_for() {
    explore(PREEMPTIONS, || {
        let words = ModelWords::new(2, Some(1));
        let event = ModelEvent::new();
        let mut seen = Tally::new(words.clone(), 0);
        let other = raise_twice(&words, &event);
        let mut handled = 0;
        while handled < 2 {
            words.store(1, BUSY, Ordering::Relaxed);
            handled += seen.take_all();
            words.store(1, SLEEPS, Ordering::Relaxed);
            words.fence();
            if handled < 2 && !seen.pending() {
                event.wait();
            }
        }
        other.join().unwrap();
    });
}

#[test]
fn interrupts_are_taken_one_by_one_and_none_is_slept_through() {
    explore(PREEMPTIONS, || {
        let words = ModelWords::new(2, Some(1));
        let event = ModelEvent::new();
        let mut seen = Tally::new(words.clone(), 0);
        let other = raise_twice(&words, &event);
        let mut sleeper = Sleeper::new(words, 1);
        let mut handled = 0;
        while handled < 2 {
            while seen.take() {
                handled += 1;
            }
            if handled < 2 {
                let ready = || Ok::<_, ()>(seen.pending());
                let sleep = || Ok(event.wait());
                sleeper.sleep_unless(ready, sleep).unwrap();
            }
        }
        assert!(!seen.pending());
        other.join().unwrap();
    });
}

#[test]
fn a_message_has_its_own_number_or_is_known_to_be_gone() {
    messages(MessagePlace { count: 0, numbers: 1, capacity: 2, latest: None });
}

#[test]
fn so_it_has_with_the_latest_number_beside_the_count() {
    messages(MessagePlace { count: 0, numbers: 1, capacity: 2, latest: Some(3) });
}

#[track_caller]
fn messages(place: MessagePlace) {
    // A number that says which message it was.
    const FIRST: u16 = 10;
    explore(PREEMPTIONS, move || {
        let words = ModelWords::new(4, None);
        let mut sender = MessageSender::new(words.clone(), place);
        let mut receiver = MessageReceiver::new(words, place);
        let other = thread::spawn(move || (0..3).for_each(|message| sender.send(FIRST + message)));
        let mut taken = 0;
        let mut take = |receiver: &mut MessageReceiver<_>| {
            if let Some(message) = receiver.take() {
                let own = Message::Number(FIRST + taken);
                assert!(message == own || message == Message::Lost, "{message:?} is {taken}");
                taken += 1;
            }
        };
        take(&mut receiver);
        take(&mut receiver);
        other.join().unwrap();
        (0..3).for_each(|_| take(&mut receiver));
        assert_eq!(taken, 3);
        assert!(!receiver.pending());
    });
}

/// Of two vectors the second has one message, and the first enough for it to be written over. Handlers run as
/// `vectors` says for each message that was taken, of which this is the number.
#[track_caller]
fn vectors_of(vectors: fn(Message, usize) -> [bool; 2]) {
    const PLACE: MessagePlace = MessagePlace { count: 0, numbers: 1, capacity: 2, latest: None };
    explore(PREEMPTIONS, move || {
        let words = ModelWords::new(4, None);
        let mut sender = MessageSender::new(words.clone(), PLACE);
        let mut receiver = MessageReceiver::new(words, PLACE);
        let other = thread::spawn(move || [1, 0, 0].map(|vector| sender.send(vector)));
        let (mut taken, mut handled) = (0, [false; 2]);
        let mut take = || {
            if let Some(message) = receiver.take() {
                let now = vectors(message, taken);
                handled = [0, 1].map(|vector| handled[vector] || now[vector]);
                taken += 1;
            }
        };
        (0..2).for_each(|_| take());
        other.join().unwrap();
        (0..3).for_each(|_| take());
        assert_eq!((taken, handled), (3, [true; 2]));
    });
}

fn only(vector: usize) -> [bool; 2] {
    [vector == 0, vector == 1]
}

#[test]
fn a_vector_whose_only_message_is_gone_has_its_turn() {
    vectors_of(|message, _| match message {
        Message::Number(vector) => only(vector.into()),
        Message::Lost => [true; 2],
    });
}

#[test]
#[should_panic(expected = "(3, [true, false])")]
fn by_a_number_that_goes_round_it_has_none() {
    vectors_of(|message, taken| match message {
        Message::Number(vector) => only(vector.into()),
        Message::Lost => only(taken % 2),
    });
}

/// As the kernel's bridge takes them (`next_vector` of `kernel/bridge/interrupts.c`): the count that has brought it here
/// is too old to say whether another message is in the place that it reads behind it.
fn the_bridge_takes(counts_again: bool) {
    const PLACE: MessagePlace = MessagePlace { count: 0, numbers: 1, capacity: 2, latest: Some(3) };
    const FIRST: u64 = 10;
    explore(PREEMPTIONS, move || {
        let words = ModelWords::new(4, None);
        let mut sender = MessageSender::new(words.clone(), PLACE);
        let other = thread::spawn(move || (10..13).for_each(|number| sender.send(number)));
        let mut taken = 0;
        let mut take = || {
            let sent = words.load(PLACE.count, Ordering::Acquire);
            if sent == taken {
                return;
            }
            let latest = words.load(3, Ordering::Relaxed);
            if latest >> 16 == taken {
                assert_eq!(latest & 0xffff, FIRST + taken);
            } else {
                let number = words.load(PLACE.numbers + taken as usize % 2, Ordering::Acquire);
                let sent =
                    if counts_again { words.load(PLACE.count, Ordering::Acquire) } else { sent };
                let is_gone = sent - taken >= PLACE.capacity as u64;
                assert!(is_gone || number == FIRST + taken, "{number} is {taken}");
            }
            taken += 1;
        };
        (0..2).for_each(|_| take());
        other.join().unwrap();
        (0..3).for_each(|_| take());
        assert_eq!(taken, 3);
    });
}

#[test]
fn the_kernels_bridge_takes_no_message_for_another() {
    the_bridge_takes(true);
}

#[test]
#[should_panic(expected = "12 is 0")]
fn by_the_count_of_before_it_does() {
    the_bridge_takes(false);
}

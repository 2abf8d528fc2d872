//! Every interleaving of the two ends of a channel, up to a bound of preemptions (`loom`): nobody
//! sleeps through what has come.
//!
//! A failure prints the interleaving; `LOOM_LOG=trace cargo test -p warikomi-stack --test models NAME`
//! shows it step by step.

#[path = "../../shared/tests/model/event.rs"]
mod event;
#[path = "../../shared/tests/model/explore.rs"]
mod explore;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use warikomi_driver::state::Held;
use warikomi_shared::{Corrupt, Wakeup, Words};
use warikomi_stack::{ChannelPlace, ProviderEnd, Receiver, Slice, UserEnd, words};

use event::ModelEvent;
use explore::explore;

/// Only the words that a channel uses: the model checker pays for each.
#[derive(Clone)]
struct ModelWords(Arc<Vec<AtomicU64>>);

const CAPACITY: usize = 2;
const PLACE: ChannelPlace = ChannelPlace { first_word: 0, capacity: CAPACITY };
const LINE: usize = 16;
const SINGLE: usize = words::PROVIDER_HUNGRY / LINE + 1;
const BUFFER_BYTES: u32 = 128;

impl ModelWords {
    fn new() -> Self {
        let entries = 4 * 2 * CAPACITY;
        ModelWords(Arc::new((0..SINGLE + entries).map(|_| AtomicU64::new(0)).collect()))
    }

    fn slot(&self, at: usize) -> &AtomicU64 {
        match at.checked_sub(words::ENTRIES) {
            Some(entry) => &self.0[SINGLE + entry],
            None => {
                assert_eq!(at % LINE, 0, "no word of the rings");
                &self.0[at / LINE]
            }
        }
    }
}

impl Words for ModelWords {
    fn len(&self) -> usize {
        ChannelPlace::words(CAPACITY)
    }
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.slot(at).load(order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.slot(at).store(value, order);
    }
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.slot(at).swap(value, order)
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Errors of a model: there are none.
#[derive(Debug)]
struct Broken;

impl From<Corrupt> for Broken {
    fn from(corrupt: Corrupt) -> Self {
        panic!("{corrupt}")
    }
}

struct Model {
    user: UserEnd<ModelWords, ModelEvent>,
    provider: ProviderEnd<ModelWords, ModelEvent>,
    user_event: ModelEvent,
    provider_event: ModelEvent,
}

fn model() -> Model {
    let words = ModelWords::new();
    let (user_event, provider_event) = (ModelEvent::new(), ModelEvent::new());
    let user = UserEnd::new(&words, PLACE, 0..2, BUFFER_BYTES, &provider_event);
    let provider = ProviderEnd::new(&words, PLACE, 0..2, BUFFER_BYTES, user_event.clone());
    Model { user, provider, user_event, provider_event }
}

const PREEMPTIONS: usize = 3;

/// How an application receives in a model.
#[derive(Clone, Copy)]
enum Way {
    Wait,
    /// With so many polls before it sleeps.
    Hybrid(u32),
    /// Sleeps whatever the last look has found.
    WithoutLastLook,
}

fn receive(
    receiver: &mut Receiver<ModelWords, ModelEvent>,
    event: &ModelEvent,
    way: Way,
) -> Option<Slice> {
    let sleep = || Ok::<_, Broken>(event.wait());
    match way {
        Way::Wait => receiver.wait(sleep).unwrap(),
        Way::Hybrid(polls) => {
            let mut left = polls;
            let polling = || {
                let more = left > 0;
                left = left.saturating_sub(1);
                Ok(more)
            };
            receiver.hybrid(polling, sleep).unwrap()
        }
        Way::WithoutLastLook => loop {
            if let Some(slice) = receiver.poll().unwrap() {
                return Some(slice);
            }
            let _ = receiver.end().prepare_to_sleep();
            event.wait();
            receiver.end().awake();
        },
    }
}

/// Two packets for an application that wants two.
fn two_packets(way: Way) {
    let Model { mut user, mut provider, user_event, .. } = model();
    assert!(user.post(0) && user.post(1));
    user.flush();
    let other = thread::spawn(move || {
        for length in 1..=2 {
            let token = provider.posted().unwrap().unwrap();
            assert!(provider.complete(Slice { length, ..Slice::posted(token) }));
            provider.flush();
        }
    });
    let mut receiver = Receiver::new(user);
    for length in 1..=2 {
        let slice = receive(&mut receiver, &user_event, way).unwrap();
        assert_eq!((u32::from(slice.length), slice.length), (slice.token + 1, length));
    }
    other.join().unwrap();
    assert_eq!(receiver.end().custody().posted(), 0);
    assert_eq!(receiver.end().refusals().total(), 0);
}

#[test]
fn waiting_misses_no_packet() {
    explore(PREEMPTIONS, || two_packets(Way::Wait));
}

#[test]
fn hybrid_receiving_misses_no_packet_between_the_last_poll_and_the_sleep() {
    explore(PREEMPTIONS, || two_packets(Way::Hybrid(1)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_last_look_a_packet_is_missed() {
    explore(PREEMPTIONS, || two_packets(Way::WithoutLastLook));
}

/// A provider that sleeps whenever it has nothing to do, until `done` says that it is over.
fn provide(
    provider: &mut ProviderEnd<ModelWords, ModelEvent>,
    event: &ModelEvent,
    look: bool,
    mut step: impl FnMut(&mut ProviderEnd<ModelWords, ModelEvent>) -> bool,
) {
    while step(provider) {
        let ready = provider.prepare_to_sleep().unwrap();
        if !(look && ready) {
            event.wait();
        }
        provider.awake();
    }
}

/// A driver without buffers sleeps until some are posted, and the application until they are filled.
fn both_sleep(look: bool) {
    let Model { user, mut provider, user_event, provider_event } = model();
    let other = thread::spawn(move || {
        provide(&mut provider, &provider_event, look, |provider| {
            let Some(token) = provider.posted().unwrap() else { return true };
            assert!(provider.complete(Slice { length: 9, ..Slice::posted(token) }));
            provider.flush();
            false
        });
    });
    let mut receiver = Receiver::new(user);
    assert!(receiver.end().post(1));
    let slice = receive(&mut receiver, &user_event, Way::Wait).unwrap();
    assert_eq!((slice.token, slice.length), (1, 9));
    other.join().unwrap();
}

#[test]
fn a_driver_without_buffers_wakes_for_those_that_are_posted() {
    explore(PREEMPTIONS, || both_sleep(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_drivers_last_look_a_posted_buffer_is_missed() {
    explore(PREEMPTIONS, || both_sleep(false));
}

#[test]
fn what_is_to_be_sent_wakes_the_driver_and_comes_back() {
    explore(PREEMPTIONS, || {
        let Model { user, mut provider, user_event, provider_event } = model();
        let other = thread::spawn(move || {
            provide(&mut provider, &provider_event, true, |provider| {
                let Some(slice) = provider.transmit().unwrap() else { return true };
                assert!(provider.sent(slice.token, false));
                provider.flush();
                false
            });
        });
        let mut receiver = Receiver::new(user);
        assert!(receiver.end().transmit(Slice { length: 60, ..Slice::posted(0) }));
        receiver.end().flush();
        loop {
            if let Some(sent) = receiver.sent().unwrap() {
                assert_eq!(sent.token, 0);
                break;
            }
            if !receiver.end().prepare_to_sleep().unwrap() {
                user_event.wait();
            }
            receiver.end().awake();
        }
        other.join().unwrap();
        assert_eq!(receiver.end().custody().sending(), 0);
    });
}

/// What a provider reaches the channel and the user through, until it dies: from then on nothing that it does
/// is seen.
#[derive(Clone)]
struct Mortal<T> {
    live: T,
    /// Stores, and wake-ups, that are left to it.
    left: Arc<AtomicUsize>,
}

impl<T> Mortal<T> {
    fn lives(&self) -> bool {
        let spend = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

impl Words for Mortal<ModelWords> {
    fn len(&self) -> usize {
        self.live.len()
    }
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.live.load(at, order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        if self.lives() {
            self.live.store(at, value, order);
        }
    }
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        if self.lives() { self.live.swap(at, value, order) } else { self.live.load(at, order) }
    }
    fn fence(&self) {
        self.live.fence();
    }
}

impl Wakeup for Mortal<ModelEvent> {
    fn wake(&self) {
        if self.lives() {
            self.live.wake();
        }
    }
}

/// More than a provider's life in the model takes.
const MOST_STORES: usize = 16;

#[derive(Clone, Copy, PartialEq)]
enum Successor {
    Resumes,
    Forgets,
    /// The same, behind one that fills its second buffer first.
    ForgetsAnyOrder,
    /// Goes on without waking anybody for what it finds.
    Silent,
}

/// A provider that fills two buffers and dies after so many stores; then another goes on.
fn provider_dies(stores: usize, successor: Successor) {
    let words = ModelWords::new();
    let (user_event, provider_event) = (ModelEvent::new(), ModelEvent::new());
    let mut user = UserEnd::new(&words, PLACE, 0..2, BUFFER_BYTES, &provider_event);
    assert!(user.post(0) && user.post(1));
    user.flush();
    let event = user_event.clone();
    let other = thread::spawn(move || {
        let left = Arc::new(AtomicUsize::new(stores));
        let mortal = Mortal { live: words.clone(), left: Arc::clone(&left) };
        let bell = Mortal { live: event.clone(), left };
        let mut first = ProviderEnd::new(&mortal, PLACE, 0..2, BUFFER_BYTES, bell);
        if successor == Successor::ForgetsAnyOrder {
            let taken = [first.posted(), first.posted()].map(|token| token.unwrap().unwrap());
            for token in taken.into_iter().rev() {
                assert!(first.complete(Slice::posted(token)));
                first.flush();
            }
        } else {
            for _ in 0..2 {
                let token = first.posted().unwrap().unwrap();
                assert!(first.complete(Slice::posted(token)));
                first.flush();
            }
        }
        let silenced = if successor == Successor::Silent { 0 } else { usize::MAX };
        let left = Arc::new(AtomicUsize::new(silenced));
        let bell = Mortal { live: event, left: Arc::clone(&left) };
        let mut second = ProviderEnd::new(&words, PLACE, 0..2, BUFFER_BYTES, bell);
        let given = second.shown().given;
        let mut held: Vec<u32> = (0..2).skip(given as usize).collect();
        if matches!(successor, Successor::Forgets | Successor::ForgetsAnyOrder) {
            second.forget().unwrap();
            held.clear();
            while let Some(token) = second.posted().unwrap() {
                held.push(token);
            }
        } else {
            let posted = held.clone();
            second.resume(&Held { posted, posts_taken: 2, ..Held::default() }).unwrap();
        }
        second.wake_user();
        left.store(usize::MAX, Ordering::Relaxed);
        for token in held {
            assert!(second.complete(Slice::posted(token)));
        }
        second.flush();
    });
    let mut receiver = Receiver::new(user);
    let mut token = || receive(&mut receiver, &user_event, Way::Wait).unwrap().token;
    let mut tokens = [token(), token()];
    if successor == Successor::ForgetsAnyOrder {
        tokens.sort_unstable();
    }
    assert_eq!(tokens, [0, 1]);
    other.join().unwrap();
    assert_eq!(receiver.end().refusals().total(), 0);
}

fn at_every_store(successor: Successor) {
    for stores in 0..=MOST_STORES {
        explore(PREEMPTIONS, move || provider_dies(stores, successor));
    }
}

#[test]
fn whenever_a_provider_dies_its_successor_misses_nothing_and_wakes_whoever_sleeps() {
    at_every_store(Successor::Resumes);
}

#[test]
fn whenever_a_provider_dies_what_it_had_goes_back_and_whoever_sleeps_is_woken() {
    at_every_store(Successor::Forgets);
}

#[test]
fn whenever_a_provider_of_two_queues_dies_what_it_had_goes_back_once() {
    at_every_store(Successor::ForgetsAnyOrder);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_call_by_the_successor_a_completion_is_missed() {
    at_every_store(Successor::Silent);
}

//! The race between the last look and the sleep of a receiver, and the register ring: the very strategies,
//! sleeper, bell, tally and ring, against a device of which only what matters here is modelled.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::atomic::AtomicU64;
use loom::thread;
use warikomi_clock::{Span, Time};
use warikomi_driver::strategy::{CpuBudget, Next, Receiver, Strategy};
use warikomi_shared::{Bell, Consumer, Producer, RingPlace, Sleeper, Tally, Wakeup, Words};

use crate::event::ModelEvent;
use crate::explore;
use crate::words::ModelWords;

/// Both ends wait for each other by these where real ones spin: a spin is a choice at each turn, and
/// waits that nothing ends are what the checker finds.
#[derive(Clone)]
struct Waits {
    requested: ModelEvent,
    answered: ModelEvent,
}

const REQUESTS: RingPlace = RingPlace { head: 0, tail: 1, entries: 2, capacity: 8 };
const ANSWERED: usize = 18;
const ANSWER: usize = 19;
const INTERRUPTS: usize = 20;
const SLEEPING: usize = 21;
/// Packets that the device has put on the ring.
const PACKETS: usize = 22;
const WORDS: usize = 23;

// What an access does: first word of its entry.
const MASK: u64 = 1;
const ACKNOWLEDGE: u64 = 2;
const READ: u64 = 3;

/// The device: one status bit, its mask, and an interrupt at each rise of both.
struct Device {
    words: ModelWords,
    requests: Consumer<ModelWords>,
    tally: Tally<ModelWords>,
    bell: Bell<ModelWords, ModelEvent>,
    waits: Waits,
    status: bool,
    mask: bool,
    level: bool,
}

impl Device {
    fn update(&mut self) {
        let level = self.status && self.mask;
        if level && !self.level {
            self.tally.add();
            self.bell.ring();
        }
        self.level = level;
    }

    fn serve(&mut self) {
        while let Some([what, value]) = self.requests.pop().unwrap() {
            match what {
                MASK => self.mask = value != 0,
                ACKNOWLEDGE => self.status = false,
                _ => {
                    self.words.store(ANSWER, u64::from(self.mask), Relaxed);
                    self.words.store(ANSWERED, value, Release);
                    self.waits.answered.wake();
                }
            }
            self.requests.release();
            self.update();
        }
    }

    fn receive(&mut self, packets: u64) {
        self.words.store(PACKETS, packets, Release);
        self.status = true;
        self.update();
    }
}

/// The driver's part of `run.rs`, as far as the race goes.
struct Driver {
    words: ModelWords,
    requests: Producer<ModelWords>,
    interrupts: Tally<ModelWords>,
    event: ModelEvent,
    waits: Waits,
    receiver: Receiver,
    reads: u64,
    taken: u64,
    now: Time,
}

impl Driver {
    fn write(&mut self, what: u64, value: u64) {
        while !self.requests.push([what, value]) {
            thread::yield_now();
        }
        self.requests.publish();
        self.waits.requested.wake();
    }

    fn read(&mut self) -> u64 {
        self.reads += 1;
        self.write(READ, self.reads);
        while self.words.load(ANSWERED, Acquire) != self.reads {
            self.waits.answered.wait();
        }
        self.words.load(ANSWER, Relaxed)
    }

    fn poll(&mut self) -> usize {
        let there = self.words.load(PACKETS, Acquire);
        let found = there - self.taken;
        self.taken = there;
        found as usize
    }

    fn arm(&mut self) {
        self.write(ACKNOWLEDGE, 0);
        self.write(MASK, 1);
        assert_eq!(self.read(), 1, "the read comes behind the writes");
        self.receiver.armed();
    }

    fn pass(&mut self) -> Next {
        while self.interrupts.take() {
            if !self.receiver.stays_armed() {
                self.write(MASK, 0);
            }
            self.write(ACKNOWLEDGE, 0);
        }
        let found = self.poll();
        // A pass that finds nothing is late enough for any strategy to sleep.
        self.now += Span::from_us(60);
        self.receiver.next(self.now, found)
    }

    fn rest(&mut self, last_look: bool) {
        let from = self.now;
        let mut sleeper = Sleeper::new(self.words.clone(), SLEEPING);
        let (mut found, mut slept) = (0, false);
        let event = self.event.clone();
        let ready = || {
            self.arm();
            if last_look {
                found = self.poll();
            }
            Ok::<_, ()>(found > 0 || self.interrupts.pending())
        };
        let sleep = || {
            slept = true;
            Ok(event.wait())
        };
        sleeper.sleep_unless(ready, sleep).unwrap();
        if slept {
            self.receiver.slept(from, self.now);
        } else {
            self.receiver.next(self.now, found);
        }
        if !self.receiver.stays_armed() && !self.interrupts.pending() {
            self.write(MASK, 0);
        }
    }
}

const ALL_PACKETS: u64 = 2;

fn new_words() -> ModelWords {
    ModelWords::new(WORDS)
}

/// A driver takes two packets, whenever they come, and ends.
fn two_packets(strategy: Strategy, last_look: bool) {
    let words = new_words();
    let event = ModelEvent::new();
    let waits = Waits { requested: ModelEvent::new(), answered: ModelEvent::new() };
    let mut device = Device {
        words: words.clone(),
        requests: Consumer::new(words.clone(), REQUESTS),
        tally: Tally::new(words.clone(), INTERRUPTS),
        bell: Bell::new(words.clone(), SLEEPING, event.clone()),
        waits: waits.clone(),
        status: false,
        mask: false,
        level: false,
    };
    let mut driver = Driver {
        requests: Producer::new(words.clone(), REQUESTS),
        interrupts: Tally::new(words.clone(), INTERRUPTS),
        event,
        waits: waits.clone(),
        receiver: Receiver::new(strategy, Time::ZERO),
        reads: 0,
        taken: 0,
        now: Time::ZERO,
        words: words.clone(),
    };
    let done = Arc::new(AtomicU64::new(0));
    let driver_done = done.clone();
    let other = thread::spawn(move || {
        for packets in 1..=ALL_PACKETS {
            device.serve();
            device.receive(packets);
        }
        while driver_done.load(Acquire) == 0 {
            device.waits.requested.wait();
            device.serve();
        }
    });
    while driver.taken < ALL_PACKETS {
        match driver.pass() {
            Next::Arm { .. } if driver.taken < ALL_PACKETS => driver.rest(last_look),
            Next::Arm { .. } => {}
            // Only who never sleeps has to let the device run.
            Next::Poll { .. } if strategy == Strategy::Poll => thread::yield_now(),
            Next::Poll { .. } | Next::Yield { .. } => {}
        }
    }
    done.store(1, Release);
    waits.requested.wake();
    other.join().unwrap();
}

#[test]
fn by_interrupt_no_packet_is_slept_through() {
    explore(1, || two_packets(Strategy::Interrupt, true));
}

#[test]
fn by_polling_no_packet_is_missed() {
    explore(1, || two_packets(Strategy::Poll, true));
}

#[test]
fn by_napi_no_packet_is_slept_through() {
    explore(1, || two_packets(Strategy::Napi { budget: 1 }, true));
}

#[test]
fn by_hybrid_no_packet_is_slept_through() {
    explore(1, || two_packets(Strategy::Hybrid { poll_time: Span::from_us(50) }, true));
}

#[test]
fn by_auto_no_packet_is_slept_through() {
    let cpu_budget = CpuBudget::from_ppm(250_000);
    explore(1, move || two_packets(Strategy::Auto { cpu_budget }, true));
}

/// The driver waits for an interrupt that does not come, the device for the driver's end.
#[test]
#[should_panic(expected = "deadlock")]
fn by_napi_without_the_last_look_a_packet_is_slept_through() {
    explore(1, || two_packets(Strategy::Napi { budget: 1 }, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn by_interrupt_without_the_last_look_a_packet_is_slept_through() {
    explore(1, || two_packets(Strategy::Interrupt, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn by_hybrid_without_the_last_look_a_packet_is_slept_through() {
    explore(1, || two_packets(Strategy::Hybrid { poll_time: Span::from_us(50) }, false));
}

#[test]
fn a_read_is_answered_behind_the_writes_before_it() {
    explore(3, || {
        let words = new_words();
        let mut producer = Producer::new(words.clone(), REQUESTS);
        let mut consumer = Consumer::new(words.clone(), REQUESTS);
        let theirs = words.clone();
        let other = thread::spawn(move || {
            let (mut register, mut served) = (0, 0);
            while served < 3 {
                let Some([what, value]) = consumer.pop().unwrap() else {
                    thread::yield_now();
                    continue;
                };
                if what == READ {
                    theirs.store(ANSWER, register, Relaxed);
                    theirs.store(ANSWERED, value, Release);
                } else {
                    register = register * 10 + value;
                }
                served += 1;
                consumer.release();
            }
        });
        for entry in [[MASK, 4], [MASK, 2], [READ, 1]] {
            assert!(producer.push(entry));
            producer.publish();
        }
        while words.load(ANSWERED, Acquire) != 1 {
            thread::yield_now();
        }
        assert_eq!(words.load(ANSWER, Relaxed), 42);
        other.join().unwrap();
    });
}

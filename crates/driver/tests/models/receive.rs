//! The race between the last look and the sleep of a receiver, and the register ring: the very loop of a
//! driver, with strategies, sleeper, bell, tally and ring, against a device of which only what matters here is
//! modelled.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use std::sync::{Arc, LazyLock};

use loom::sync::atomic::AtomicU64;
use loom::thread;
use warikomi_clock::{Span, Time};
use warikomi_driver::device::Window;
use warikomi_driver::run::{Attachment, DriverLoop, Parts, Step};
use warikomi_driver::state::LocalWords;
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_driver::{Buffer, DriverInfo, Received, RxSink, Upper};
use warikomi_pci::attach::layout::{self, bells, orders};
use warikomi_pci::{Mmio, SharedMemory};
use warikomi_shared::{Bell, Consumer, Message, Producer, RingPlace, Tally, Wakeup, Words};
use warikomi_testbench::{NoRegisters, Partial, PartialDriver};

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

const REQUESTS: RingPlace = RingPlace { head: 0, tail: 1, entries: 2, capacity: 8, latest: None };
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

/// The driver of that device.
struct Remote {
    words: ModelWords,
    requests: Producer<ModelWords>,
    waits: Waits,
    reads: u64,
    taken: u64,
    /// Whether the look behind `arm` takes place.
    last_look: bool,
    armed: bool,
}

static INFO: DriverInfo = DriverInfo {
    name: "modelled",
    summary: "",
    devices: &[],
    rx_descriptors: 8,
    tx_descriptors: 0,
    ring_bytes: 0,
    max_buffer_bytes: 64,
    max_frame_bytes: 64,
    most_segment_bytes: 0,
    vectors: 1,
    live: false,
};

impl Remote {
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
}

impl PartialDriver for Remote {
    fn info(&self) -> &'static DriverInfo {
        &INFO
    }
    fn acknowledge(&mut self) {
        self.write(ACKNOWLEDGE, 0);
    }
    fn arm(&mut self) {
        self.write(ACKNOWLEDGE, 0);
        self.write(MASK, 1);
        assert_eq!(self.read(), 1, "the read comes behind the writes");
        self.armed = true;
    }
    fn disarm(&mut self) {
        self.write(MASK, 0);
    }
    fn poll(&mut self, _: usize, sink: &mut dyn RxSink) -> usize {
        if std::mem::take(&mut self.armed) && !self.last_look {
            return 0;
        }
        let there = self.words.load(PACKETS, Acquire);
        let found = there - self.taken;
        for token in self.taken..there {
            let buffer = Buffer::new(0, 64, token as u32).unwrap();
            sink.received(buffer, Received { bytes: 60, checksums_good: false });
        }
        self.taken = there;
        found as usize
    }
}

/// The words of a window: those that the race is about are the model checker's, the others nobody else sees.
#[derive(Clone)]
struct WindowWords {
    model: ModelWords,
    own: LocalWords,
}

impl WindowWords {
    fn modelled(at: usize) -> Option<usize> {
        match at {
            bells::INTERRUPTS => Some(INTERRUPTS),
            bells::SLEEPING => Some(SLEEPING),
            _ => None,
        }
    }
}

impl Words for WindowWords {
    fn len(&self) -> usize {
        self.own.len()
    }
    fn load(&self, at: usize, order: Ordering) -> u64 {
        match Self::modelled(at) {
            Some(at) => self.model.load(at, order),
            None => self.own.load(at, order),
        }
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        match Self::modelled(at) {
            Some(at) => self.model.store(at, value, order),
            None => self.own.store(at, value, order),
        }
    }
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        match Self::modelled(at) {
            Some(at) => self.model.swap(at, value, order),
            None => self.own.swap(at, value, order),
        }
    }
    fn fence(&self) {
        self.model.fence();
    }
}

/// What the loop is attached to.
struct Attached(Window<WindowWords>, NoRegisters);

impl Attachment for Attached {
    type Words = WindowWords;
    fn registers(&mut self) -> &mut dyn Mmio {
        &mut self.1
    }
    fn window(&self) -> &Window<WindowWords> {
        &self.0
    }
    fn take_interrupt(&mut self) -> Option<Message> {
        self.0.take_interrupt(|| 0)
    }
    fn dma(&self) -> (u64, u64) {
        (0, 4_096)
    }
}

/// The layer above only counts.
#[derive(Default)]
struct Counting {
    packets: u64,
}

impl RxSink for Counting {
    fn buffer(&mut self) -> Option<Buffer> {
        None
    }
    fn received(&mut self, buffer: Buffer, _: Received) {
        assert_eq!(u64::from(buffer.token()), self.packets, "in order, each once");
        self.packets += 1;
    }
    fn returned(&mut self, _: Buffer) {}
}

impl Upper for Counting {
    fn flush(&mut self) {}
    fn prepare_to_sleep(&mut self) -> bool {
        false
    }
    fn awake(&mut self) {}
    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

static NO_MEMORY: LazyLock<SharedMemory> =
    LazyLock::new(|| SharedMemory::anonymous(0, 4_096).unwrap());

const ALL_PACKETS: u64 = 2;

fn new_words() -> ModelWords {
    ModelWords::new(WORDS, Some(SLEEPING))
}

/// The loop of a driver takes two packets, whenever they come.
fn drive(strategy: Strategy, driver: Remote, event: &ModelEvent) {
    let own = LocalWords::of(layout::WINDOW_BYTES as usize / 8);
    let at = [orders::STRATEGY, orders::POLL_NS, orders::BUDGET, orders::CPU_BUDGET_PPM];
    at.into_iter().zip(strategy.to_orders()).for_each(|(at, word)| own.store(at, word, Relaxed));
    let window = Window::new(WindowWords { model: driver.words.clone(), own });
    let (mut device, mut upper) = (Attached(window, NoRegisters), Counting::default());
    let (mut now, mut driver) = (Time::ZERO, Partial(driver));
    let mut on =
        Parts { device: &mut device, memory: &*NO_MEMORY, driver: &mut driver, upper: &mut upper };
    let mut driving = DriverLoop::new(&mut on, now).unwrap();
    while on.upper.packets < ALL_PACKETS {
        // A pass that finds nothing is late enough for any strategy to sleep.
        now += Span::from_us(60);
        match driving.step(&mut on, now).unwrap() {
            // Only who never sleeps has to let the device run.
            Step::Again if strategy == Strategy::Poll => thread::yield_now(),
            Step::Again | Step::Yield => {}
            Step::Sleep { .. } => driving.woke(Ok(event.wait())),
            other => panic!("a driver that nobody told to stop comes to {other:?}"),
        }
    }
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
    let driver = Remote {
        requests: Producer::new(words.clone(), REQUESTS),
        waits: waits.clone(),
        reads: 0,
        taken: 0,
        last_look,
        armed: false,
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
    drive(strategy, driver, &event);
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

//! A sender with a bounded send buffer: the very transmitter, completion strategies, sleeper, bell, tally
//! and ring, against a device that completes transfers whenever it likes.
//!
//! Bounds: four packets, a send buffer for one or two of them, two preemptions.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, LazyLock};

use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread;
use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::{
    Bounce, Completion, CostClock, Packet, Thresholds, Transmitter, TransmitterOptions, Work,
};
use warikomi_driver::{DriverError, DriverInfo, Hardware, TxFrame};
use warikomi_pci::SharedMemory;
use warikomi_shared::{Bell, Sleeper, Tally, Words};
use warikomi_testbench::{NoRegisters, Partial, PartialDriver};

use crate::event::ModelEvent;
use crate::explore;
use crate::words::ModelWords;

const PACKET_BYTES: u64 = 2;
const PREEMPTIONS: usize = 2;

const INTERRUPTS: usize = 0;
const SLEEPING: usize = 1;
/// Packets that the device has sent: what ownership bits say.
const SENT: usize = 2;
const WORDS: usize = 3;

/// How the driver learns what has been sent.
#[derive(Clone, Copy, Debug)]
enum Asks {
    /// By ownership bits in memory, which overtake register accesses.
    Memory,
    /// By a register, behind all accesses before it.
    Register,
}

#[derive(Clone, Copy)]
enum Access {
    Mask(bool),
    Acknowledge,
    Push,
    /// How many packets have been sent.
    Read,
}

/// Accesses on their way to the device, in order; their ring is checked elsewhere.
#[derive(Default)]
struct Posted {
    accesses: VecDeque<Access>,
    answer: Option<u64>,
    ended: bool,
}

#[derive(Clone)]
struct Bus(Arc<(Mutex<Posted>, Condvar)>);

impl Bus {
    fn new() -> Bus {
        Bus(Arc::new((Mutex::new(Posted::default()), Condvar::new())))
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.0.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Posted)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }

    fn write(&self, access: Access) {
        self.change(|posted| posted.accesses.push_back(access));
    }

    fn read(&self) -> u64 {
        self.write(Access::Read);
        let mut posted = self.lock();
        loop {
            match posted.answer.take() {
                Some(answer) => return answer,
                None => posted = self.0.1.wait(posted).unwrap(),
            }
        }
    }
}

/// The device: transfers, one status bit, its mask, and an interrupt at each rise of both.
struct Device {
    words: ModelWords,
    bus: Bus,
    tally: Tally<ModelWords>,
    bell: Bell<ModelWords, ModelEvent>,
    pushed: u64,
    sent: u64,
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

    fn serve(&mut self, access: Access) {
        match access {
            Access::Mask(on) => self.mask = on,
            Access::Acknowledge => self.status = false,
            Access::Push => self.pushed += 1,
            Access::Read => {
                let sent = self.sent;
                self.bus.change(|posted| posted.answer = Some(sent));
            }
        }
        self.update();
    }

    /// A transfer ends.
    fn complete(&mut self) {
        self.sent += 1;
        self.words.store(SENT, self.sent, Release);
        self.status = true;
        self.update();
    }

    fn run(&mut self) {
        let bus = self.bus.clone();
        loop {
            let mut posted = bus.lock();
            let next = posted.accesses.pop_front();
            if next.is_none() && self.sent == self.pushed {
                if posted.ended {
                    return;
                }
                drop(bus.0.1.wait(posted).unwrap());
                continue;
            }
            drop(posted);
            match next {
                Some(access) => self.serve(access),
                None => self.complete(),
            }
        }
    }
}

/// The driver of that device: writes are posted.
struct Remote {
    words: ModelWords,
    bus: Bus,
    asks: Asks,
    handed: u64,
    reclaimed: u64,
    armed: bool,
    transmit_interrupts: bool,
}

static INFO: DriverInfo = DriverInfo {
    name: "modelled",
    summary: "",
    devices: &[],
    rx_descriptors: 0,
    tx_descriptors: 8,
    ring_bytes: 0,
    max_buffer_bytes: 0,
    max_frame_bytes: 64,
    most_segment_bytes: 0,
    vectors: 1,
    live: false,
};

impl Remote {
    fn write_mask(&mut self) {
        self.bus.write(Access::Mask(self.armed || self.transmit_interrupts));
    }
}

impl PartialDriver for Remote {
    fn info(&self) -> &'static DriverInfo {
        &INFO
    }
    fn acknowledge(&mut self) {
        self.bus.write(Access::Acknowledge);
    }
    fn arm(&mut self) {
        self.armed = true;
        self.bus.write(Access::Acknowledge);
        self.write_mask();
        self.bus.read();
    }
    fn disarm(&mut self) {
        self.armed = false;
        self.write_mask();
    }
    fn transmit(&mut self, _: TxFrame<'_>) -> bool {
        self.handed += 1;
        self.bus.write(Access::Push);
        true
    }
    fn reclaim(&mut self, sent: &mut dyn FnMut(u32)) -> usize {
        let there = match self.asks {
            Asks::Memory => self.words.load(SENT, Acquire),
            Asks::Register => self.bus.read(),
        };
        assert!(there <= self.handed);
        let found = there - self.reclaimed;
        (self.reclaimed..there).for_each(|token| sent(token as u32));
        self.reclaimed = there;
        found as usize
    }
    fn tx_room(&self) -> usize {
        INFO.tx_descriptors - (self.handed - self.reclaimed) as usize
    }
    fn transmit_interrupts(&mut self, on: bool) {
        self.transmit_interrupts = on;
        if on {
            self.bus.write(Access::Acknowledge);
        }
        self.write_mask();
    }
}

static NO_MEMORY: LazyLock<SharedMemory> =
    LazyLock::new(|| SharedMemory::anonymous(0, 4_096).unwrap());

/// Time stands still: nothing here depends on it.
struct Still;

impl CostClock for Still {
    fn now(&mut self) -> Time {
        Time::ZERO
    }
    fn spend(&mut self, _: Work) {}
}

/// What is explored.
#[derive(Clone, Copy)]
struct Case {
    completion: Completion,
    asks: Asks,
    /// Packets in all, and what the send buffer holds.
    packets: u32,
    room_bytes: u64,
    /// Whether the device is armed and asked before a sleep.
    last_look: bool,
}

/// The sender: as `stack::send::Sender` in a process of its own.
struct Sender {
    case: Case,
    transmitter: Transmitter,
    driver: Partial<Remote>,
    interrupts: Tally<ModelWords>,
    event: ModelEvent,
    handed: u32,
    back: u32,
}

impl Sender {
    fn with<R>(
        &mut self,
        call: impl FnOnce(
            &mut Transmitter,
            &mut Partial<Remote>,
            &mut Hardware<'_>,
            &mut dyn FnMut(u32, Span),
        ) -> Result<R, DriverError>,
    ) -> R {
        let mut hw = Hardware { mmio: &mut NoRegisters, memory: &*NO_MEMORY };
        let back = &mut self.back;
        let mut sent = |token, _| {
            assert_eq!(token, *back, "in order, each once");
            *back += 1;
        };
        let done = call(&mut self.transmitter, &mut self.driver, &mut hw, &mut sent).unwrap();
        let free = self.case.room_bytes - PACKET_BYTES * u64::from(self.handed - self.back);
        let (transmitter, driver) = (&mut self.transmitter, &mut self.driver);
        transmitter.room(driver, &mut hw, &mut Still, free, self.case.room_bytes).unwrap();
        done
    }

    fn run(&mut self) {
        while self.back < self.case.packets {
            while self.interrupts.take() {
                self.with(|transmitter, driver, hw, sent| {
                    transmitter.interrupted(driver, hw, &mut Still, sent)
                });
            }
            let used = PACKET_BYTES * u64::from(self.handed - self.back);
            let room = used + PACKET_BYTES <= self.case.room_bytes;
            if room && self.handed < self.case.packets {
                let packet = Packet { pieces: &[(0, 1)], token: self.handed, segments: None };
                let handed = self.with(|transmitter, driver, hw, sent| {
                    transmitter.send(driver, hw, &mut Still, packet, sent)
                });
                assert!(handed);
                self.handed += 1;
                self.with(|_, _, _, _| Ok(()));
            } else if self.back < self.case.packets {
                self.rest();
            }
        }
    }

    fn rest(&mut self) {
        let mut sleeper = Sleeper::new(self.driver.words.clone(), SLEEPING);
        let event = self.event.clone();
        let look = self.case.last_look && self.transmitter.will_be_interrupted();
        let ready = || {
            let found = look
                && self.with(|transmitter, driver, hw, sent| {
                    transmitter.last_look(driver, hw, &mut Still, sent)
                }) > 0;
            Ok::<_, ()>(found || self.interrupts.pending())
        };
        sleeper.sleep_unless(ready, || Ok(event.wait())).unwrap();
    }
}

fn sends_all(case: Case) {
    let (words, event, bus) =
        (ModelWords::new(WORDS, Some(SLEEPING)), ModelEvent::new(), Bus::new());
    let mut device = Device {
        words: words.clone(),
        bus: bus.clone(),
        tally: Tally::new(words.clone(), INTERRUPTS),
        bell: Bell::new(words.clone(), SLEEPING, event.clone()),
        pushed: 0,
        sent: 0,
        status: false,
        mask: false,
        level: false,
    };
    let mut driver = Partial(Remote {
        words: words.clone(),
        bus: bus.clone(),
        asks: case.asks,
        handed: 0,
        reclaimed: 0,
        armed: false,
        transmit_interrupts: false,
    });
    let options = TransmitterOptions {
        completion: case.completion,
        bounce: Bounce::None,
        alignment_bytes: 1,
        areas: (0, 0),
    };
    let mut hw = Hardware { mmio: &mut NoRegisters, memory: &*NO_MEMORY };
    let transmitter = Transmitter::new(options, &mut driver, &mut hw).unwrap();
    let interrupts = Tally::new(words, INTERRUPTS);
    let mut sender = Sender { case, transmitter, driver, interrupts, event, handed: 0, back: 0 };
    let other = thread::spawn(move || device.run());
    sender.run();
    bus.change(|posted| posted.ended = true);
    other.join().unwrap();
}

fn adaptive(low_percent: u8, high_percent: u8) -> Completion {
    Completion::Adaptive(Thresholds::new(low_percent, high_percent).unwrap())
}

fn case(completion: Completion, asks: Asks, packets: u32, room_bytes: u64) -> Case {
    Case { completion, asks, packets, room_bytes, last_look: true }
}

#[test]
fn by_interrupt_no_completed_packet_is_slept_through() {
    explore(PREEMPTIONS, || sends_all(case(Completion::Interrupt, Asks::Memory, 4, 4)));
    explore(PREEMPTIONS, || sends_all(case(Completion::Interrupt, Asks::Register, 4, 4)));
}

#[test]
fn adaptive_cannot_dead_lock_with_a_send_buffer_of_one_packet() {
    explore(PREEMPTIONS, || sends_all(case(adaptive(25, 50), Asks::Memory, 4, 2)));
    explore(PREEMPTIONS, || sends_all(case(adaptive(25, 50), Asks::Register, 4, 2)));
}

/// Interrupts are switched on by the first packet, and off when everything is back.
#[test]
fn adaptive_cannot_dead_lock_when_it_switches_in_between() {
    explore(PREEMPTIONS, || sends_all(case(adaptive(75, 100), Asks::Memory, 4, 4)));
    explore(PREEMPTIONS, || sends_all(case(adaptive(75, 100), Asks::Register, 4, 4)));
}

/// With less than half of the room free there are interrupts; the register is read before each packet otherwise.
#[test]
fn adaptive_as_published_cannot_dead_lock_either() {
    let case = |low, high, room| {
        let published = Completion::AdaptivePublished(Thresholds::new(low, high).unwrap());
        case(published, Asks::Register, 4, room)
    };
    explore(PREEMPTIONS, move || sends_all(case(25, 50, 2)));
    explore(PREEMPTIONS, move || sends_all(case(75, 100, 4)));
}

/// There is more free space than the threshold, and less than the next packet needs.
#[test]
fn adaptive_cannot_dead_lock_below_its_threshold() {
    explore(PREEMPTIONS, || sends_all(case(adaptive(25, 50), Asks::Memory, 4, 3)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn free_of_interrupts_a_full_send_buffer_dead_locks() {
    explore(PREEMPTIONS, || sends_all(case(Completion::InterruptFree, Asks::Memory, 2, 2)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn by_interrupt_without_the_last_look_a_packet_is_slept_through() {
    let case = Case { last_look: false, ..case(Completion::Interrupt, Asks::Memory, 4, 4) };
    explore(PREEMPTIONS, move || sends_all(case));
}

#[test]
#[should_panic(expected = "deadlock")]
fn adaptive_without_the_last_look_dead_locks() {
    let case = Case { last_look: false, ..case(adaptive(25, 50), Asks::Memory, 2, 2) };
    explore(PREEMPTIONS, move || sends_all(case));
}

//! The attachment through a PCI bridge of our own in the guest (`kernel/bridge`).
//!
//! Register accesses come through a ring in the guest's memory, and are safe at any moment: the bridge locks
//! it, and a handler waits until an access under way has ended. Interrupts are numbers in another ring. A
//! guest that has nothing else to do looks at it by itself, or sleeps until it is signalled, by the one request
//! that a vhost-user device has for its driver: that its configuration has changed. A guest that does something
//! else looks behind each access, and is signalled if it makes none for a while.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use warikomi_clock::{Span, Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::attach::bridge as layout;
use warikomi_pci::{Host, Interrupt, IntrLine, SharedMemory};
use warikomi_shared::{Bell, Consumer, MessageSender, Rung, SharedWords, Wakeup};

use super::commands::Served;
use super::port::Port;
use super::vhost_user::CONFIGURATION_CHANGED;
use crate::TargetCounters;

/// Accesses served in one pass: many, because the guest spins for some of them, but bounded, so that a guest
/// cannot keep the injector waiting.
const ACCESSES_PER_PASS: usize = 64;

/// How long the guest waits for the answer to an access before it gives the card up: longer than a busy
/// machine may take our core for.
const ACCESS_PATIENCE: Duration = Duration::from_secs(10);

/// How long a guest that does something else may leave its interrupts alone until it is signalled: about what
/// a signal costs both sides, so that at worst twice the least is paid. That differs by machine; sending takes
/// about a fourth of it, and is timed.
const SENDS_OF_PATIENCE: u64 = 4;
const BUSY_PATIENCE_AT_MOST: Span = Span::from_us(50);
/// One in so many is the weight of the last send in what a send takes.
const SENDS_KEPT: u64 = 8;

/// How long a guest that was signalled may leave its interrupts alone until it is signalled again: on 6.1 it
/// can miss a signal that comes as it falls asleep. A guest that runs takes less.
const RESIGNAL_AFTER: Span = Span::from_us(60);
const RESIGNAL_AT_MOST_AFTER: Span = Span::from_ms(4);

/// The line for requests of ours to the guest's virtio driver.
struct Requests {
    line: File,
    clock: TscClock,
    /// How patient to be with a busy guest.
    busy_patience: Rc<Cell<Span>>,
}

impl Wakeup for Requests {
    fn wake(&self) {
        let begun = self.clock.now();
        // The line does not block, and while it is full a signal is on its way already.
        let _ = (&self.line).write(&CONFIGURATION_CHANGED);
        let now = self.clock.now().since(begun) * SENDS_OF_PATIENCE;
        let patience = (self.busy_patience.get() * (SENDS_KEPT - 1) + now) / SENDS_KEPT;
        self.busy_patience.set(patience.min(BUSY_PATIENCE_AT_MOST));
    }
}

/// How long the poller of a guest may take from one look to the next: what is longer, it notes.
const LOOK: Duration = Duration::from_micros(2);
/// The same if it took interrupts, with all that a driver and the network stack do then.
const WORK: Duration = Duration::from_micros(20);

/// A guest's window, and what is behind it.
pub(super) struct BridgePort {
    memory: SharedMemory,
    words: SharedWords,
    requests: Consumer<SharedWords>,
    line: BridgeLine,
    corrupt: u64,
    /// The guest's hiccups that have been taken.
    hiccups_taken: u64,
}

/// The interrupts to the guest.
struct BridgeLine {
    words: SharedWords,
    messages: MessageSender<SharedWords>,
    bell: Bell<SharedWords, Requests>,
    pin: bool,
    /// How often the card was pulled out or plugged in.
    plugs: u64,
    /// How often the pin was asserted.
    pins: u64,
    resignalled: u64,
    now: Time,
    /// Since when the guest owes us a look, until it is known to have looked.
    waiting_since: Option<Time>,
    /// Whether it was signalled since.
    signalled: bool,
    patience: Span,
    busy_patience: Rc<Cell<Span>>,
}

impl BridgePort {
    /// Behind the window of `words`, whose header has been looked at.
    pub(super) fn new(
        memory: SharedMemory,
        words: SharedWords,
        requests: File,
        clock: &TscClock,
        polling: bool,
    ) -> BridgePort {
        for (word, span) in [
            (layout::header::PATIENCE_TICKS, ACCESS_PATIENCE),
            (layout::header::LOOK_TICKS, LOOK),
            (layout::header::WORK_TICKS, WORK),
        ] {
            let ticks = span.as_secs_f64() * clock.ticks_per_second();
            words[word].store(ticks as u64, Release);
        }
        words[layout::header::POLLING].store(polling.into(), Release);
        let busy_patience = Rc::new(Cell::new(BUSY_PATIENCE_AT_MOST));
        let signals =
            Requests { line: requests, clock: *clock, busy_patience: Rc::clone(&busy_patience) };
        let mut bell = Bell::new(words.clone(), layout::SLEEPING, signals);
        // It may have looked whether it shall poll before we said so.
        bell.ring_unconditionally();
        let line = BridgeLine {
            messages: MessageSender::new(words.clone(), layout::MESSAGE_RING),
            bell,
            words: words.clone(),
            pin: false,
            plugs: 0,
            pins: 0,
            resignalled: 0,
            now: Time::ZERO,
            waiting_since: None,
            signalled: false,
            patience: RESIGNAL_AFTER,
            busy_patience,
        };
        let requests = Consumer::new(words.clone(), layout::REQUESTS);
        let hiccups_taken = words[layout::HICCUPS].load(Acquire);
        BridgePort { memory, words, requests, line, corrupt: 0, hiccups_taken }
    }
}

impl Port for BridgePort {
    #[inline]
    fn poll(&mut self, nic: &mut dyn Nic, clock: &TscClock, now: Time) -> Served {
        let mut served = Served::default();
        self.line.now = now;
        for _ in 0..ACCESSES_PER_PASS {
            let entry = match self.requests.pop() {
                Ok(None) => break,
                Ok(Some(entry)) => entry,
                Err(_) => {
                    self.requests.resynchronise();
                    self.corrupt += 1;
                    break;
                }
            };
            let now = clock.now();
            self.line.now = now;
            let BridgePort { memory, words, line, .. } = self;
            let mut host = Host { now, memory, interrupts: line };
            let made_sense = layout::ANSWERS.execute(entry, nic, &mut host, words);
            served.accesses += u64::from(made_sense);
            served.malformed += u64::from(!made_sense);
            // After each: a level holds for a guest whose accesses have all been carried out.
            self.requests.release();
        }
        self.line.signal_if_overlooked();
        served
    }

    #[inline]
    fn host(&mut self, now: Time) -> Host<'_> {
        self.line.now = now;
        Host { now, memory: &self.memory, interrupts: &mut self.line }
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    #[inline]
    fn signals(&self) -> u64 {
        self.line.bell.wakeups()
    }

    fn take_hiccups(&mut self, each: &mut dyn FnMut(u64, u64)) {
        let count = self.words[layout::HICCUPS].load(Acquire);
        let kept = layout::HICCUPS_CAPACITY as u64;
        // Of a count that makes no sense no more is read than there can be.
        let first = self.hiccups_taken.max(count.saturating_sub(kept));
        for number in first..count {
            let at = layout::HICCUP_TIMES + (number % kept) as usize * 2;
            each(self.words[at].load(Relaxed), self.words[at + 1].load(Relaxed));
        }
        self.hiccups_taken = count;
    }

    fn counters(&self) -> TargetCounters {
        TargetCounters {
            interrupts_sent: self.line.messages.sent() + self.line.pins,
            resignalled: self.line.resignalled,
            corrupt_rings: self.corrupt,
            ..TargetCounters::default()
        }
    }
}

impl BridgeLine {
    /// For an interrupt behind this number of messages.
    #[inline]
    fn ring(&mut self, before: u64) {
        match self.bell.ring() {
            Rung::Looks => {}
            Rung::Busy => self.be_patient(before),
            Rung::Woken => self.wait(true, RESIGNAL_AFTER),
        }
    }

    fn wait(&mut self, signalled: bool, patience: Span) {
        self.waiting_since = Some(self.now);
        (self.signalled, self.patience) = (signalled, patience);
    }

    /// Waits for what was just sent, unless something before it is still waited for.
    fn be_patient(&mut self, before: u64) {
        if self.waiting_since.is_none() || self.words[layout::TAKEN].load(Acquire) == before {
            self.wait(false, self.busy_patience.get());
        }
    }

    /// Whether the guest has interrupts to take.
    #[inline]
    fn is_pending(&self) -> bool {
        self.pin || self.words[layout::TAKEN].load(Acquire) != self.messages.sent()
    }

    #[inline]
    fn signal_if_overlooked(&mut self) {
        if self.waiting_since.is_some_and(|since| self.now.since(since) > self.patience) {
            self.signal_again();
        }
    }

    #[cold]
    fn signal_again(&mut self) {
        if !self.is_pending() {
            self.waiting_since = None;
            return;
        }
        self.bell.ring_unconditionally();
        if self.signalled {
            self.resignalled += 1;
            self.wait(true, (self.patience * 2).min(RESIGNAL_AT_MOST_AFTER));
        } else {
            self.wait(true, RESIGNAL_AFTER);
        }
    }
}

impl IntrLine for BridgeLine {
    #[inline]
    fn signal(&mut self, interrupt: Interrupt) {
        let before = self.messages.sent();
        match interrupt {
            Interrupt::Msi(message) => {
                // The guest's bridge gives each vector its number as data.
                self.messages.send(message.data as u16);
            }
            Interrupt::Intx(level) => {
                self.pin = level;
                self.words[layout::PIN_LEVEL].store(level.into(), Release);
                if !level {
                    return;
                }
                self.pins += 1;
            }
        }
        self.ring(before);
    }

    fn has_hotplug(&self) -> bool {
        true
    }

    fn set_present(&mut self, present: bool) {
        let is_in = self.plugs.is_multiple_of(2);
        if present == is_in {
            return;
        }
        // A count, because a guest that is slow must not take two changes for none.
        self.plugs += 1;
        self.words[layout::header::PLUGS].store(self.plugs, Release);
        // A guest that polls does not look at it.
        self.bell.ring_unconditionally();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;
    use warikomi_pci::attach::{Access, Operation, Space};
    use warikomi_pci::{MsiMessage, Width};
    use warikomi_shared::{MessageReceiver, Producer, create_region};

    /// A guest by hand, and a port behind its window.
    struct Bench {
        words: SharedWords,
        guest: Producer<SharedWords>,
        messages: MessageReceiver<SharedWords>,
        signals: UnixStream,
        port: BridgePort,
        nic: Box<dyn Nic>,
        clock: TscClock,
    }

    impl Bench {
        fn new() -> Bench {
            let file = create_region("window", layout::WINDOW_BYTES as u64).unwrap();
            let words = SharedWords::map(file, 0, layout::WINDOW_BYTES).unwrap();
            words[layout::SLEEPING].store(1, Release);
            let (ours, signals) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            signals.set_nonblocking(true).unwrap();
            let ours = File::from(std::os::fd::OwnedFd::from(ours));
            let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
            let clock = TscClock::with_frequency(0, 1e9);
            let mut bench = Bench {
                guest: Producer::new(words.clone(), layout::REQUESTS),
                messages: MessageReceiver::new(words.clone(), layout::MESSAGE_RING),
                port: BridgePort::new(memory, words.clone(), ours, &clock, true),
                nic: warikomi_testbench::card("rtl8168"),
                words,
                signals,
                clock,
            };
            assert_eq!(bench.signals_since(), 1, "a new guest is told to look at the header");
            bench
        }

        /// A guest that does something else, and has 10 µs to look by itself.
        fn busy() -> Bench {
            let bench = Bench::new();
            bench.words[layout::SLEEPING].store(layout::BUSY, Release);
            bench.port.line.busy_patience.set(Span::from_us(10));
            bench
        }

        fn ask(&mut self, space: Space, offset: u32, width: Width, operation: Operation) {
            let access = Access { space, offset, width, operation };
            assert!(self.guest.push(access.to_entry()));
            self.guest.publish();
        }

        fn poll(&mut self, us: u64) -> Served {
            self.port.poll(&mut *self.nic, &self.clock, at(us))
        }

        fn signal(&mut self, us: u64, interrupt: Interrupt) {
            self.port.host(at(us)).interrupts.signal(interrupt);
        }

        /// Whole signals that have come since this was last asked.
        fn signals_since(&mut self) -> usize {
            let mut bytes = [0; 4096];
            let read = self.signals.read(&mut bytes).unwrap_or(0);
            assert!(bytes[..read].chunks(12).all(|signal| signal == CONFIGURATION_CHANGED));
            read / 12
        }
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn message(vector: u32) -> Interrupt {
        Interrupt::Msi(MsiMessage { address: 0xa0000, data: vector })
    }

    #[test]
    fn a_read_is_answered_behind_the_writes_before_it() {
        let mut bench = Bench::new();
        bench.ask(Space::Config, 4, Width::B2, Operation::Write(6));
        bench.ask(Space::Bar(2), 8, Width::B4, Operation::Write(0x1234_5678));
        bench.ask(Space::Bar(2), 8, Width::B4, Operation::Read(1));
        assert_eq!(bench.poll(1).accesses, 3);
        assert_eq!(bench.words[layout::ANSWERED].load(Acquire), 1);
        assert_eq!(bench.words[layout::ANSWER].load(Relaxed), 0x1234_5678);
        assert_eq!(bench.guest.waiting(), 0);
    }

    #[test]
    fn one_pass_serves_a_bounded_amount() {
        let mut bench = Bench::new();
        for number in 1..=2 * ACCESSES_PER_PASS as u64 + 1 {
            bench.ask(Space::Config, 0, Width::B4, Operation::Read(number));
        }
        let served = [1, 2, 3, 4].map(|us| bench.poll(us).accesses as usize);
        assert_eq!(served, [ACCESSES_PER_PASS, ACCESSES_PER_PASS, 1, 0]);
    }

    #[test]
    fn a_guest_that_looks_by_itself_is_not_signalled_and_one_that_sleeps_is_once() {
        let mut bench = Bench::new();
        bench.words[layout::SLEEPING].store(0, Release);
        bench.signal(1, message(3));
        assert_eq!((bench.messages.take(), bench.signals_since()), (Some(3), 0));
        bench.words[layout::SLEEPING].store(1, Release);
        (4..7).for_each(|vector| bench.signal(2, message(vector)));
        let taken: Vec<_> = std::iter::from_fn(|| bench.messages.take()).collect();
        assert_eq!((taken, bench.signals_since()), (vec![4, 5, 6], 1));
        assert_eq!(bench.port.counters().interrupts_sent, 4);
    }

    #[test]
    fn a_guest_that_is_busy_is_signalled_if_it_does_not_look_in_time() {
        let mut bench = Bench::busy();
        bench.signal(100, message(3));
        bench.poll(110);
        assert_eq!(bench.signals_since(), 0, "it has its time");
        bench.words[layout::TAKEN].store(1, Release);
        bench.poll(111);
        assert_eq!(bench.signals_since(), 0, "it has looked");
        bench.signal(112, message(3));
        bench.signal(113, Interrupt::Intx(true));
        (113..124).for_each(|us| _ = bench.poll(us));
        assert_eq!(bench.signals_since(), 1, "10 µs behind the first");
        (124..184).for_each(|us| _ = bench.poll(us));
        assert_eq!((bench.signals_since(), bench.port.counters().resignalled), (0, 0));
        bench.poll(184);
        assert_eq!((bench.signals_since(), bench.port.counters().resignalled), (1, 1));
    }

    #[test]
    fn the_patience_with_a_busy_guest_is_of_the_order_of_a_signal() {
        let mut bench = Bench::new();
        let patience = |bench: &Bench| bench.port.line.busy_patience.get();
        for us in 0..1_000 {
            assert!(patience(&bench) <= BUSY_PATIENCE_AT_MOST);
            bench.words[layout::SLEEPING].store(layout::SLEEPS, Release);
            bench.signal(us, message(0));
        }
        assert!(patience(&bench) > Span::ZERO);
    }

    #[test]
    fn a_busy_guest_has_its_time_for_each_interrupt_anew() {
        let mut bench = Bench::busy();
        bench.signal(100, message(3));
        bench.words[layout::TAKEN].store(1, Release);
        bench.signal(109, message(3));
        bench.poll(119);
        assert_eq!(bench.signals_since(), 0);
        bench.poll(120);
        assert_eq!(bench.signals_since(), 1);
    }

    #[test]
    fn an_interrupt_that_is_overlooked_is_signalled_again_ever_more_rarely() {
        let mut bench = Bench::new();
        bench.signal(100, message(0));
        assert_eq!(bench.signals_since(), 1);
        bench.poll(159);
        assert_eq!(bench.signals_since(), 0, "a guest that runs takes so long");
        (161..281).for_each(|us| _ = bench.poll(us));
        assert_eq!(bench.signals_since(), 1, "after 60 µs, and not for 120 more");
        bench.words[layout::TAKEN].store(1, Release);
        (282..5_000).for_each(|us| _ = bench.poll(us));
        assert_eq!((bench.signals_since(), bench.port.counters().resignalled), (0, 1));
    }

    #[test]
    fn the_latest_message_stands_beside_the_count() {
        let mut bench = Bench::new();
        for (sent, vector) in [(1, 7), (2, 0), (3, 0x1_0009)] {
            bench.signal(1, message(vector));
            assert_eq!(bench.words[layout::INTERRUPTS].load(Acquire), sent);
            let latest = bench.words[layout::LATEST].load(Acquire);
            assert_eq!(latest, (sent - 1) << 16 | u64::from(vector & 0xffff));
        }
    }

    #[test]
    fn hiccups_are_taken_once_each_and_of_too_many_the_last_ones() {
        let mut bench = Bench::new();
        let say = |bench: &mut Bench, number: u64| {
            let at = layout::HICCUP_TIMES + (number as usize % layout::HICCUPS_CAPACITY) * 2;
            bench.words[at].store(number * 10, Relaxed);
            bench.words[at + 1].store(number * 10 + 5, Relaxed);
            bench.words[layout::HICCUPS].store(number + 1, Release);
        };
        let taken = |bench: &mut Bench| {
            let mut taken = Vec::new();
            bench.port.take_hiccups(&mut |from, until| taken.push((from, until)));
            taken
        };
        (0..2).for_each(|number| say(&mut bench, number));
        assert_eq!(taken(&mut bench), [(0, 5), (10, 15)]);
        assert_eq!(taken(&mut bench), []);
        (2..1_000).for_each(|number| say(&mut bench, number));
        let last = taken(&mut bench);
        assert_eq!((last.len(), last[0]), (layout::HICCUPS_CAPACITY, (7_440, 7_445)));
        bench.words[layout::HICCUPS].store(3, Release);
        assert_eq!(taken(&mut bench), [], "a count that went back");
        bench.words[layout::HICCUPS].store(u64::MAX, Release);
        assert!(taken(&mut bench).len() <= layout::HICCUPS_CAPACITY);
    }

    #[test]
    fn the_pin_is_a_level() {
        let mut bench = Bench::new();
        bench.signal(1, Interrupt::Intx(true));
        assert_eq!((bench.words[layout::PIN_LEVEL].load(Acquire), bench.signals_since()), (1, 1));
        bench.signal(2, Interrupt::Intx(false));
        assert_eq!((bench.words[layout::PIN_LEVEL].load(Acquire), bench.signals_since()), (0, 0));
        let counters = bench.port.counters();
        assert_eq!((counters.interrupts_sent, counters.intx_undeliverable), (1, 0));
    }

    #[test]
    fn a_guest_is_told_of_each_change_of_its_slot_whether_or_not_it_sleeps() {
        let mut bench = Bench::new();
        bench.words[layout::SLEEPING].store(0, Release);
        for (present, plugs, signals) in [(true, 0, 0), (false, 1, 1), (false, 1, 0), (true, 2, 1)]
        {
            bench.port.host(at(1)).interrupts.set_present(present);
            assert_eq!(bench.words[layout::header::PLUGS].load(Acquire), plugs);
            assert_eq!(bench.signals_since(), signals);
        }
    }

    #[test]
    fn a_full_line_does_not_stop_us() {
        let mut bench = Bench::new();
        for us in 0..100_000 {
            bench.words[layout::SLEEPING].store(1, Release);
            bench.signal(us, message(0));
        }
        assert_eq!(bench.port.counters().interrupts_sent, 100_000);
    }

    #[test]
    fn a_wild_count_is_skipped_and_the_ring_works_on() {
        let mut bench = Bench::new();
        for head in [513, u64::MAX, 1 << 63] {
            let before = bench.words[layout::REQUESTS_TAIL].load(Relaxed);
            bench.words[layout::REQUESTS_HEAD].store(before.wrapping_add(head), Release);
            assert_eq!(bench.poll(1).accesses, 0);
        }
        assert_eq!(bench.port.counters().corrupt_rings, 3);
        bench.guest = Producer::new(bench.words.clone(), layout::REQUESTS);
        bench.ask(Space::Config, 0, Width::B4, Operation::Read(7));
        bench.poll(2);
        assert_eq!(bench.words[layout::ANSWER].load(Relaxed), 0x8168_10ec);
    }

    proptest! {
        /// A guest that writes anything anywhere costs a bounded amount of work, and no panic.
        #[test]
        fn whatever_is_written_is_survived(
            writes in prop::collection::vec(
                (0usize..layout::WINDOW_BYTES / 8, any::<u64>(), 0u8..4), 0..300),
        ) {
            let mut bench = Bench::new();
            for (us, (at, value, then)) in (0..).zip(writes) {
                bench.words[at].store(value, Release);
                match then {
                    0 => drop(bench.poll(us)),
                    1 => bench.signal(us, message(value as u32)),
                    2 => bench.signal(us, Interrupt::Intx(value & 1 == 0)),
                    _ => {}
                }
            }
        }
    }
}

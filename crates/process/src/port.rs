//! The support side's end of the region: register accesses in, interrupts out, times of handlers in.
//!
//! A pass that finds nothing loads one word. Nothing that the driver writes is believed: entries are
//! decoded, counts are bounded, and what makes no sense is counted and skipped.

use std::os::fd::OwnedFd;

use warikomi_clock::{Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::attach::layout;

use warikomi_pci::{Host, IntrLine, SharedMemory};
use warikomi_shared::{Consumer, Entry, SharedWords};
use warikomi_target::TargetCounters;

use super::line::{LineEnd, MessageLine};

/// Accesses served in one pass: enough to keep up, and bounded, so that a driver cannot keep the
/// injector waiting.
const ACCESSES_PER_PASS: usize = 32;

/// Handlers whose times wait before a pass takes some up by itself: seldom, because each takes a
/// cache line from the driver's core.
const STAMPS_LEFT_WAITING: u64 = 1_024;

/// Times taken up by one pass.
const STAMPS_PER_PASS: u64 = 16;

/// Our end of one driver's window.
pub(super) struct WindowEnd {
    accesses: AccessEnd,
    interrupts: LineEnd,
}

/// Where register accesses come in and answers go out.
struct AccessEnd {
    words: SharedWords,
    requests: Consumer<SharedWords>,
}

impl WindowEnd {
    /// Our end of a window whose driver sleeps on the pipe that `wakeup` is the writing end of.
    pub(super) fn new(words: SharedWords, wakeup: OwnedFd) -> WindowEnd {
        let requests = Consumer::new(words.clone(), layout::REQUESTS);
        WindowEnd {
            interrupts: LineEnd::new(words.clone(), wakeup),
            accesses: AccessEnd { words, requests },
        }
    }

    /// Drops the accesses that the driver has asked for; how many.
    pub(super) fn discard(&mut self) -> u64 {
        let requests = &mut self.accesses.requests;
        let dropped = requests.look().unwrap_or(1);
        if dropped > 0 {
            requests.resynchronise();
        }
        dropped as u64
    }
}

/// What a device has whichever driver it has, with our end of the window of the driver that is served.
pub(super) struct Port {
    pub(super) memory: SharedMemory,
    pub(super) line: MessageLine,
    accesses: AccessEnd,
    clock: TscClock,
    counters: TargetCounters,
}

impl Port {
    /// For a device with so many vectors.
    pub(super) fn new(end: WindowEnd, memory: SharedMemory, clock: TscClock, vectors: u16) -> Port {
        Port {
            memory,
            line: MessageLine::new(end.interrupts, clock, vectors),
            accesses: end.accesses,
            clock,
            counters: TargetCounters::default(),
        }
    }

    /// What the card may use during a call at `now`. A driver here arms its interrupt with a read, and looks at its ring
    /// behind that: what it acknowledges before is known to it.
    #[inline]
    pub(super) fn host(&mut self, now: Time) -> Host<'_> {
        Host { now, memory: &self.memory, interrupts: &mut self.line, looks: None }
    }

    /// Serves what the driver has asked for up to now, and from then on another driver; our end of the
    /// window before.
    pub(super) fn turn_to(&mut self, end: WindowEnd, nic: &mut dyn Nic) -> WindowEnd {
        for _ in 0..layout::REQUESTS.capacity.div_ceil(ACCESSES_PER_PASS) {
            self.serve(nic);
        }
        self.take_stamps(nic, layout::STAMPS_CAPACITY as u64);
        WindowEnd {
            accesses: std::mem::replace(&mut self.accesses, end.accesses),
            interrupts: self.line.turn_to(end.interrupts),
        }
    }

    /// Serves what the driver has asked for, a bounded amount of it; how much that was.
    #[inline]
    pub(super) fn serve(&mut self, nic: &mut dyn Nic) -> usize {
        let mut served = 0;
        while served < ACCESSES_PER_PASS {
            match self.accesses.requests.pop() {
                Ok(None) => break,
                Ok(Some(entry)) => self.execute(entry, nic),
                Err(_) => {
                    self.accesses.requests.resynchronise();
                    self.counters.corrupt_rings += 1;
                    break;
                }
            }
            served += 1;
        }
        if served > 0 {
            self.accesses.requests.release();
        }
        served
    }

    #[inline]
    fn execute(&mut self, entry: Entry, nic: &mut dyn Nic) {
        let (now, interrupts): (_, &mut dyn IntrLine) = (self.clock.now(), &mut self.line);
        let mut host = Host { now, memory: &self.memory, interrupts, looks: None };
        let made_sense = layout::ANSWERS.execute(entry, nic, &mut host, &self.accesses.words);
        self.counters.accesses += u64::from(made_sense);
        self.counters.malformed += u64::from(!made_sense);
    }

    /// Takes some times of handlers up, if many wait.
    #[inline]
    pub(super) fn take_some_stamps(&mut self, nic: &mut dyn Nic) {
        if self.line.unreported_handlers() >= STAMPS_LEFT_WAITING {
            self.take_stamps(nic, STAMPS_PER_PASS);
        }
    }

    /// Takes up at most `limit` times of handlers.
    #[cold]
    pub(super) fn take_stamps(&mut self, nic: &mut dyn Nic, limit: u64) {
        self.counters.bad_stamps += self.line.take_stamps(nic.probe(), limit);
    }

    /// Counts since the start.
    pub(super) fn counters(&self) -> TargetCounters {
        TargetCounters { interrupts_sent: self.line.sent(), intx_undeliverable: 0, ..self.counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::for_tests;
    use proptest::prelude::*;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use warikomi_clock::read_tsc;
    use warikomi_pci::attach::layout::bells;
    use warikomi_pci::attach::{Access, Operation, Space};
    use warikomi_pci::{Interrupt, MsiMessage, Width};
    use warikomi_shared::{Producer, Tally, Words};

    const MESSAGE: Interrupt = Interrupt::Msi(MsiMessage { address: 0, data: 1 });

    struct Bench {
        words: SharedWords,
        driver: Producer<SharedWords>,
        port: Port,
        nic: Box<dyn Nic>,
    }

    impl Bench {
        fn new() -> Bench {
            let (window, memory) = for_tests();
            let (_, event) = nix::unistd::pipe().unwrap();
            let clock = TscClock::with_frequency(read_tsc(), 1e9);
            let mut nic = warikomi_testbench::card("rtl8168");
            nic.probe().handlers_tell();
            let words = window.words;
            Bench {
                driver: Producer::new(words.clone(), layout::REQUESTS),
                port: Port::new(WindowEnd::new(words.clone(), event), memory.memory, clock, 1),
                words,
                nic,
            }
        }

        fn ask(&mut self, space: Space, offset: u32, width: Width, operation: Operation) {
            let access = Access { space, offset, width, operation };
            assert!(self.driver.push(access.to_entry()));
            self.driver.publish();
        }

        fn answer(&self) -> (u64, u64) {
            let number = self.words[bells::ANSWERED].load(Acquire);
            (number, self.words[bells::ANSWER].load(Relaxed))
        }
    }

    #[test]
    fn a_read_is_answered_behind_the_writes_before_it() {
        let mut bench = Bench::new();
        // Memory decoding on, then the multicast filter, which takes any value.
        bench.ask(Space::Config, 4, Width::B2, Operation::Write(6));
        bench.ask(Space::Bar(2), 8, Width::B4, Operation::Write(0x1234_5678));
        bench.ask(Space::Bar(2), 8, Width::B4, Operation::Read(1));
        assert_eq!(bench.port.serve(&mut *bench.nic), 3);
        assert_eq!(bench.answer(), (1, 0x1234_5678));
        bench.ask(Space::Config, 0, Width::B4, Operation::Read(2));
        bench.port.serve(&mut *bench.nic);
        assert_eq!(bench.answer(), (2, 0x8168_10ec));
        assert_eq!(bench.driver.waiting(), 0);
        assert_eq!(bench.port.counters().accesses, 4);
    }

    #[test]
    fn one_pass_serves_a_bounded_amount() {
        let mut bench = Bench::new();
        for number in 1..=2 * ACCESSES_PER_PASS as u64 + 1 {
            bench.ask(Space::Config, 0, Width::B4, Operation::Read(number));
        }
        let mut passes = [0; 4];
        passes.fill_with(|| bench.port.serve(&mut *bench.nic));
        assert_eq!(passes, [ACCESSES_PER_PASS, ACCESSES_PER_PASS, 1, 0]);
    }

    #[test]
    fn a_wild_count_is_skipped_and_the_ring_works_on() {
        let mut bench = Bench::new();
        for head in [513, u64::MAX, 1 << 63] {
            let before = bench.words[bells::REQUESTS_TAIL].load(Relaxed);
            bench.words[bells::REQUESTS_HEAD].store(before.wrapping_add(head), Release);
            assert_eq!(bench.port.serve(&mut *bench.nic), 0);
        }
        assert_eq!(bench.port.counters().corrupt_rings, 3);
        bench.driver = Producer::new(bench.words.clone(), layout::REQUESTS);
        bench.ask(Space::Config, 0, Width::B4, Operation::Read(7));
        bench.port.serve(&mut *bench.nic);
        assert_eq!(bench.answer(), (7, 0x8168_10ec));
    }

    #[test]
    fn every_message_is_counted_and_its_handler_found() {
        let mut bench = Bench::new();
        bench.port.line.log(2);
        for _ in 0..2 {
            bench.port.line.signal(MESSAGE);
        }
        bench.port.line.signal(Interrupt::Intx(true));
        bench.port.line.signal(Interrupt::Intx(false));
        let mut seen = Tally::new(bench.words.clone(), bells::INTERRUPTS);
        assert!(!seen.pending(), "a tally begins where the count stands");
        assert_eq!(bench.words[bells::INTERRUPTS].load(Relaxed), 3);
        let stamps: Vec<u64> = (0..3).map(|_| read_tsc()).collect();
        for (at, stamp) in stamps.iter().enumerate() {
            bench.words[layout::STAMPS + at].store(*stamp, Relaxed);
        }
        bench.words[bells::STAMPED].store(3, Release);
        bench.port.take_stamps(&mut *bench.nic, 100);
        let log = bench.port.line.take_log();
        let clock = bench.port.clock;
        let handled: Vec<_> = log.iter().map(|record| record.handled).collect();
        assert_eq!(handled, [clock.at(stamps[0]), clock.at(stamps[1])]);
        assert!(log.iter().all(|record| record.raised <= record.handled));
        let counters = bench.port.counters();
        assert_eq!((counters.interrupts_sent, counters.intx_undeliverable), (3, 0));
        assert_eq!(counters.bad_stamps, 0);
        bench.port.line.signal(MESSAGE);
        assert!(seen.take());
    }

    #[test]
    fn handlers_that_cannot_have_been_are_not_believed() {
        let mut bench = Bench::new();
        bench.words[bells::STAMPED].store(1, Release);
        bench.port.take_stamps(&mut *bench.nic, 100);
        assert_eq!(bench.port.counters().bad_stamps, 1, "nothing was sent");
        (0..2).for_each(|_| bench.port.line.signal(MESSAGE));
        bench.words[layout::STAMPS].store(u64::MAX, Relaxed);
        bench.words[layout::STAMPS + 1].store(1, Relaxed);
        bench.words[bells::STAMPED].store(2, Release);
        bench.port.take_stamps(&mut *bench.nic, 100);
        assert_eq!(bench.port.counters().bad_stamps, 3, "in the future, and before it was sent");
        assert_eq!(bench.nic.probe().handled_count(), 0);
    }

    #[test]
    fn stamps_that_were_written_over_are_counted_as_lost() {
        let mut bench = Bench::new();
        let many = layout::STAMPS_CAPACITY as u64 + 5;
        (0..many).for_each(|_| bench.port.line.signal(MESSAGE));
        let now = read_tsc();
        (0..layout::STAMPS_CAPACITY)
            .for_each(|at| bench.words[layout::STAMPS + at].store(now, Relaxed));
        bench.words[bells::STAMPED].store(many, Release);
        bench.port.take_stamps(&mut *bench.nic, u64::MAX);
        assert_eq!(bench.port.counters().bad_stamps, 5);
        assert_eq!(bench.port.line.handled_count(), many);
    }

    fn window() -> (WindowEnd, SharedWords) {
        let (window, _) = for_tests();
        let (_, event) = nix::unistd::pipe().unwrap();
        (WindowEnd::new(window.words.clone(), event), window.words)
    }

    #[test]
    fn a_turn_serves_what_was_asked_for_before_and_drops_what_comes_behind() {
        let mut bench = Bench::new();
        for number in 1..=3 * ACCESSES_PER_PASS as u64 {
            bench.ask(Space::Config, 0, Width::B4, Operation::Read(number));
        }
        let (end, words) = window();
        let mut old = bench.port.turn_to(end, &mut *bench.nic);
        assert_eq!(bench.answer().0, 3 * ACCESSES_PER_PASS as u64);
        (0..3).for_each(|_| bench.ask(Space::Config, 4, Width::B2, Operation::Write(0)));
        assert_eq!((bench.port.serve(&mut *bench.nic), old.discard(), old.discard()), (0, 3, 0));
        let mut driver = Producer::new(words.clone(), layout::REQUESTS);
        let operation = Operation::Read(1);
        let access = Access { space: Space::Config, offset: 0, width: Width::B4, operation };
        assert!(driver.push(access.to_entry()));
        driver.publish();
        assert_eq!(bench.port.serve(&mut *bench.nic), 1);
        assert_eq!(words[bells::ANSWER].load(Relaxed), 0x8168_10ec);
    }

    #[test]
    fn messages_are_counted_on_over_a_turn_and_one_back() {
        let mut bench = Bench::new();
        bench.port.line.log(10);
        let stamp = |words: &SharedWords, count: u64| {
            words[layout::STAMPS + count as usize - 1].store(read_tsc(), Relaxed);
            words[bells::STAMPED].store(count, Release);
        };
        (0..3).for_each(|_| bench.port.line.signal(MESSAGE));
        (1..=2).for_each(|count| stamp(&bench.words, count));
        let (end, words) = window();
        let old = bench.port.turn_to(end, &mut *bench.nic);
        assert_eq!(bench.port.line.handled_count(), 3, "the third will not be heard any more");
        bench.port.line.signal(MESSAGE);
        assert_eq!((bench.port.line.handled_count(), bench.port.line.is_pending()), (3, true));
        stamp(&words, 1);
        bench.port.turn_to(old, &mut *bench.nic);
        assert_eq!(bench.port.line.handled_count(), 4);
        bench.port.line.signal(MESSAGE);
        (3..=4).for_each(|count| stamp(&bench.words, count));
        bench.port.take_stamps(&mut *bench.nic, 100);
        let counters = bench.port.counters();
        assert_eq!((bench.port.line.handled_count(), counters.interrupts_sent), (5, 5));
        assert_eq!((counters.bad_stamps, bench.port.line.is_pending()), (0, false));
        let log = bench.port.line.take_log();
        let heard: Vec<bool> = log.iter().map(|record| record.handled != Time::NEVER).collect();
        assert_eq!(heard, [true, true, false, true, true]);
    }

    proptest! {
        /// A driver that writes anything anywhere costs a bounded amount of work, and no panic.
        #[test]
        fn whatever_is_written_is_survived(
            writes in prop::collection::vec((0usize..16_384, any::<u64>(), 0u8..4), 0..300),
        ) {
            let mut bench = Bench::new();
            for (at, value, what) in writes {
                // Half of them where it hurts.
                let at = if what == 0 { at } else { 512 + at % 128 };
                bench.words.store(at.min(bench.words.len() - 1), value, Relaxed);
                prop_assert!(bench.port.serve(&mut *bench.nic) <= ACCESSES_PER_PASS);
                if what == 3 {
                    bench.port.line.signal(MESSAGE);
                }
                bench.port.take_stamps(&mut *bench.nic, 100);
                bench.port.take_some_stamps(&mut *bench.nic);
            }
        }
    }
}

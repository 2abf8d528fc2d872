//! The support side's end of the region: register accesses in, interrupts out, times of handlers in.
//!
//! A pass that finds nothing loads one word. Nothing that the driver writes is believed: entries are
//! decoded, counts are bounded, and what makes no sense is counted and skipped.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use warikomi_clock::{Time, TscClock, read_tsc};
use warikomi_nic::{InterruptRecord, Nic};
use warikomi_pci::attach::layout::{self, bells};
use warikomi_pci::attach::{Access, Space};
use warikomi_pci::{Host, Interrupt, IntrLine, SharedMemory};
use warikomi_shared::{Bell, Consumer, Entry, SharedWords, Tally, Wakeup};

use crate::TargetCounters;

/// Accesses served in one pass: enough to keep up, and bounded, so that a driver cannot keep the
/// injector waiting.
const ACCESSES_PER_PASS: usize = 32;

/// Handlers whose times wait before a pass takes some up by itself: seldom, because each takes a
/// cache line from the driver's core.
const STAMPS_LEFT_WAITING: u64 = 1_024;

/// Times taken up by one pass.
const STAMPS_PER_PASS: u64 = 16;

/// Both ends of the rings that are ours.
pub(super) struct Port {
    pub(super) memory: SharedMemory,
    pub(super) line: MessageLine,
    words: SharedWords,
    requests: Consumer<SharedWords>,
    clock: TscClock,
    counters: TargetCounters,
}

impl Port {
    pub(super) fn new(
        words: SharedWords,
        memory: SharedMemory,
        wakeup: OwnedFd,
        clock: TscClock,
    ) -> Port {
        Port {
            memory,
            line: MessageLine::new(words.clone(), wakeup, clock),
            requests: Consumer::new(words.clone(), layout::REQUESTS),
            words,
            clock,
            counters: TargetCounters::default(),
        }
    }

    /// Serves what the driver has asked for, a bounded amount of it; how much that was.
    #[inline]
    pub(super) fn serve(&mut self, nic: &mut dyn Nic) -> usize {
        let mut served = 0;
        while served < ACCESSES_PER_PASS {
            match self.requests.pop() {
                Ok(None) => break,
                Ok(Some(entry)) => self.execute(entry, nic),
                Err(_) => {
                    self.requests.resynchronise();
                    self.counters.corrupt_rings += 1;
                    break;
                }
            }
            served += 1;
        }
        if served > 0 {
            self.requests.release();
        }
        served
    }

    #[inline]
    fn execute(&mut self, entry: Entry, nic: &mut dyn Nic) {
        let access = Access::from_entry(entry).ok().filter(|access| {
            // Configuration space ends long before.
            access.space != Space::Config || u16::try_from(access.offset).is_ok()
        });
        let Some(access) = access else {
            self.counters.malformed += 1;
            return;
        };
        self.counters.accesses += 1;
        let interrupts: &mut dyn IntrLine = &mut self.line;
        let mut host = Host { now: self.clock.now(), memory: &self.memory, interrupts };
        if let Some((number, value)) = access.carry_out(nic, &mut host) {
            self.words[bells::ANSWER].store(value, Relaxed);
            self.words[bells::ANSWERED].store(number, Release);
        }
    }

    /// Takes some times of handlers up, if many wait.
    #[inline]
    pub(super) fn take_some_stamps(&mut self, nic: &mut dyn Nic) {
        if self.line.sent - self.line.stamps_taken >= STAMPS_LEFT_WAITING {
            self.take_stamps(nic, STAMPS_PER_PASS);
        }
    }

    /// Takes up at most `limit` times of handlers.
    #[cold]
    pub(super) fn take_stamps(&mut self, nic: &mut dyn Nic, limit: u64) {
        let line = &mut self.line;
        let stamped = self.words[bells::STAMPED].load(Acquire);
        let waiting = stamped.wrapping_sub(line.stamps_taken);
        if waiting > line.sent - line.stamps_taken {
            // It claims to have handled what was never sent.
            self.counters.bad_stamps += 1;
            return;
        }
        let kept = layout::STAMPS_CAPACITY as u64;
        // Of what has been written over, and of what is just being, nothing is known.
        let lost = (line.sent - line.stamps_taken).saturating_sub(kept).min(waiting);
        self.counters.bad_stamps += lost;
        line.stamps_taken += lost;
        let now = read_tsc();
        for _ in 0..(waiting - lost).min(limit) {
            let number = line.stamps_taken;
            let at = self.words[layout::STAMPS + (number % kept) as usize].load(Relaxed);
            line.stamps_taken += 1;
            let sent = line.sent_at[(number % kept) as usize];
            if (sent..=now).contains(&at) {
                let (sent, at) = (self.clock.at(sent), self.clock.at(at));
                nic.probe().handled(sent, at);
                line.handled(number, at);
            } else {
                self.counters.bad_stamps += 1;
            }
        }
    }

    /// Counts since the start.
    pub(super) fn counters(&self) -> TargetCounters {
        TargetCounters {
            interrupts_sent: self.line.sent,
            intx_undeliverable: self.line.intx_undeliverable,
            ..self.counters
        }
    }
}

/// Our end of the pipe on which the driver sleeps. It is ours alone, so that nobody else can make writing
/// to it block (an eventfd, or its flags, would be shared).
#[derive(Debug)]
pub(super) struct DriversEvent(OwnedFd);

impl Wakeup for DriversEvent {
    fn wake(&self) {
        // It does not block; one that is full ends any sleep as it is. Eight bytes, as an eventfd has them.
        let _ = nix::unistd::write(&self.0, &1u64.to_le_bytes());
    }
}

/// Message-signalled interrupts to the driver.
pub(super) struct MessageLine {
    tally: Tally<SharedWords>,
    bell: Bell<SharedWords, DriversEvent>,
    clock: TscClock,
    sent: u64,
    /// Counter values at which the last messages went out; number `n` is at `n` modulo their number.
    sent_at: Box<[u64]>,
    stamps_taken: u64,
    intx_undeliverable: u64,
    log: Vec<InterruptRecord>,
    log_capacity: usize,
    /// Number of the first message in the log.
    log_begins: u64,
}

impl MessageLine {
    fn new(words: SharedWords, wakeup: OwnedFd, clock: TscClock) -> MessageLine {
        MessageLine {
            tally: Tally::new(words.clone(), bells::INTERRUPTS),
            bell: Bell::new(words, bells::SLEEPING, DriversEvent(wakeup)),
            clock,
            sent: 0,
            sent_at: vec![0; layout::STAMPS_CAPACITY].into(),
            stamps_taken: 0,
            intx_undeliverable: 0,
            log: Vec::new(),
            log_capacity: 0,
            log_begins: 0,
        }
    }

    /// Messages sent since the start.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Messages whose handlers have told, or have told too late to be heard.
    pub(super) fn handled_count(&self) -> u64 {
        self.stamps_taken
    }

    /// Makes a sleeping driver look at everything.
    pub(super) fn ring(&mut self) {
        self.bell.ring();
    }

    /// Keeps the times of the next messages.
    pub(super) fn log(&mut self, capacity: usize) {
        self.log = Vec::with_capacity(capacity);
        (self.log_capacity, self.log_begins) = (capacity, self.sent);
    }

    /// The times kept; no more are.
    pub(super) fn take_log(&mut self) -> Vec<InterruptRecord> {
        self.log_capacity = 0;
        std::mem::take(&mut self.log)
    }

    fn handled(&mut self, number: u64, at: Time) {
        let record = number.checked_sub(self.log_begins).map(|index| index as usize);
        if let Some(record) = record.and_then(|index| self.log.get_mut(index)) {
            record.handled = at;
        }
    }
}

impl IntrLine for MessageLine {
    #[inline]
    fn signal(&mut self, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Msi(_) => {}
            Interrupt::Intx(true) => {
                self.intx_undeliverable += 1;
                return;
            }
            Interrupt::Intx(false) => return,
        }
        let now = read_tsc();
        self.tally.add();
        self.bell.ring();
        self.sent_at[self.sent as usize % layout::STAMPS_CAPACITY] = now;
        self.sent += 1;
        if self.log.len() < self.log_capacity {
            self.log.push(InterruptRecord { raised: self.clock.at(now), handled: Time::NEVER });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::region::for_tests;
    use proptest::prelude::*;
    use warikomi_nic::wire::CountedSink;
    use warikomi_pci::attach::Operation;
    use warikomi_pci::{MsiMessage, Width};
    use warikomi_shared::{Producer, Words};

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
            let mut nic = warikomi_nic::build(
                &warikomi_nic::NicOptions::of("rtl8168"),
                Box::new(CountedSink::new()),
            )
            .unwrap();
            nic.probe().handlers_tell();
            let words = window.words;
            Bench {
                driver: Producer::new(words.clone(), layout::REQUESTS),
                port: Port::new(words.clone(), memory.memory, event, clock),
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
        for _ in 0..3 {
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
        assert_eq!((counters.interrupts_sent, counters.intx_undeliverable), (3, 1));
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
        assert_eq!(bench.port.line.stamps_taken, many);
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

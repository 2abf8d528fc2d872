use super::*;
use crate::kernel::GuestCosts;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use warikomi_clock::{TscClock, VirtualClock};
use warikomi_nic::Link;
use warikomi_pci::attach::{Access, Operation, Space};
use warikomi_pci::{MsiMessage, Width};
use warikomi_shared::{Message, MessageReceiver, Producer, create_region};

/// A guest by hand, and a port behind its window.
struct Bench {
    words: SharedWords,
    guest: Producer<SharedWords>,
    messages: MessageReceiver<SharedWords>,
    signals: UnixStream,
    /// What interrupts the guest wherever it is in virtual time.
    strikes: UnixStream,
    port: BridgePort,
    nic: Box<dyn Nic>,
    clock: Clock,
}

impl Bench {
    fn new() -> Bench {
        let clock = Clock::Real(TscClock::with_frequency(0, 1e9));
        let mut bench = Bench::attached(Attachment::Bridge { polling: true }, clock);
        assert_eq!(bench.signals_since(), 1, "a new guest is told to look at the header");
        bench
    }

    fn attached(attachment: Attachment, clock: Clock) -> Bench {
        let file = create_region("window", layout::WINDOW_BYTES as u64).unwrap();
        let words = SharedWords::map(file, 0, layout::WINDOW_BYTES).unwrap();
        Bench::behind(words, attachment, clock)
    }

    fn behind(words: SharedWords, attachment: Attachment, clock: Clock) -> Bench {
        words[layout::SLEEPING].store(1, Release);
        let (ours, signals) = UnixStream::pair().unwrap();
        signals.set_nonblocking(true).unwrap();
        let (call, strikes) = UnixStream::pair().unwrap();
        let line = |end| Line::new(File::from(std::os::fd::OwnedFd::from(end))).unwrap();
        let [ours, call] = [ours, call].map(line);
        let call = matches!(attachment, Attachment::InStep(_)).then_some(call);
        let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
        Bench {
            guest: Producer::new(words.clone(), layout::REQUESTS),
            messages: MessageReceiver::new(words.clone(), layout::MESSAGE_RING),
            port: BridgePort::new(memory, words.clone(), ours, call, &clock, attachment),
            nic: warikomi_testbench::card("rtl8168"),
            words,
            signals,
            strikes,
            clock,
        }
    }

    /// A guest that sleeps when it is idle, does something else now, and has 10 µs to look by itself.
    fn busy() -> Bench {
        let mut bench = Bench::new();
        bench.port.line.at_once = false;
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

/// Interrupt mask and status of the rtl8168, and its cause for a change of the link.
const MASK: u32 = 0x3c;
const STATUS: u32 = 0x3e;
const LINK_CHANGE: u64 = 0x20;

#[test]
fn an_interrupt_is_not_lost_to_an_acknowledgement_that_lies_in_the_ring_already() {
    let mut bench = Bench::new();
    let status = |bench: &mut Bench| {
        bench.ask(Space::Bar(2), STATUS, Width::B2, Operation::Read(1));
        bench.poll(1);
        bench.words[layout::ANSWER].load(Relaxed) & LINK_CHANGE
    };
    let change = |bench: &mut Bench, link| bench.nic.set_link(&mut bench.port.host(at(1)), link);
    let acknowledge = |bench: &mut Bench| {
        bench.ask(Space::Bar(2), STATUS, Width::B2, Operation::Write(LINK_CHANGE));
    };
    bench.ask(Space::Config, 4, Width::B2, Operation::Write(6));
    bench.ask(Space::Bar(2), MASK, Width::B2, Operation::Write(LINK_CHANGE));
    change(&mut bench, Link::Down);
    assert_eq!(status(&mut bench), LINK_CHANGE);
    acknowledge(&mut bench);
    change(&mut bench, Link::Up { mbps: 1_000 });
    // The partner has been found.
    bench.nic.poll(&mut bench.port.host(at(10_000_000)));
    assert_eq!(status(&mut bench), LINK_CHANGE, "the acknowledgement is older than this");
    acknowledge(&mut bench);
    assert_eq!(status(&mut bench), 0, "this one is not");
}

#[test]
fn in_virtual_time_the_guest_is_told_when_it_waits_and_answers_before_time_goes_on() {
    let time = VirtualClock::at_zero();
    let [access, interrupt] = [Span::from_ns(250), Span::from_ps(1_500)];
    let costs = GuestCosts { access, interrupt, ..GuestCosts::default() };
    let mut bench = Bench::attached(Attachment::InStep(costs), Clock::Virtual(time));
    assert_eq!(bench.words[layout::header::IN_STEP].load(Acquire), 1);
    assert_eq!(bench.words[layout::header::INTERRUPT_PS].load(Acquire), 1_500);
    bench.ask(Space::Config, 4, Width::B2, Operation::Write(6));
    bench.poll(1);
    assert_eq!(bench.words[layout::DELAY_NS].load(Acquire), 250);

    bench.signal(1, message(3));
    bench.poll(1_000);
    assert_eq!(bench.signals_since(), 0, "nothing happens while it runs");
    assert!(bench.port.owes_interrupts() && !bench.port.owes_interrupts(), "it is told once");
    bench.signal(1, message(4));
    bench.words[layout::TAKEN].store(2, Release);
    assert!(!bench.port.owes_interrupts(), "it has looked behind an access");
    bench.port.host(at(1)).interrupts.set_present(false);
    assert!(bench.port.owes_interrupts(), "the card is out, and no interrupt says so");

    for _ in 0..2 {
        bench.port.interrupt_in_step().unwrap();
        let mut request = [0; 12];
        bench.signals.read_exact(&mut request).unwrap();
        assert_eq!(request, CONFIGURATION_CHANGED_SAY_SO);
        assert!(!bench.port.has_heard().unwrap());
        bench.signals.write_all(&[0; ANSWER_BYTES - 1]).unwrap();
        assert!(!bench.port.has_heard().unwrap(), "half an answer");
        bench.signals.write_all(&[0]).unwrap();
        assert!(bench.port.has_heard().unwrap());
    }
}

#[test]
fn in_virtual_time_what_strikes_a_guest_that_runs_goes_by_its_queue_not_by_an_event() {
    let costs = GuestCosts::default();
    let mut bench =
        Bench::attached(Attachment::InStep(costs), Clock::Virtual(VirtualClock::at_zero()));
    bench.signal(1, message(3));
    bench.port.host(at(1)).interrupts.interrupt_now();
    let mut call = [0; 16];
    assert_eq!(bench.strikes.read(&mut call).unwrap(), 8, "one call");
    assert_eq!(bench.signals_since(), 0);
    bench.words[layout::TAKEN].store(1, Release);
    assert!(!bench.port.owes_interrupts(), "it was taken there");
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
    assert_eq!((bench.messages.take(), bench.signals_since()), (Some(Message::Number(3)), 0));
    bench.words[layout::SLEEPING].store(1, Release);
    (4..7).for_each(|vector| bench.signal(2, message(vector)));
    let taken: Vec<_> = std::iter::from_fn(|| bench.messages.take()).collect();
    assert_eq!((taken, bench.signals_since()), ([4, 5, 6].map(Message::Number).to_vec(), 1));
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
fn a_signal_that_can_wait_does_not_run_into_what_is_due() {
    let mut bench = Bench::busy();
    bench.signal(100, message(3));
    bench.port.keep_clear_of(at(114));
    bench.poll(111);
    assert_eq!(bench.signals_since(), 0, "3 µs are less than two sends, of 10 / 4 µs each");
    bench.poll(114);
    assert_eq!(bench.signals_since(), 1);
    let mut bench = Bench::busy();
    bench.signal(100, message(3));
    (101..120).for_each(|us| {
        bench.port.keep_clear_of(at(us + 2));
        bench.poll(us);
    });
    assert_eq!(bench.signals_since(), 0);
    bench.port.keep_clear_of(at(123));
    bench.poll(121);
    assert_eq!(bench.signals_since(), 1, "it does not wait for ever");
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
fn a_busy_guest_that_polls_when_it_is_idle_is_signalled_at_once_and_once() {
    let mut bench = Bench::new();
    bench.words[layout::SLEEPING].store(layout::BUSY, Release);
    bench.signal(100, message(3));
    assert_eq!(bench.signals_since(), 1);
    bench.signal(101, message(3));
    assert_eq!(bench.signals_since(), 0, "it is on its way to look");
    bench.words[layout::TAKEN].store(2, Release);
    bench.signal(110, message(3));
    assert_eq!(bench.signals_since(), 1);
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
fn what_a_guest_has_counted_before_is_not_taken_for_interrupts_that_were_sent() {
    let file = create_region("window", layout::WINDOW_BYTES as u64).unwrap();
    let words = SharedWords::map(file, 0, layout::WINDOW_BYTES).unwrap();
    words[layout::INTERRUPTS].store(u64::MAX - 1, Release);
    let clock = Clock::Real(TscClock::with_frequency(0, 1e9));
    let mut bench = Bench::behind(words, Attachment::Bridge { polling: true }, clock);
    (0..3).for_each(|vector| bench.signal(1, message(vector)));
    bench.signal(2, Interrupt::Intx(true));
    assert_eq!(bench.port.counters().interrupts_sent, 4);
    let taken: Vec<_> = std::iter::from_fn(|| bench.messages.take()).collect();
    assert_eq!(taken, [0, 1, 2].map(Message::Number));
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
    for (present, plugs, signals) in [(true, 0, 0), (false, 1, 1), (false, 1, 0), (true, 2, 1)] {
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

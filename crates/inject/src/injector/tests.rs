use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use warikomi_nic::{FunctionCounters, Link, ModelInfo, Probe, RxCounters};
use warikomi_pci::{Bar, MsiMessage, PciFunction, SharedMemory, Vector, Vectors, Width};
use warikomi_testbench::Line;
use warikomi_wire::Wire;

const MESSAGE: Interrupt = Interrupt::Msi(warikomi_testbench::MESSAGE);
/// What each injection takes here.
const WORK: Span = Span::from_ns(100);

/// A NIC that signals an interrupt with every frame and keeps the sequence numbers.
#[derive(Default)]
struct Sink {
    seen: Vec<(Time, u64)>,
    probe: Probe,
}

impl PciFunction for Sink {
    fn bars(&self) -> &[Bar] {
        &[]
    }
    fn vectors(&self) -> Vectors {
        Vectors::default()
    }
    fn message(&self, _: Vector) -> Option<MsiMessage> {
        None
    }
    fn config_read(&mut self, _: u16, _: Width) -> u64 {
        0
    }
    fn config_write(&mut self, _: &mut Host<'_>, _: u16, _: Width, _: u64) {}
    fn bar_read(&mut self, _: &mut Host<'_>, _: u8, _: u64, _: Width) -> u64 {
        0
    }
    fn bar_write(&mut self, _: &mut Host<'_>, _: u8, _: u64, _: Width, _: u64) {}
    fn poll(&mut self, _: &mut Host<'_>) {}
}

impl Nic for Sink {
    fn info(&self) -> &'static ModelInfo {
        unreachable!("an injector does not ask")
    }
    fn receive(&mut self, host: &mut Host<'_>, frame: warikomi_nic::Frame<'_>) -> Reception {
        let sequence = u64::from_le_bytes(frame.bytes[50..58].try_into().unwrap());
        self.seen.push((host.now, sequence));
        if self.seen.len() == 1 {
            host.interrupts.signal(MESSAGE);
        }
        let full = sequence % 5 == 4;
        Reception::first(if full { RxOutcome::NoDescriptor } else { RxOutcome::OnRing })
    }
    fn receive_faulty(
        &mut self,
        _: &mut Host<'_>,
        _: warikomi_nic::Frame<'_>,
        _: warikomi_nic::RxFault,
    ) -> Reception {
        unreachable!("an injector hands sound frames over")
    }
    fn set_link(&mut self, _: &mut Host<'_>, _: Link) {}
    fn offered_link(&self) -> Link {
        Link::Down
    }
    fn has_link(&self) -> bool {
        false
    }
    fn rx_queue_progress(&mut self, _: &mut Host<'_>, _: u16, _: usize) -> RxCounters {
        RxCounters::default()
    }
    fn look_ahead(&mut self, _: &mut Host<'_>, frames: usize, _: usize) -> usize {
        frames
    }

    fn rx_queue_free(&mut self, _: &mut Host<'_>, _: u16, _: usize) -> usize {
        0
    }
    fn receiving(&self) -> bool {
        true
    }
    fn mac_address(&self) -> [u8; 6] {
        [0; 6]
    }
    fn register(&mut self, _: &mut Host<'_>, _: u8, _: u64) -> Option<u64> {
        None
    }
    fn probe(&mut self) -> &mut Probe {
        &mut self.probe
    }
    fn counters(&self) -> FunctionCounters {
        FunctionCounters::default()
    }
    fn power_on(&mut self, _: &mut Host<'_>) {}
    fn wire(&mut self) -> &mut dyn Wire {
        unreachable!("an injector does not ask")
    }
    fn next_due(&self) -> Time {
        Time::NEVER
    }
}

struct Run {
    injections: Vec<Injection>,
    lateness: Lateness,
    sink: Sink,
    line: Line,
}

/// Carries out a plan; `pass` is what a pass of the loop takes by itself.
fn run(plan: &Plan, start: Time, pass: Span) -> Run {
    let addresses = Addresses::to_guest([2, 0, 0, 0, 0, 1]);
    let mut injector = Injector::new(plan, &addresses, 7, start).unwrap();
    let memory = SharedMemory::anonymous(0, 4096).unwrap();
    let (mut sink, mut line, mut injections) = (Sink::default(), Line::default(), Vec::new());
    let now = Cell::new(Time::ZERO);
    loop {
        let mut host = Host { now: now.get(), memory: &memory, interrupts: &mut line, looks: None };
        let clock = || {
            now.set(now.get() + WORK);
            now.get()
        };
        let mut recorder = |injection: &Injection| injections.push(*injection);
        match injector.step(&mut host, &mut sink, clock, &mut recorder) {
            Step::Done => break,
            Step::Idle => assert!(injector.next_due() > now.get()),
            Step::Injected { ended, .. } => assert_eq!(ended, host.now),
        }
        now.set(now.get() + pass);
    }
    assert!(injector.done());
    Run { injections, lateness: injector.lateness(), sink, line }
}

#[test]
fn nothing_goes_out_before_it_is_due_and_everything_does() {
    let plan = Plan { count: 10, ..Plan::default() };
    let run = run(&plan, Time::from_ps(5_000_000), Span::from_ns(50));
    assert_eq!(run.injections.len(), 10);
    for (k, injection) in run.injections.iter().enumerate() {
        assert_eq!(injection.sequence, k as u64);
        assert_eq!(injection.planned, Time::from_ps(5_000_000 + k as u64 * 38_000_000));
        assert!(injection.started >= injection.planned);
        assert!(injection.started < injection.planned + Span::from_ns(200));
        assert_eq!(injection.ended.since(injection.started), WORK);
        let lost = injection.outcome == RxOutcome::NoDescriptor;
        assert_eq!(lost, k % 5 == 4, "the outcome is the NIC's");
    }
    assert_eq!(run.lateness.missed_deadlines, 0);
}

#[test]
fn the_interrupt_of_a_burst_comes_after_its_last_packet() {
    let plan = Plan { count: 4, packets_per_interrupt: 4, ..Plan::default() };
    let addresses = Addresses::to_guest([2, 0, 0, 0, 0, 1]);
    let mut injector = Injector::new(&plan, &addresses, 7, Time::ZERO).unwrap();
    let memory = SharedMemory::anonymous(0, 4096).unwrap();
    let (mut sink, mut line) = (Sink::default(), Line::default());
    let mut host = Host { now: Time::ZERO, memory: &memory, interrupts: &mut line, looks: None };
    let mut firsts = 0;
    let mut recorder = |injection: &Injection| firsts += u64::from(injection.first_of_burst);
    let step = injector.step(&mut host, &mut sink, || Time::from_ps(9), &mut recorder);
    assert_eq!(step, Step::Injected { packets: 4, ended: Time::from_ps(9) });
    assert_eq!(line.interrupts(), [MESSAGE]);
    assert_eq!((sink.seen.len(), firsts), (4, 1));
}

fn message_of(vector: u32) -> Interrupt {
    Interrupt::Msi(MsiMessage { address: 0xfee0_0000, data: vector })
}

#[test]
fn an_interrupt_is_held_back_and_none_of_two_is_swallowed() {
    for raised in [1, 2] {
        let (mut line, mut held) = (Line::default(), Vec::new());
        let mut line_held = HeldLine { line: &mut line, held: &mut held };
        (0..raised).for_each(|_| line_held.signal(MESSAGE));
        assert_eq!(line_held.held.len(), 1, "the last is held back");
        line_held.release(1);
        assert!(held.is_empty());
        assert_eq!(line.interrupts(), vec![MESSAGE; raised]);
    }
}

#[test]
fn one_interrupt_of_each_vector_is_held_back_and_they_go_in_order() {
    let (mut line, mut held) = (Line::default(), Vec::new());
    let mut holding = HeldLine { line: &mut line, held: &mut held };
    for vector in [2, 0, 1] {
        holding.signal(message_of(vector));
    }
    holding.signal(Interrupt::Intx(true));
    assert_eq!(holding.held.len(), 4, "one of each way");
    // The second of vector 0 lets the first go, and what came before that.
    holding.signal(message_of(0));
    assert_eq!(*holding.held, [message_of(1), Interrupt::Intx(true), message_of(0)]);
    holding.signal(Interrupt::Intx(false));
    holding.release(holding.held.len());
    let wire = [Interrupt::Intx(true), Interrupt::Intx(false)];
    let messages = [2, 0, 1, 0].map(message_of);
    let [two, zero, one, again] = messages;
    assert_eq!(line.interrupts(), [two, zero, one, wire[0], again, wire[1]]);
}

proptest! {
    #[test]
    fn whatever_is_held_back_goes_out_once_and_in_order(vectors in prop::collection::vec(0u32..100, 0..300)) {
        let mut held = Vec::with_capacity(HeldLine::MOST);
        let mut line = Line::default();
        let mut holding = HeldLine { line: &mut line, held: &mut held };
        for vector in &vectors {
            holding.signal(message_of(*vector));
            prop_assert!(holding.held.len() <= HeldLine::MOST);
        }
        holding.release(holding.held.len());
        let wanted: Vec<_> = vectors.into_iter().map(message_of).collect();
        prop_assert_eq!(line.interrupts(), wanted);
    }
}

#[test]
fn a_late_burst_is_counted_and_the_schedule_stays_where_it_was() {
    let plan = Plan { interval: Span::from_us(1), count: 10, ..Plan::default() };
    let run = run(&plan, Time::ZERO, Span::from_ns(2_900));
    // A pass takes 3 µs: packet k goes out at k × 3 µs and is k × 2 µs late.
    let starts: Vec<u64> = run.injections.iter().map(|i| i.started.as_ps() / 1_000_000).collect();
    assert_eq!(starts, (0..10).map(|k| k * 3).collect::<Vec<_>>(), "one by one, never bunched");
    assert_eq!(run.injections[9].planned, Time::from_ps(9_000_000));
    assert_eq!(run.lateness, Lateness { missed_deadlines: 9, longest: Span::from_us(18) });
}

#[test]
fn as_fast_as_possible_is_never_late() {
    let plan = Plan { interval: Span::ZERO, count: 100, ..Plan::default() };
    let run = run(&plan, Time::ZERO, Span::from_us(5));
    assert_eq!(run.lateness, Lateness::default());
    assert_eq!(run.injections.len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_packet_goes_out_once_and_in_order(
        count in 1u64..200,
        packets_per_interrupt in 1u32..9,
        interval in 0u64..2_000,
        pass in 1u64..3_000,
    ) {
        let interval = Span::from_ns(interval);
        let plan = Plan { count, packets_per_interrupt, interval, size_bytes: 60, ..Plan::default() };
        let run = run(&plan, Time::ZERO, Span::from_ns(pass));
        let expected: Vec<u64> = (0..count).collect();
        let seen: Vec<u64> = run.sink.seen.iter().map(|(_, sequence)| *sequence).collect();
        prop_assert_eq!(&seen, &expected);
        let recorded: Vec<u64> = run.injections.iter().map(|i| i.sequence).collect();
        prop_assert_eq!(&recorded, &expected);
        prop_assert_eq!(run.line.interrupts(), [MESSAGE]);
        let bursts = run.injections.iter().filter(|i| i.first_of_burst).count() as u64;
        prop_assert_eq!(bursts, count.div_ceil(u64::from(packets_per_interrupt)));
    }
}

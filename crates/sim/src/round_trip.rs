//! Round trips of a small message in virtual time: card, driver, its loop with the strategy, and the application are
//! the very code that runs in real time; what they take is declared.
//!
//! The core is the driver's process' alone. A step of its loop takes place at one instant and then keeps the core for
//! as long as it takes; behind it the application, which is in the same process, works on what came.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use warikomi_clock::{Span, Time};
use warikomi_driver::run::{DriverLoop, Parts, RunError, Step};
use warikomi_driver::strategy::Strategy;
use warikomi_driver::{Buffer, Received, RxSink, Transmit, Upper};
use warikomi_pci::attach::layout::orders;
use warikomi_pci::{DmaMemory, SharedMemory};
use warikomi_shared::Woken;
use warikomi_stack::{
    Destination, HEADER_BYTES, RoundTripCounts, RoundTripPlan, RoundTrips, Station,
};
use warikomi_wire::{Echo, GUEST_IP, NETWORK_IP, NETWORK_MAC, UDP_PORT};

use super::above::Attached;
use super::arrivals::START;
use super::cpu::Cpu;
use super::device::{Device, Registers};
use super::pair::Pair;
use super::process::Process;
use super::recorder::RINGS;
use super::trace::Digest;
use super::{CostModel, SchedulerModel, VirtualError};

const PAGE_BYTES: u64 = 4_096;
const BUFFER_BYTES: u32 = 2_048;
const RECEIVE_BUFFERS: u32 = 64;
const SENDING_BUFFERS: u32 = 4;
const NETWORK_PREFIX_BITS: u8 = 24;
/// Steps between two looks whether it shall end.
const STEPS_PER_LOOK: u64 = 4_096;

/// What is sent, and above what.
#[derive(Clone, Debug)]
pub struct RoundTripOptions {
    /// The messages.
    pub plan: RoundTripPlan,
    /// How the driver receives.
    pub strategy: Strategy,
    /// The driver, by its name.
    pub driver: String,
    /// From a message on the wire until its answer is there: the line both ways, and the other end.
    pub delay: Span,
    /// Costs of what the process does, and the card.
    pub costs: CostModel,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTripOutcome {
    /// What became of the messages.
    pub counts: RoundTripCounts,
    /// How long each took behind the warm-up, in nanoseconds.
    pub round_trips_ns: Vec<u32>,
    /// Times that the driver slept.
    pub sleeps: u64,
    /// Interrupts that the card sent.
    pub interrupts: u64,
    /// Of all requests, answers, interrupts and sleeps, with their times.
    pub digest: String,
}

/// Sends all messages; `None` if `is_interrupted` said so meanwhile.
pub fn round_trips(
    options: &RoundTripOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Option<RoundTripOutcome>, VirtualError> {
    let pair = Pair::by_name(&options.driver);
    let pair = pair.ok_or_else(|| VirtualError::Driver(options.driver.clone()))?;
    let mut machine = Machine::new(options, &pair)?;
    machine.set_out()?;
    let mut steps = 0_u64;
    while !machine.trips.is_over() {
        if steps.is_multiple_of(STEPS_PER_LOOK) && is_interrupted() {
            return Ok(None);
        }
        steps += 1;
        machine.step()?;
    }
    Ok(Some(RoundTripOutcome {
        counts: machine.trips.counts(),
        round_trips_ns: machine.trips.round_trips_ns().to_vec(),
        sleeps: machine.process.sleeps,
        interrupts: machine.interrupts,
        digest: machine.digest.finish(),
    }))
}

/// What goes into the digest.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Entry {
    Requested = 0,
    Answered = 1,
    Interrupt = 2,
    Slept = 3,
    Woke = 4,
}

/// The application's buffers, and what is between it and the driver.
struct Above {
    first: u64,
    receive: Vec<u32>,
    send: Vec<u32>,
    given: VecDeque<(Buffer, Received)>,
    waiting: Option<Transmit>,
    /// Frames and buffers that a step has moved.
    moved: u64,
}

impl Above {
    fn new(first: u64) -> Above {
        Above {
            first,
            receive: (0..RECEIVE_BUFFERS).rev().collect(),
            send: (RECEIVE_BUFFERS..RECEIVE_BUFFERS + SENDING_BUFFERS).collect(),
            given: VecDeque::new(),
            waiting: None,
            moved: 0,
        }
    }

    fn address(&self, token: u32) -> u64 {
        self.first + u64::from(token) * u64::from(BUFFER_BYTES)
    }
}

impl RxSink for Above {
    fn buffer(&mut self) -> Option<Buffer> {
        let token = self.receive.pop()?;
        Buffer::new(self.address(token), BUFFER_BYTES, token)
    }

    fn received(&mut self, buffer: Buffer, frame: Received) {
        self.moved += 1;
        self.given.push_back((buffer, frame));
    }

    fn returned(&mut self, buffer: Buffer) {
        self.moved += 1;
        self.receive.push(buffer.token());
    }
}

impl Upper for Above {
    fn flush(&mut self) {}

    fn next_transmit(&mut self) -> Option<Transmit> {
        let next = self.waiting.take();
        self.moved += u64::from(next.is_some());
        next
    }

    fn sent(&mut self, token: u32) {
        self.send.push(token);
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.waiting.is_some() || !self.given.is_empty()
    }

    fn awake(&mut self) {}

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The card, the process, and the one clock of both.
struct Machine<'o> {
    costs: &'o CostModel,
    now: Time,
    device: Device,
    memory: SharedMemory,
    ring_bytes: u64,
    process: Process,
    above: Above,
    trips: RoundTrips,
    /// Interrupts on their way, and when the driver can see each.
    coming: VecDeque<(Time, u16)>,
    interrupts: u64,
    digest: Digest,
}

impl<'o> Machine<'o> {
    fn new(options: &'o RoundTripOptions, pair: &Pair) -> Result<Machine<'o>, VirtualError> {
        let costs = &options.costs;
        let frame_bytes = options.plan.payload_bytes as usize + HEADER_BYTES;
        // The card's time for the frame on its way out and on its way in.
        let nic = pair.card(Box::new(Echo::new(options.delay + costs.dma(frame_bytes) * 2)));
        let driver = pair.driver();
        let station =
            Station { mac: nic.mac_address(), address: GUEST_IP, prefix_bits: NETWORK_PREFIX_BITS };
        let to = Destination { address: NETWORK_IP, port: UDP_PORT, source_port: UDP_PORT };
        let trips = RoundTrips::new(options.plan, &station, to, NETWORK_MAC);
        let trips = trips.map_err(VirtualError::RoundTrips)?;
        let ring_bytes = (driver.info().ring_bytes as u64).next_multiple_of(PAGE_BYTES);
        let buffers = u64::from(RECEIVE_BUFFERS + SENDING_BUFFERS) * u64::from(BUFFER_BYTES);
        let memory = SharedMemory::anonymous(RINGS, (ring_bytes + buffers) as usize)?;
        let task = Cpu::new(&SchedulerModel::default(), costs.context_switch_ns).add(false);
        let mut process = Process::new(task, 0, driver, None, None);
        process.order(orders::BUFFERS, RECEIVE_BUFFERS.into());
        process.order_strategy(options.strategy.to_orders());
        process.call.clear();
        Ok(Machine {
            costs,
            now: Time::ZERO,
            device: Device::with_nic(nic, memory.clone()),
            memory,
            ring_bytes,
            process,
            above: Above::new(RINGS + ring_bytes),
            trips,
            coming: VecDeque::new(),
            interrupts: 0,
            digest: Digest::new(),
        })
    }

    /// Calls the loop; what it says, and what its register accesses took.
    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Option<DriverLoop>, &mut Parts<'_, Attached<'_>, Above>, Time) -> R,
    ) -> (R, Span) {
        let passed_on = Cell::new(false);
        let process = &mut self.process;
        let mut device = Attached {
            registers: Registers::new(&mut self.device, self.costs, self.now),
            window: &mut process.window,
            lineage: None,
            store: None,
            ring_bytes: self.ring_bytes,
            processor_time: Span::ZERO,
            passed_on: &passed_on,
        };
        let mut parts = Parts {
            device: &mut device,
            memory: &self.memory,
            driver: &mut *process.driver,
            upper: &mut self.above,
        };
        let value = call(&mut process.driving, &mut parts, self.now);
        (value, device.registers.spent)
    }

    fn set_out(&mut self) -> Result<(), VirtualError> {
        let (set_out, _) = self.call(|driving, parts, now| -> Result<(), RunError> {
            *driving = Some(DriverLoop::new(parts, now)?);
            Ok(())
        });
        Ok(set_out?)
    }

    /// One step of the loop, and what the application does behind it.
    fn step(&mut self) -> Result<(), VirtualError> {
        let done = |process: &Process| {
            let looks = process.driving.as_ref().map_or(0, DriverLoop::looks);
            (looks, process.window.interrupts_taken())
        };
        let (looks, handled) = done(&self.process);
        self.above.moved = 0;
        let (step, registers) = self.call(|driving, parts, now| match driving {
            Some(driving) => driving.step(parts, now),
            None => Ok(Step::Ended { waiting: false }),
        });
        let step = step?;
        let (looks, handled) = (done(&self.process).0 - looks, done(&self.process).1 - handled);
        let spent = self.costs.poll_empty_ns * looks
            + self.costs.driver_packet_ns * self.above.moved
            + self.costs.handler_ns * handled;
        self.advance(self.now + registers + Span::from_ns(spent));
        self.work()?;
        match step {
            Step::Sleep { longest } => self.sleep(longest),
            Step::Again | Step::Yield => {}
            // It is not ordered away, and no driver follows it.
            Step::AwaitBaton { .. } | Step::Ended { .. } => {
                let why = "the driver has ended without an order";
                return Err(VirtualError::RoundTrips(why.to_owned()));
            }
        }
        Ok(())
    }

    /// The application takes what has come, and asks for the next message.
    fn work(&mut self) -> Result<(), VirtualError> {
        let mut payload = vec![0; self.trips.payload_bytes()];
        while let Some((buffer, frame)) = self.above.given.pop_front() {
            let whole = frame.bytes as usize >= HEADER_BYTES + payload.len();
            let at = buffer.address + HEADER_BYTES as u64;
            let whole = whole && self.memory.read(at, &mut payload).is_ok();
            self.above.receive.push(buffer.token());
            self.pass(self.costs.protocol() + self.costs.application(payload.len()));
            let taken = if whole { &payload[..] } else { &[] };
            self.trips.take(taken, self.now);
            self.note(Entry::Answered);
        }
        self.trips.look(self.now);
        let begun = self.process.is_ready() && self.now >= Time::ZERO + START;
        if begun
            && self.above.waiting.is_none()
            && let Some(&token) = self.above.send.last()
            && let Some(frame) = self.trips.request(self.now)
        {
            let (address, bytes) = (self.above.address(token), frame.len() as u32);
            let written = self.memory.write(address, frame);
            written.map_err(|error| VirtualError::Memory(std::io::Error::other(error)))?;
            self.above.send.pop();
            self.above.waiting = Transmit::new(&[(address, bytes)], token);
            self.note(Entry::Requested);
            self.pass(self.costs.protocol() + self.costs.application(payload.len()));
        }
        Ok(())
    }

    /// Sleeps until it is called, unless it was called before; for so long at most.
    fn sleep(&mut self, longest: Span) {
        self.pass(Span::from_ns(self.costs.sleep_ns));
        let until = self.now + longest;
        let mut how = Woken::Called;
        // What the application has asked for since the last look keeps the driver awake: both are one process.
        if !self.process.call.is_called() && !self.above.prepare_to_sleep() {
            self.process.sleeps += 1;
            self.note(Entry::Slept);
            while !self.process.call.is_called() {
                let seen = self.coming.front().map_or(Time::NEVER, |(at, _)| *at);
                let next = seen.min(self.device.next_due()).min(until).max(self.now);
                self.advance(next);
                if next >= until && !self.process.call.is_called() {
                    how = Woken::TimedOut;
                    break;
                }
            }
            self.pass(Span::from_ns(self.costs.wake_up_ns + self.costs.context_switch_ns));
            self.note(Entry::Woke);
        }
        self.process.call.clear();
        if let Some(driving) = &mut self.process.driving {
            driving.woke(Ok(how));
        }
    }

    fn pass(&mut self, span: Span) {
        self.advance(self.now + span);
    }

    /// Time passes, and what the card does until then is done.
    fn advance(&mut self, to: Time) {
        self.pass_interrupts();
        while self.device.next_due() <= to {
            self.now = self.now.max(self.device.next_due());
            self.device.poll(self.now);
            self.pass_interrupts();
        }
        self.now = self.now.max(to);
        while let Some(&(at, vector)) = self.coming.front()
            && at <= self.now
        {
            self.coming.pop_front();
            self.process.interrupts.send(vector);
            self.process.bell.ring();
        }
    }

    fn pass_interrupts(&mut self) {
        while let Some(vector) = self.device.take_interrupt() {
            self.interrupts += 1;
            self.coming.push_back((self.now + Span::from_ns(self.costs.interrupt_ns), vector));
            self.note(Entry::Interrupt);
        }
    }

    fn note(&mut self, entry: Entry) {
        self.digest.add(self.now, (entry as u8, self.trips.counts().sent, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(strategy: Strategy, delay: Span) -> RoundTripOptions {
        let plan = RoundTripPlan {
            payload_bytes: 32,
            run_id: 1,
            warmup: 10,
            count: 100,
            timeout: Span::from_ms(1),
        };
        let driver = "rtl8168".to_owned();
        RoundTripOptions { plan, strategy, driver, delay, costs: CostModel::default() }
    }

    fn made(options: &RoundTripOptions) -> RoundTripOutcome {
        round_trips(options, &|| false).unwrap().unwrap()
    }

    const HYBRID: fn(u64) -> Strategy = |us| Strategy::Hybrid { poll_time: Span::from_us(us) };

    #[test]
    fn each_message_takes_the_line_and_what_the_way_to_receive_costs() {
        let delay = Span::from_us(20);
        for driver in ["rtl8168", "oc48"] {
            let of = |strategy| {
                made(&RoundTripOptions { driver: driver.to_owned(), ..options(strategy, delay) })
            };
            let all = RoundTripCounts { sent: 110, answered: 110, lost: 0, strays: 0 };
            let polled = of(Strategy::Poll);
            assert_eq!((polled.counts, polled.sleeps, polled.interrupts), (all, 0, 0), "{driver}");
            assert!(polled.round_trips_ns.iter().all(|&ns| f64::from(ns) > delay.as_ns()));
            for sleeper in [Strategy::Interrupt, Strategy::Napi { budget: 64 }, HYBRID(5)] {
                let slept = of(sleeper);
                assert_eq!((slept.counts, slept.round_trips_ns.len()), (all, 100), "{sleeper}");
                assert!(slept.sleeps >= 110 && slept.interrupts >= 110, "{driver} {sleeper}");
                // An interrupt, a wake-up and a switch are on the way of each.
                let costs = CostModel::default();
                let way = costs.interrupt_ns + costs.wake_up_ns + costs.context_switch_ns;
                let least = u64::from(*polled.round_trips_ns.iter().min().unwrap()) + way;
                let found = u64::from(*slept.round_trips_ns.iter().min().unwrap());
                assert!(found >= least, "{driver} {sleeper}: {found} of {least} ns");
            }
            let waits = of(HYBRID(100));
            assert_eq!(waits.round_trips_ns, polled.round_trips_ns, "polls for long enough");
        }
    }

    #[test]
    fn the_same_messages_make_the_same_history() {
        for strategy in [Strategy::Interrupt, HYBRID(5)] {
            let options = options(strategy, Span::from_us(7));
            assert_eq!(made(&options), made(&options));
        }
        let digest = |delay| made(&options(Strategy::Poll, Span::from_us(delay))).digest;
        assert_ne!(digest(7), digest(8));
    }

    #[test]
    fn answers_that_come_too_late_are_lost_and_then_strays() {
        let mut late = options(Strategy::Interrupt, Span::from_us(300));
        late.plan.timeout = Span::from_us(200);
        let outcome = made(&late);
        let RoundTripCounts { sent, answered, lost, strays } = outcome.counts;
        assert_eq!((sent, answered, lost), (110, 0, 110), "{outcome:?}");
        assert!(strays > 0 && outcome.round_trips_ns.is_empty(), "{outcome:?}");
    }

    #[test]
    fn one_who_does_not_wait_any_longer_is_heard() {
        let options = options(Strategy::Interrupt, Span::from_us(300));
        assert_eq!(round_trips(&options, &|| true).unwrap(), None);
    }
}

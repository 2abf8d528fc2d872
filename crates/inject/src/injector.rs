//! Hands frames to a NIC when they are due.

use warikomi_clock::{Span, Time};
use warikomi_nic::{Nic, Reception, RxOutcome};
use warikomi_pci::{Host, Interrupt, IntrLine};

use crate::{Addresses, Plan, PlanError, Planned, Source};

/// How late a burst may be before its deadline counts as missed: what one pass of a loop that
/// also serves the target may take.
pub const DEFAULT_SLACK: Span = Span::from_us(1);

/// What became of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Its sequence number: 0, 1, 2 and so on.
    pub sequence: u64,
    /// Whether it is the first of its burst, so that intervals are counted from here.
    pub first_of_burst: bool,
    /// Its deadline; the start of the run if the plan is as fast as possible.
    pub planned: Time,
    /// When the NIC was given it.
    pub started: Time,
    /// When the NIC was done: descriptor updated, frame in place, interrupt requested. (For all but
    /// the last of a burst: without the interrupt.)
    pub ended: Time,
    /// What the NIC did with it.
    pub outcome: RxOutcome,
    /// The receive queue that it was for.
    pub queue: u16,
}

/// Who wants to know. Any closure over an [`Injection`] is one.
///
/// It is called in between two packets, which may be 200 ns apart: no allocation, no system call.
pub trait Recorder {
    /// A packet has been injected.
    fn injected(&mut self, injection: &Injection);
}

impl<F: FnMut(&Injection)> Recorder for F {
    #[inline]
    fn injected(&mut self, injection: &Injection) {
        self(injection);
    }
}

/// The outcome of a step of the injector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing was due.
    Idle,
    /// A burst was injected.
    Injected {
        /// Packets of the burst.
        packets: u32,
        /// When its last packet was done.
        ended: Time,
    },
    /// The plan is carried out.
    Done,
}

/// How well the schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Packets that went out later than their deadline and the slack.
    pub missed_deadlines: u64,
    /// The longest that a packet was late, also within the slack.
    pub longest: Span,
}

/// Carries out a plan, or whatever else is a [`Source`] of frames, one burst at a time.
///
/// A burst that is late goes out at the next step, one burst to a step, so that the target is
/// served in between as always; each of its packets counts as missed, and the deadlines after it
/// stay where they were.
pub struct Injector<S = Planned> {
    source: S,
    next: u64,
    count: u64,
    packets_per_interrupt: u64,
    slack: Span,
    lateness: Lateness,
    /// Interrupts that are held back until a burst is in place; empty in between.
    held: Vec<Interrupt>,
}

impl Injector {
    /// Carries out `plan` from `start` on, the time of the first deadline.
    pub fn new(
        plan: &Plan,
        addresses: &Addresses,
        run_id: u32,
        start: Time,
    ) -> Result<Injector, PlanError> {
        Ok(Injector::of(Planned::new(plan, addresses, run_id, start)?))
    }
}

impl<S: Source> Injector<S> {
    /// Injects what `source` has, when it is due.
    pub fn of(source: S) -> Injector<S> {
        Injector {
            next: 0,
            count: source.count(),
            packets_per_interrupt: u64::from(source.packets_per_deadline().max(1)),
            source,
            slack: DEFAULT_SLACK,
            lateness: Lateness::default(),
            held: Vec::with_capacity(HeldLine::MOST),
        }
    }

    /// Sets how late a packet may be before its deadline counts as missed.
    #[must_use]
    pub fn with_slack(self, slack: Span) -> Injector<S> {
        Injector { slack, ..self }
    }

    /// Injects one burst if one is due at `host.now`; otherwise only compares two numbers.
    ///
    /// `clock` gives the time and is asked once after each packet; `host.now` moves on with it. The
    /// interrupts that a burst of several packets raises are held back until its last packet is in
    /// place. Nothing serves the target's register accesses within a step, so no level can fall and
    /// rise within a burst: one burst raises one interrupt of each vector at most.
    #[inline]
    pub fn step<N: Nic + ?Sized>(
        &mut self,
        host: &mut Host<'_>,
        nic: &mut N,
        clock: impl FnMut() -> Time,
        recorder: &mut impl Recorder,
    ) -> Step {
        let planned = self.source.due();
        if planned > host.now {
            return if self.next == self.count { Step::Done } else { Step::Idle };
        }
        let packets = self.packets_per_interrupt.min(self.count - self.next);
        if packets == 1 {
            return self.burst(host, nic, clock, recorder, (planned, packets));
        }
        let mut held = std::mem::take(&mut self.held);
        let mut line = HeldLine { line: &mut *host.interrupts, held: &mut held };
        let mut quiet = Host { interrupts: &mut line, ..*host };
        let step = self.burst(&mut quiet, nic, clock, recorder, (planned, packets));
        host.now = quiet.now;
        line.release(line.held.len());
        self.held = held;
        step
    }

    #[inline]
    fn burst<N: Nic + ?Sized>(
        &mut self,
        host: &mut Host<'_>,
        nic: &mut N,
        mut clock: impl FnMut() -> Time,
        recorder: &mut impl Recorder,
        (planned, packets): (Time, u64),
    ) -> Step {
        self.note_lateness(planned, host.now, packets);
        for index in 0..packets {
            let (started, sequence) = (host.now, self.next);
            let Reception { queue, outcome } = nic.receive(host, self.source.frame(sequence));
            let ended = clock();
            let first_of_burst = index == 0;
            recorder.injected(&Injection {
                sequence,
                first_of_burst,
                planned,
                started,
                ended,
                queue,
                outcome,
            });
            self.next += 1;
            host.now = ended;
        }
        self.source.advance();
        Step::Injected { packets: packets as u32, ended: host.now }
    }

    #[inline]
    fn note_lateness(&mut self, planned: Time, started: Time, packets: u64) {
        if !self.source.paced() {
            return;
        }
        let late = started.since(planned);
        self.lateness.longest = self.lateness.longest.max(late);
        if late > self.slack {
            self.lateness.missed_deadlines += packets;
        }
    }

    /// When the next burst is due; [`Time::NEVER`] if none is left.
    #[inline]
    pub fn next_due(&self) -> Time {
        self.source.due()
    }

    /// Bytes of the next packet; 0 if none is left.
    pub fn next_bytes(&mut self) -> usize {
        if self.done() { 0 } else { self.source.frame(self.next).bytes.len() }
    }

    /// Packets injected so far.
    pub fn injected(&self) -> u64 {
        self.next
    }

    /// Whether the plan is carried out.
    #[inline]
    pub fn done(&self) -> bool {
        self.next == self.count
    }

    /// How well the schedule was kept so far.
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// How late a packet may be before its deadline counts as missed.
    pub fn slack(&self) -> Span {
        self.slack
    }
}

/// Keeps one interrupt of each vector back until it is told.
struct HeldLine<'a> {
    line: &'a mut dyn IntrLine,
    /// In the order in which they were raised.
    held: &'a mut Vec<Interrupt>,
}

impl HeldLine<'_> {
    /// The most that are held back, so that nothing is allocated within a burst.
    const MOST: usize = 64;

    /// Lets the first so many go.
    fn release(&mut self, count: usize) {
        self.held.drain(..count).for_each(|interrupt| self.line.signal(interrupt));
    }
}

impl IntrLine for HeldLine<'_> {
    /// Of one vector, a second lets the first go, and what was raised before that: none is ever
    /// swallowed, and none overtakes another.
    fn signal(&mut self, interrupt: Interrupt) {
        let same_way = |held: &Interrupt| match (*held, interrupt) {
            (Interrupt::Msi(held), Interrupt::Msi(message)) => held == message,
            (Interrupt::Intx(_), Interrupt::Intx(_)) => true,
            _ => false,
        };
        if let Some(first) = self.held.iter().position(same_way) {
            self.release(first + 1);
        } else if self.held.len() == Self::MOST {
            self.release(1);
        }
        self.held.push(interrupt);
    }

    /// Nobody waits for the end of a burst with it.
    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.line.signal_any_time(interrupt);
    }

    fn work_ahead(&mut self) {
        self.line.work_ahead();
    }

    fn has_hotplug(&self) -> bool {
        self.line.has_hotplug()
    }

    fn set_present(&mut self, present: bool) {
        self.line.set_present(present);
    }
}

#[cfg(test)]
mod tests;

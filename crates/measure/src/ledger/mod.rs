//! What became of each packet.
//!
//! ```text
//! planned ─┬─ injected ─┬─ no descriptor
//!          │            ├─ filtered (of these: while not receiving)
//!          │            ├─ DMA error
//!          │            └─ on the ring ─┬─ accepted ─┬─ delivered
//!          └─ (not injected: the run    │            ├─ unclaimed (no application was meant)
//!              was cut short)           │            └─ lost in the stack
//!                                       └─ lost on the ring
//! ```
//!
//! Two more leaves of "injected" are filled by faults only: frames that the NIC never completed, and
//! frames on the ring with an error mark, which the driver gave back and refused.
//!
//! Every packet is in exactly one leaf, because a packet's state is one small number and the
//! columns are counted from these. What does not fit, such as a delivery of a packet that never
//! went on a ring, changes no column: it is counted as unaccounted for, and fails the run.
//!
//! A driver accepts in order, so the NIC's model only counts, and the ledger gives the count to the
//! packets that went on the ring first. A packet that reached the application has been accepted
//! whatever the count says: drivers may give descriptors back late, many at a time.
//!
//! Memory: half a byte a packet, and 28 bytes more for their times in runs of up to
//! [`Ledger::DETAILED_ROWS`] packets.

mod states;
mod times;
mod totals;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};

use states::{State, States};
use times::Times;
pub use totals::{Contradictions, Totals, Unaccounted};

use crate::{Distribution, Hiccups, IntervalRecorder, IntervalStats, Samples};

/// What a NIC did with a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No descriptor was free.
    NoDescriptor,
    /// The receive filter kept it out.
    Filtered,
    /// The receiver was off.
    NotReceiving,
    /// Descriptor or buffer could not be reached.
    DmaError,
    /// It is on the ring.
    OnRing,
    /// It is on the ring, with an error mark for which the driver refuses it.
    OnRingDamaged,
    /// It is in memory, and its descriptor is never completed.
    NotCompleted,
}

/// A packet that has been injected.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its sequence number, from 0 on.
    pub sequence: u64,
    /// When it was to be injected.
    pub planned: Time,
    /// When it was.
    pub injected: Time,
    /// How long that took.
    pub took: Span,
    /// What the NIC did with it.
    pub outcome: Outcome,
}

/// Packets with consecutive sequence numbers that the application says it received. The numbers
/// come from the target and are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The first sequence number.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// When.
    pub at: Time,
}

/// How far one packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was never injected.
    NotInjected,
    /// No descriptor was free.
    NoDescriptor,
    /// The receive filter kept it out.
    Filtered,
    /// The receiver was off.
    NotReceiving,
    /// Descriptor or buffer could not be reached.
    DmaError,
    /// Its descriptor was never completed.
    NotCompleted,
    /// The driver gave its descriptor back, and refused it for its error mark.
    Refused,
    /// On the ring, and the driver never took it.
    LostOnRing,
    /// The driver took it, and nobody else was meant to.
    Unclaimed,
    /// The driver took it, and it never reached the application.
    LostInStack,
    /// It reached the application.
    Delivered,
}

/// One packet's row. Times are `None` where they are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Sequence number.
    pub sequence: u64,
    /// How far it came.
    pub fate: Fate,
    /// When it was to be injected.
    pub planned: Option<Time>,
    /// When it was.
    pub injected: Option<Time>,
    /// How long the injection took.
    pub took: Option<Span>,
    /// When the support side noticed that the driver had accepted it: not before it did, possibly
    /// later.
    pub accepted: Option<Time>,
    /// When the application received it.
    pub delivered: Option<Time>,
}

/// What became of each packet of a run.
#[derive(Debug)]
pub struct Ledger {
    states: States,
    times: Option<Times>,
    /// The next sequence number that is not injected yet.
    next: u64,
    /// Of the packets before this one it is decided whether the driver accepted them.
    decided: u64,
    /// Frames on the ring that are not ours: so many before this sequence number.
    foreign: VecDeque<(u64, u64)>,
    accepted_seen: u64,
    abandoned_seen: u64,
    foreign_accepted: u64,
    driver_counter: Option<u64>,
    driver_errors: Option<u64>,
    contradictions: Contradictions,
}

impl Ledger {
    /// In runs of up to so many packets the times of each are kept.
    pub const DETAILED_ROWS: u64 = 1_000_000;

    /// Places in the ring's order at which frames of others are remembered.
    const FOREIGN_PLACES: usize = 65_536;

    /// A ledger for `planned` packets. All of its memory is allocated, and touched, here.
    pub fn new(planned: u64) -> Ledger {
        let detailed = planned <= Self::DETAILED_ROWS;
        Ledger {
            states: States::new(planned),
            times: detailed.then(|| Times::new(planned as usize)),
            next: 0,
            decided: 0,
            foreign: VecDeque::new(),
            accepted_seen: 0,
            abandoned_seen: 0,
            foreign_accepted: 0,
            driver_counter: None,
            driver_errors: None,
            contradictions: Contradictions::default(),
        }
    }

    /// No application is meant to receive these packets: the driver is where they end.
    #[must_use]
    pub fn without_application(self) -> Ledger {
        Ledger { states: self.states.without_application(), ..self }
    }

    /// Whether the times of each packet are kept.
    pub fn is_detailed(&self) -> bool {
        self.times.is_some()
    }

    /// A packet has been injected. Packets come in the order of their sequence numbers; one that
    /// does not is unaccounted for.
    #[inline]
    pub fn injected(&mut self, packet: &Packet) {
        if packet.sequence != self.next || packet.sequence >= self.states.len() {
            self.contradictions.injected_out_of_order += 1;
            return;
        }
        self.next += 1;
        self.states.set(packet.sequence, packet.outcome.into());
        if let Some(times) = &mut self.times {
            times.injected(packet);
        }
    }

    /// Frames that are not of this run (replies to the target's own packets, say) went on the ring
    /// behind the last packet that was injected.
    pub fn foreign_on_ring(&mut self, count: u64) {
        let room = self.foreign.len() < Self::FOREIGN_PLACES;
        match self.foreign.back_mut() {
            _ if count == 0 => {}
            Some((before, frames)) if *before == self.next => *frames += count,
            _ if room => self.foreign.push_back((self.next, count)),
            _ => self.contradictions.foreign_not_placed += count,
        }
    }

    /// The driver has accepted so many frames in all since the run began, and so many were thrown
    /// away with a ring; `seen` is when this was noticed. Both count frames of others too.
    pub fn progress(&mut self, accepted: u64, abandoned: u64, seen: Time) {
        if accepted < self.accepted_seen || abandoned < self.abandoned_seen {
            self.contradictions.counter_went_back += 1;
            return;
        }
        let taken = accepted - std::mem::replace(&mut self.accepted_seen, accepted);
        self.decide(taken, State::Accepted, seen);
        let thrown_away = abandoned - std::mem::replace(&mut self.abandoned_seen, abandoned);
        self.decide(thrown_away, State::Abandoned, seen);
    }

    /// Gives the next `frames` of the ring to `state`.
    fn decide(&mut self, mut frames: u64, state: State, seen: Time) {
        while frames > 0 {
            if let Some((before, foreign)) = self.foreign.front_mut()
                && *before <= self.decided
            {
                let skipped = frames.min(*foreign);
                *foreign -= skipped;
                frames -= skipped;
                self.foreign_accepted += if state == State::Accepted { skipped } else { 0 };
                if *foreign == 0 {
                    self.foreign.pop_front();
                }
                continue;
            }
            if self.decided == self.next {
                add(&mut self.contradictions.accepted_never_on_ring, frames);
                return;
            }
            let sequence = self.decided;
            self.decided += 1;
            let state = match (self.states.get(sequence), state) {
                (State::OnRing, state) => state,
                (State::Damaged, State::Accepted) => State::Refused,
                (State::Damaged, state) => state,
                _ => continue,
            };
            frames -= 1;
            self.states.set(sequence, state);
            if let (Some(times), State::Accepted) = (&mut self.times, state) {
                times.accepted(sequence, seen);
            }
        }
    }

    /// The application received these.
    pub fn delivered(&mut self, run: Delivery) {
        let len = self.states.len();
        let first = run.first.min(len);
        let inside = run.count.min(len - first);
        add(&mut self.contradictions.delivered_out_of_range, run.count - inside);
        // A target may claim anything again and again; beyond a point it is not worth walking
        // through, and which kind of nonsense it is does not matter.
        let nonsense = &mut self.contradictions.delivered_twice;
        if nonsense.saturating_add(self.contradictions.delivered_never_on_ring) > len {
            add(nonsense, inside);
            return;
        }
        for sequence in first..first + inside {
            self.deliver(sequence, run.at);
        }
    }

    fn deliver(&mut self, sequence: u64, at: Time) {
        if !self.states.get(sequence).was_on_ring() {
            add(&mut self.contradictions.delivered_never_on_ring, 1);
        } else if self.states.mark_delivered(sequence) {
            if let Some(times) = &mut self.times {
                times.delivered(sequence, at);
            }
        } else {
            add(&mut self.contradictions.delivered_twice, 1);
        }
    }

    /// The application received so many packets again; it does not say which.
    pub fn delivered_again(&mut self, packets: u64) {
        add(&mut self.contradictions.delivered_twice, packets);
    }

    /// What the driver's own counter says that it received since the run began, frames of others
    /// included. A difference is unaccounted for.
    pub fn driver_counter(&mut self, packets: u64) {
        self.driver_counter = Some(packets);
    }

    /// What the driver's own counter says that it received with errors since the run began. A
    /// difference from the packets that it refused is unaccounted for.
    pub fn driver_errors(&mut self, packets: u64) {
        self.driver_errors = Some(packets);
    }

    /// Frames of others that the driver accepted.
    pub fn foreign_accepted(&self) -> u64 {
        self.foreign_accepted
    }

    /// Packets that have been injected so far.
    pub fn injected_count(&self) -> u64 {
        self.next
    }

    /// The columns.
    pub fn totals(&self) -> Totals {
        let mut contradictions = self.contradictions;
        let columns = Totals::from_states(&self.states);
        if let Some(counter) = self.driver_counter {
            let accepted = columns.accepted + self.foreign_accepted;
            contradictions.driver_counter_differs = counter.abs_diff(accepted);
        }
        if let Some(errors) = self.driver_errors {
            contradictions.driver_errors_differ = errors.abs_diff(columns.refused);
        }
        columns.with(contradictions)
    }

    /// An error if anything is unaccounted for.
    pub fn check(&self) -> Result<(), Unaccounted> {
        self.totals().check()
    }

    /// Every packet, in order; the times only if [`Ledger::is_detailed`].
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.states.len()).map(|sequence| self.row(sequence))
    }

    /// Intervals between the injections of bursts of `packets_per_interrupt` packets, worked out
    /// afterwards, so that the loop that injects need not. `None` if there are fewer than two, or
    /// if times are not kept; then only an [`IntervalRecorder`] that was there can tell.
    pub fn injected_intervals(
        &self,
        requested: Option<Span>,
        packets_per_interrupt: u32,
        hiccups: &Hiccups,
    ) -> Option<IntervalStats> {
        let mut recorder = IntervalRecorder::new(requested);
        let mut last = None;
        let step = packets_per_interrupt.max(1) as usize;
        for at in self.rows().step_by(step).filter_map(|row| row.injected) {
            let in_hiccup = last.is_some_and(|last| hiccups.touch(last, at));
            recorder.seen(at, in_hiccup);
            last = Some(at);
        }
        recorder.stats()
    }

    /// How long injections took, worked out afterwards. `None` if there was none or times are not
    /// kept.
    pub fn inject_times(&self) -> Option<Distribution> {
        let mut samples = Samples::new();
        self.rows().filter_map(|row| row.took).for_each(|took| samples.record(took));
        samples.summary()
    }

    fn row(&self, sequence: u64) -> Row {
        let fate = self.states.fate(sequence);
        let unknown = Row {
            sequence,
            fate,
            planned: None,
            injected: None,
            took: None,
            accepted: None,
            delivered: None,
        };
        match &self.times {
            Some(times) if fate != Fate::NotInjected => times.fill(unknown),
            _ => unknown,
        }
    }
}

/// Counters that a target can drive stop at the top rather than wrap.
fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

#[cfg(test)]
mod tests;

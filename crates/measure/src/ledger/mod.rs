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
//! A driver accepts the frames of one receive queue in order, so the NIC's model only counts, queue by
//! queue, and the ledger gives the count to the packets that went on that queue's ring first. A packet
//! that reached the application has been accepted whatever the count says: drivers may give
//! descriptors back late, many at a time.
//!
//! Memory: half a byte a packet; with more than one queue 1 to 16 bits more for the queue's number;
//! and 28 bytes for the times in runs of up to [`Ledger::DETAILED_ROWS`] packets.

mod packet;
mod queues;
mod states;
mod times;
mod totals;

use warikomi_clock::{Span, Time};

pub use packet::{Delivery, Fate, Outcome, Packet, Row};
use queues::{Queue, QueueNumbers, Taken};
use states::{State, States};
use times::Times;
pub use totals::{Contradictions, Totals, Unaccounted};

use crate::{Distribution, Hiccups, IntervalRecorder, IntervalStats, Samples};

/// What became of each packet of a run.
#[derive(Debug)]
pub struct Ledger {
    states: States,
    times: Option<Times>,
    /// The next sequence number that is not injected yet.
    next: u64,
    queues: Vec<Queue>,
    numbers: QueueNumbers,
    foreign_accepted: u64,
    driver_counter: Option<u64>,
    driver_errors: Option<u64>,
    contradictions: Contradictions,
}

impl Ledger {
    /// In runs of up to so many packets the times of each are kept.
    pub const DETAILED_ROWS: u64 = 1_000_000;

    /// A ledger for `planned` packets. All of its memory is allocated, and touched, here.
    pub fn new(planned: u64) -> Ledger {
        let detailed = planned <= Self::DETAILED_ROWS;
        Ledger {
            states: States::new(planned),
            times: detailed.then(|| Times::new(planned as usize)),
            next: 0,
            queues: vec![Queue::default()],
            numbers: QueueNumbers::default(),
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

    /// The NIC has so many receive queues, at least 1, and not 1 as otherwise.
    #[must_use]
    pub fn with_queues(self, queues: u16) -> Ledger {
        let numbers = QueueNumbers::new(self.states.len(), queues);
        Ledger { queues: vec![Queue::default(); queues.max(1).into()], numbers, ..self }
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
        let state = State::from(packet.outcome);
        self.states.set(packet.sequence, state);
        let mut queue = packet.queue;
        if usize::from(queue) >= self.queues.len() {
            self.contradictions.queue_that_is_not_there += 1;
            queue = 0;
        }
        self.numbers.set(packet.sequence, queue);
        if state.is_undecided() {
            self.queues[usize::from(queue)].joined(packet.sequence);
        }
        if let Some(times) = &mut self.times {
            times.injected(packet);
        }
    }

    /// Frames that are not of this run (replies to the target's own packets, say) went on a queue's
    /// ring behind the last packet that was injected.
    pub fn foreign_on_ring(&mut self, queue: u16, count: u64) {
        let placed = match self.queues.get_mut(usize::from(queue)) {
            Some(queue) => queue.foreign_joined(self.next, count),
            None => false,
        };
        if !placed {
            self.contradictions.foreign_not_placed += count;
        }
    }

    /// The driver has accepted so many frames of a queue in all since the run began, and so many were
    /// thrown away with its ring; `seen` is when this was noticed. Both count frames of others too.
    pub fn progress(&mut self, queue: u16, accepted: u64, abandoned: u64, seen: Time) {
        let Some(counts) = self.queues.get_mut(usize::from(queue)) else {
            self.contradictions.queue_that_is_not_there += 1;
            return;
        };
        match counts.advanced(accepted, abandoned) {
            Some((taken, thrown_away)) => {
                self.decide(queue, taken, State::Accepted, seen);
                self.decide(queue, thrown_away, State::Abandoned, seen);
            }
            None => self.contradictions.counter_went_back += 1,
        }
    }

    /// Gives the next `frames` of a queue's ring to `state`.
    fn decide(&mut self, queue: u16, mut frames: u64, state: State, seen: Time) {
        let Ledger { states, numbers, .. } = self;
        let ring = &mut self.queues[usize::from(queue)];
        while frames > 0 {
            let undecided = |at| numbers.get(at) == queue && states.get(at).is_undecided();
            match ring.take(frames, undecided) {
                Taken::Foreign(taken) => {
                    frames -= taken;
                    self.foreign_accepted += if state == State::Accepted { taken } else { 0 };
                }
                Taken::Packet(sequence) => {
                    frames -= 1;
                    let state = match (states.get(sequence), state) {
                        (State::Damaged, State::Accepted) => State::Refused,
                        (_, state) => state,
                    };
                    states.set(sequence, state);
                    if let (Some(times), State::Accepted) = (&mut self.times, state) {
                        times.accepted(sequence, seen);
                    }
                }
                Taken::Nothing => {
                    add(&mut self.contradictions.accepted_never_on_ring, frames);
                    return;
                }
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
        let mut columns = Totals::default();
        (0..self.states.len()).for_each(|sequence| columns.count(self.states.fate(sequence)));
        let columns = columns.summed();
        if let Some(counter) = self.driver_counter {
            let accepted = columns.accepted + self.foreign_accepted;
            contradictions.driver_counter_differs = counter.abs_diff(accepted);
        }
        if let Some(errors) = self.driver_errors {
            contradictions.driver_errors_differ = errors.abs_diff(columns.refused);
        }
        columns.with(contradictions)
    }

    /// The columns of each receive queue, by its number. Which queue a packet is for shows when it is
    /// injected, so what is planned of a queue is what is injected, and what contradicts the columns is
    /// in [`totals`](Self::totals) alone.
    pub fn queue_totals(&self) -> Vec<Totals> {
        let mut totals = vec![Totals::default(); self.queues.len()];
        for sequence in 0..self.next {
            if let Some(queue) = totals.get_mut(usize::from(self.numbers.get(sequence))) {
                queue.count(self.states.fate(sequence));
            }
        }
        totals.into_iter().map(Totals::summed).collect()
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

    /// How long packets took from their injection until they were delivered. `None` if none was, or times are not kept.
    pub fn delivery_times(&self) -> Option<Distribution> {
        let mut samples = Samples::new();
        let took = |row: Row| Some(row.delivered?.since(row.injected?));
        self.rows().filter_map(took).for_each(|took| samples.record(took));
        samples.summary()
    }

    fn row(&self, sequence: u64) -> Row {
        let fate = self.states.fate(sequence);
        let unknown = Row {
            sequence,
            fate,
            queue: (fate != Fate::NotInjected).then(|| self.numbers.get(sequence)),
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

//! What the loop that injects writes down: everything preallocated, nothing that waits.

use warikomi_clock::{Span, Time};
use warikomi_inject::{Injection, Plan, Receiver, Recorder};
use warikomi_measure::{
    BothHiccups, Distribution, Hiccups, IntervalRecorder, IntervalStats, Ledger, Outcome, Packet,
    Samples,
};
use warikomi_nic::{InterruptRecord, Nic, RxCounters, RxOutcome};
use warikomi_pci::Host;
use warikomi_target::Target;

/// Interrupts whose times are kept: 24 bytes each.
const MAX_INTERRUPTS_KEPT: u64 = 1_000_000;

/// What is summed up on the way in runs of very many packets.
struct Live {
    injected: IntervalRecorder,
    inject_time: Samples,
    hiccups_at_last: u64,
}

/// What is on the ring of one receive queue.
#[derive(Clone, Copy, Default)]
struct QueueRecords {
    /// The NIC's counts when the run began.
    base: RxCounters,
    /// Packets of the run.
    on_ring: u64,
    /// Frames of others that were there when the run began.
    before: u64,
    /// Frames of others since.
    foreign: u64,
}

/// The records of one run.
pub(super) struct Records {
    pub(super) ledger: Ledger,
    /// Kept while injecting only where the ledger does not keep the times themselves: histograms
    /// double the cost of a pass.
    live: Option<Live>,
    pub(super) raised: Option<IntervalStats>,
    pub(super) handler: Option<IntervalStats>,
    pub(super) hiccups: BothHiccups,
    pub(super) planned: u64,
    requested: Option<Span>,
    packets_per_interrupt: u32,
    queues: Vec<QueueRecords>,
}

impl Records {
    /// For a NIC whose receive queues have counted `base` so far.
    pub(super) fn new(plan: &Plan, base: &[RxCounters]) -> Records {
        let requested = plan.comparable_interval();
        let ledger = Ledger::new(plan.count).with_queues(base.len() as u16);
        let mut ledger = match plan.receiver {
            Receiver::Application | Receiver::SecondCard => ledger,
            Receiver::Driver => ledger.without_application(),
        };
        let queue = |&base: &RxCounters| {
            let before = base.on_ring.saturating_sub(base.accepted + base.abandoned);
            QueueRecords { base, before, ..QueueRecords::default() }
        };
        let queues: Vec<_> = base.iter().map(queue).collect();
        for (number, queue) in (0..).zip(&queues) {
            ledger.foreign_on_ring(number, queue.before);
        }
        let live = (!ledger.is_detailed()).then(|| Live {
            injected: IntervalRecorder::new(requested),
            inject_time: Samples::new(),
            hiccups_at_last: 0,
        });
        Records {
            ledger,
            live,
            raised: None,
            handler: None,
            hiccups: BothHiccups { support: Hiccups::new(hiccup_threshold(plan)), target: None },
            planned: plan.count,
            requested,
            packets_per_interrupt: plan.packets_per_interrupt,
            queues,
        }
    }

    /// How many interrupts the NIC should keep the times of.
    pub(super) fn interrupts_to_keep(plan: &Plan) -> usize {
        plan.count.min(MAX_INTERRUPTS_KEPT) as usize
    }

    /// Looks at up to `limit` descriptors of each queue. Returns how many frames are on the rings and
    /// undecided.
    #[inline]
    pub(super) fn look(&mut self, nic: &mut dyn Nic, host: &mut Host<'_>, limit: usize) -> u64 {
        let now = host.now;
        let mut left = 0;
        for queue in 0..self.queues.len() as u16 {
            left += self.progress(queue, nic.rx_queue_progress(host, queue, limit), now);
        }
        left
    }

    /// Takes the NIC's counts of each queue, seen at `now`.
    pub(super) fn take(&mut self, counters: &[RxCounters], now: Time) {
        for (queue, counters) in (0..self.queues.len() as u16).zip(counters) {
            self.progress(queue, *counters, now);
        }
    }

    /// Takes the NIC's counts of a queue, seen at `now`. Returns how many frames are on its ring and
    /// undecided.
    #[inline]
    fn progress(&mut self, number: u16, counters: RxCounters, now: Time) -> u64 {
        let queue = &mut self.queues[usize::from(number)];
        let on_ring = counters.on_ring - queue.base.on_ring;
        let foreign = on_ring.saturating_sub(queue.on_ring + queue.foreign);
        self.ledger.foreign_on_ring(number, foreign);
        queue.foreign += foreign;
        let accepted = counters.accepted - queue.base.accepted;
        let abandoned = counters.abandoned - queue.base.abandoned;
        self.ledger.progress(number, accepted, abandoned, now);
        (on_ring + queue.before).saturating_sub(accepted + abandoned)
    }

    /// Takes the target's hiccups since this was last called.
    pub(super) fn take_hiccups(&mut self, target: &mut dyn Target) {
        let hiccups = self.hiccups.target.get_or_insert_default();
        if !target.take_hiccups(&mut |from, until| hiccups.seen(from, until)) {
            self.hiccups.target = None;
        }
    }

    /// Intervals between injections.
    pub(super) fn injected_intervals(&self) -> Option<IntervalStats> {
        match &self.live {
            Some(live) => live.injected.stats(),
            None => self.ledger.injected_intervals(
                self.requested,
                self.packets_per_interrupt,
                &self.hiccups.support,
            ),
        }
    }

    /// How long injections took.
    pub(super) fn inject_times(&self) -> Option<Distribution> {
        match &self.live {
            Some(live) => live.inject_time.summary(),
            None => self.ledger.inject_times(),
        }
    }

    /// Turns the NIC's log of interrupts into intervals, whichever vectors they are of. Those of several
    /// may be handled in another order than they are raised in.
    pub(super) fn interrupts(&mut self, log: &[InterruptRecord]) {
        self.raised = self.intervals_between(log.iter().map(|record| record.raised));
        let handled = log.iter().map(|record| record.handled).filter(|at| *at != Time::NEVER);
        self.handler = if handled.clone().is_sorted() {
            self.intervals_between(handled)
        } else {
            let mut handled: Vec<Time> = handled.collect();
            handled.sort_unstable();
            self.intervals_between(handled.into_iter())
        };
    }

    /// With a recorder that lives no longer than this: its histograms take 3.7 MB.
    fn intervals_between(&self, times: impl Iterator<Item = Time>) -> Option<IntervalStats> {
        let mut intervals = IntervalRecorder::new(self.requested);
        let mut last = None;
        for at in times {
            let not_running = |last| self.hiccups.not_running(last, at).any();
            intervals.seen(at, last.replace(at).is_some_and(not_running));
        }
        intervals.stats()
    }
}

impl Recorder for Records {
    #[inline]
    fn injected(&mut self, injection: &Injection) {
        let took = injection.ended.since(injection.started);
        if let Some(queue) = self.queues.get_mut(usize::from(injection.queue)) {
            queue.on_ring += u64::from(injection.outcome.is_on_ring());
        }
        self.ledger.injected(&Packet {
            sequence: injection.sequence,
            planned: injection.planned,
            injected: injection.started,
            took,
            queue: injection.queue,
            outcome: outcome(injection.outcome),
        });
        let Some(live) = &mut self.live else { return };
        live.inject_time.record(took);
        if injection.first_of_burst {
            let hiccups = self.hiccups.support.count();
            let in_hiccup = std::mem::replace(&mut live.hiccups_at_last, hiccups) != hiccups;
            live.injected.seen(injection.started, in_hiccup);
        }
    }
}

fn outcome(outcome: RxOutcome) -> Outcome {
    match outcome {
        RxOutcome::OnRing => Outcome::OnRing,
        RxOutcome::OnRingDamaged => Outcome::OnRingDamaged,
        RxOutcome::NotCompleted => Outcome::NotCompleted,
        RxOutcome::NoDescriptor => Outcome::NoDescriptor,
        RxOutcome::Filtered => Outcome::Filtered,
        RxOutcome::NotReceiving => Outcome::NotReceiving,
        RxOutcome::DmaError => Outcome::DmaError,
    }
}

/// A pass of the loop injects at most one burst. Copying it into memory that the other core has
/// just read takes up to a nanosecond for every four bytes; what takes longer is a hiccup.
fn hiccup_threshold(plan: &Plan) -> Span {
    let burst_bytes = plan.size_bytes as u64 * u64::from(plan.packets_per_interrupt);
    Hiccups::DEFAULT_THRESHOLD + Span::from_ps(burst_bytes * 250)
}

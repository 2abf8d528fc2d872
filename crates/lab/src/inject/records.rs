//! What the loop that injects writes down: everything preallocated, nothing that waits.

use warikomi_clock::{Span, Time};
use warikomi_inject::{Injection, Plan, Receiver, Recorder};
use warikomi_measure::{
    Distribution, Hiccups, IntervalRecorder, IntervalStats, Ledger, Outcome, Packet, Samples,
};
use warikomi_nic::{InterruptRecord, RxCounters, RxOutcome};

/// Interrupts whose times are kept: 16 bytes each.
const MAX_INTERRUPTS_KEPT: u64 = 1_000_000;

/// What is summed up on the way in runs of very many packets.
struct Live {
    injected: IntervalRecorder,
    inject_time: Samples,
    hiccups_at_last: u64,
}

/// The records of one run.
pub(super) struct Records {
    pub(super) ledger: Ledger,
    /// Kept while injecting only where the ledger does not keep the times themselves: histograms
    /// double the cost of a pass.
    live: Option<Live>,
    pub(super) raised: IntervalRecorder,
    pub(super) handler: IntervalRecorder,
    pub(super) hiccups: Hiccups,
    pub(super) planned: u64,
    requested: Option<Span>,
    packets_per_interrupt: u32,
    on_ring: u64,
    base: RxCounters,
    /// Frames of others that were on the ring when the run began.
    before: u64,
    foreign: u64,
}

impl Records {
    pub(super) fn new(plan: &Plan, base: RxCounters) -> Records {
        let requested = plan.comparable_interval();
        let mut ledger = match plan.receiver {
            Receiver::Application => Ledger::new(plan.count),
            Receiver::Driver => Ledger::new(plan.count).without_application(),
        };
        let before = base.on_ring.saturating_sub(base.accepted + base.abandoned);
        ledger.foreign_on_ring(before);
        let live = (!ledger.is_detailed()).then(|| Live {
            injected: IntervalRecorder::new(requested),
            inject_time: Samples::new(),
            hiccups_at_last: 0,
        });
        Records {
            ledger,
            live,
            raised: IntervalRecorder::new(requested),
            handler: IntervalRecorder::new(requested),
            hiccups: Hiccups::new(hiccup_threshold(plan)),
            planned: plan.count,
            requested,
            packets_per_interrupt: plan.packets_per_interrupt,
            on_ring: 0,
            base,
            before,
            foreign: 0,
        }
    }

    /// How many interrupts the NIC should keep the times of.
    pub(super) fn interrupts_to_keep(plan: &Plan) -> usize {
        plan.count.min(MAX_INTERRUPTS_KEPT) as usize
    }

    /// Takes the NIC's counts, seen at `now`. Returns how many frames are on the ring and undecided.
    #[inline]
    pub(super) fn progress(&mut self, counters: RxCounters, now: Time) -> u64 {
        let on_ring = counters.on_ring - self.base.on_ring;
        let foreign = on_ring.saturating_sub(self.on_ring + self.foreign);
        self.ledger.foreign_on_ring(foreign);
        self.foreign += foreign;
        let accepted = counters.accepted - self.base.accepted;
        let abandoned = counters.abandoned - self.base.abandoned;
        self.ledger.progress(accepted, abandoned, now);
        (on_ring + self.before).saturating_sub(accepted + abandoned)
    }

    /// Intervals between injections.
    pub(super) fn injected_intervals(&self) -> Option<IntervalStats> {
        match &self.live {
            Some(live) => live.injected.stats(),
            None => self.ledger.injected_intervals(
                self.requested,
                self.packets_per_interrupt,
                &self.hiccups,
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

    /// Turns the NIC's log of interrupts into intervals.
    pub(super) fn interrupts(&mut self, log: &[InterruptRecord]) {
        let mut last_raised = None;
        let mut last_handled = None;
        for record in log {
            let touched = |from: &mut Option<_>, until| {
                from.replace(until).is_some_and(|from| self.hiccups.touch(from, until))
            };
            let in_hiccup = touched(&mut last_raised, record.raised);
            self.raised.seen(record.raised, in_hiccup);
            if record.handled != Time::NEVER {
                let in_hiccup = touched(&mut last_handled, record.handled);
                self.handler.seen(record.handled, in_hiccup);
            }
        }
    }
}

impl Recorder for Records {
    #[inline]
    fn injected(&mut self, injection: &Injection) {
        let took = injection.ended.since(injection.started);
        self.on_ring += u64::from(injection.outcome.is_on_ring());
        self.ledger.injected(&Packet {
            sequence: injection.sequence,
            planned: injection.planned,
            injected: injection.started,
            took,
            outcome: outcome(injection.outcome),
        });
        let Some(live) = &mut self.live else { return };
        live.inject_time.record(took);
        if injection.first_of_burst {
            let hiccups = self.hiccups.count();
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

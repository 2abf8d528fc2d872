//! Inject packets at the times of a plan, and account for each.
//!
//! The life of a packet:
//! 1. `Pacer::peek` gives a deadline. The loop (`spin`) polls the target and calls `Injector::step` with the
//!    time of that poll.
//! 2. When the deadline has come, `FrameTemplate::frame` patches the sequence number into the frame and works
//!    its check sequence out from eight table look-ups (CRC-32 is linear); with more than one flow it patches
//!    the source port in too, for two more.
//! 3. The model takes the frame (`crates/nic/src/rtl8168/rx.rs`): receiver on, link up, address filter,
//!    length, checksum verdict.
//! 4. Its `RxQueue` reads the descriptor's ownership word, then the rest of it, copies frame and check sequence
//!    into the buffer, and hands the descriptor over with one store. With no descriptor the frame is missed.
//! 5. The interrupt may rise. The outcome goes to `Ledger::injected`, with the deadline, the time at which the
//!    packet went out, and how long that took.
//! 6. The driver takes the frame and gives the descriptor back. `rx_progress` looks for that when nothing is
//!    due for 3 µs, queue by queue; a descriptor that is used again tells it at no cost. `Ledger::progress`
//!    gives the count to the packets that went on that queue's ring first: they are `accepted`.
//! 7. The stack above puts the payload into a socket. The application takes datagrams in batches and notes runs
//!    of sequence numbers with the TSC, which is the host's in a User Mode Linux process, too: the two sides
//!    share a time base.
//! 8. After the last packet the loop drains, until the driver has taken all or has taken nothing for 3 s. Then
//!    it waits until the application's count has stood still for 30 ms, stops the reception and fetches the
//!    runs. `Ledger::delivered` marks them.
//! 9. The interface's own `rx_packets` is compared with `accepted`. `Ledger::check` must find nothing.
//!
//! On this path nothing is allocated, and no system call is made but the write to the pipe that signals the
//! target (and, while a guest transmits, those that stop it), unless a frame is longer than the driver's buffer.
//! Ledger, histograms, interrupt log and hiccup log are allocated before. Housekeeping and wires do both.
//!
//! The payload begins with a magic number, a run id and the sequence number
//! (`crates/protocol/src/payload.rs`). The run id differs in every run, and between warm-up and run, so
//! stragglers are not taken for packets of this run.
//!
//! With faults in the plan, a driver that hangs does not end the run: what becomes of it is the verdict.

mod columns;
mod counts;
mod digest;
mod explain;
mod faults;
mod flags;
mod forwarded;
mod order;
mod records;
mod remarks;
mod run;
mod spin;

use records::Records;
use serde_json::Value;
use warikomi_clock::{Clock, Time, read_tsc};
use warikomi_inject::{Addresses, Plan, PlanError, Planned, Receiver, Source};
use warikomi_measure::{
    BothHiccups, Interrupts, Intervals, Ledger, Pacing, RunResult, Success, Thresholds, TimeBase,
    Unaccounted, warnings,
};
use warikomi_nic::InterruptRecord;
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_session::Session;
use warikomi_target::Target;

use crate::error::Error;
use crate::experiment::Conclusion;
use crate::strict::Found;
use crate::watch::Progress;

pub use explain::{Backlog, Explained, Unexplained};
pub use flags::Inject;
pub(crate) use flags::Ordered;
pub use order::{Application, Order};
pub use spin::LOOKED_AHEAD;

/// What came of an injection.
pub struct Injected {
    /// The figures.
    pub result: RunResult,
    /// What became of each packet.
    pub ledger: Ledger,
    /// The time of the first deadline; times in the samples count from here.
    pub start: Time,
    /// The first interrupts, up to a million, in order.
    pub interrupts: Vec<InterruptRecord>,
    /// When either side was not running.
    pub hiccups: BothHiccups,
    /// What the application in the target counted, if packets were meant for one.
    pub received: ReceiveTotals,
}

impl Injected {
    /// With the samples; failed if not every packet is accounted for.
    pub(crate) fn conclude(self) -> Conclusion {
        let failed = self.check().err().map(Error::from);
        let Injected { result, ledger, start, .. } = self;
        let mut conclusion = Conclusion::new(result);
        conclusion.failed = failed;
        conclusion.with(move |directory| match ledger.is_detailed() {
            true => directory.write_samples(start, ledger.rows()),
            false => Ok(()),
        })
    }

    /// An error if not every packet is accounted for, which is a bug of ours.
    pub fn check(&self) -> Result<(), Unaccounted> {
        self.ledger.check()
    }
}

/// Carries `plan` out on a session; may be called again and again. `run_id` tells this run's packets
/// from those of an earlier one.
pub fn inject(
    session: &mut Session,
    plan: &Plan,
    application: Application,
    run_id: u32,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Injected, Error> {
    let order = Order { plan, application, run_id, tape: None };
    inject_plan(session, &order, progress)
}

/// Injects what the order's plan says.
pub fn inject_plan(
    session: &mut Session,
    order: &Order<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Injected, Error> {
    let planned =
        |addresses: &Addresses, start| Planned::new(order.plan, addresses, order.run_id, start);
    inject_from(session, order, planned, progress)
}

/// Injects what `source` makes: as many packets as the order's plan says.
pub(crate) fn inject_from<S: Source>(
    session: &mut Session,
    order: &Order<'_>,
    source: impl FnOnce(&Addresses, Time) -> Result<S, PlanError>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Injected, Error> {
    let longest = session.target.card(warikomi_target::CardId::FIRST)?.0.info().max_frame_bytes;
    order.plan.validate_for(longest)?;
    let finished = run::carry_out(session, order, source, progress)?;
    let result = describe(session, order.plan, &finished);
    let run::Finished { records, start, interrupts, received, .. } = finished;
    let Records { ledger, hiccups, .. } = records;
    Ok(Injected { result, ledger, start, interrupts, hiccups, received })
}

fn describe(session: &Session, plan: &Plan, finished: &run::Finished) -> RunResult {
    let run::Finished { records, lateness, slack, sent, counted, elapsed, .. } = finished;
    let totals = records.ledger.totals();
    let mut result = RunResult::new("inject", time_base(session), finished.machine.clone());
    result.target = session.info.clone();
    if let Ok(Value::Object(plan)) = serde_json::to_value(plan) {
        result.plan = plan;
    }
    result.success = Success::of(&totals);
    result.throughput_bps = (elapsed.as_secs() > 0.0)
        .then(|| totals.accepted as f64 * plan.mean_frame_bytes() * 8.0 / elapsed.as_secs());
    result.intervals = Some(intervals(plan, records));
    result.pacing = (plan.spacing() > warikomi_clock::Span::ZERO).then_some(Pacing {
        missed_deadlines: lateness.missed_deadlines,
        slack_ns: slack.as_ns(),
        longest_lateness_ns: lateness.longest.as_ns(),
    });
    result.inject_ns = records.inject_times();
    result.interrupts = Some(Interrupts { resignalled: sent.resignalled, ..counted.clone() });
    if result.time_base == TimeBase::Real {
        result.hiccups = Some(records.hiccups.summary());
    } else {
        let digest = digest::digest(&records.ledger, &finished.interrupts, sent);
        result.figures.insert("digest".into(), digest.into());
    }
    result.figures.extend(finished.driver.clone());
    result.faults = finished.faults.clone();
    let cut_short = result.faults.as_ref().is_some_and(|report| report.evidence.ended.is_some());
    if let (Some(success), true) = (&mut result.success, cut_short) {
        // The guest took to its grave what its application had.
        success.end_to_end = None;
    }
    result.per_packet_times = records.ledger.is_detailed();
    result.ledger = Some(totals);
    let queues = records.ledger.queue_totals();
    result.queues = (queues.len() > 1).then_some(queues);
    result.warnings = warnings(&result, &Thresholds::default());
    result.warnings.extend(plan.arrival.is_fitted().then(remarks::fitted_arrivals));
    result.warnings.extend(finished.doubts.clone());
    result.warnings.extend(remarks::application(&finished.received));
    result.warnings.extend(remarks::target(sent, &session.target.counters()));
    result.warnings.extend(result.faults.as_ref().and_then(remarks::unanswered));
    if plan.receiver == Receiver::SecondCard {
        forwarded::put(&finished.passage, &records.ledger, &mut result);
    }
    if let Some(findings) = &finished.findings {
        Found::of(findings, finished.start, None).put(&mut result);
    }
    result
}

/// Different in every run, so that a packet of an earlier one is not taken for one of this. In virtual time a run is
/// known by when it began, because the number is in its packets, and two histories shall be the same.
pub(crate) fn run_id(target: &dyn Target) -> u32 {
    match target.clock() {
        Clock::Virtual(clock) => (clock.now().as_ps() / 1_000) as u32,
        Clock::Real(_) => read_tsc() as u32,
    }
}

/// Whether the time of a session is virtual.
pub(crate) fn time_base(session: &Session) -> TimeBase {
    if session.target.clock().is_virtual() { TimeBase::Virtual } else { TimeBase::Real }
}

fn intervals(plan: &Plan, records: &Records) -> Intervals {
    Intervals {
        requested_ns: plan.comparable_interval().map(|span| span.as_ns()),
        injected: records.injected_intervals(),
        raised: records.raised.clone(),
        handler: records.handler.clone(),
    }
}

#[cfg(test)]
mod tests {
    use warikomi_inject::{FITTED_JITTER, FITTED_LONGEST_OUTLIER};
    use warikomi_measure::published;

    #[test]
    fn a_real_nics_intervals_are_those_that_were_published() {
        let published = published::injection().interval_accuracy;
        assert_eq!(FITTED_JITTER.as_us(), published.real_nic_jitter_us);
        assert_eq!(FITTED_LONGEST_OUTLIER.as_us() / 1e6, published.real_nic_worst_outlier_s);
    }
}

//! The loop that injects, and what comes before and after it.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value};
use warikomi_clock::{Span, Time};
use warikomi_inject::{
    Addresses, HEADER_BYTES, Injector, Lateness, PAYLOAD_OFFSET, Plan, PlanError, Receiver, Source,
    UDP_PORT,
};
use warikomi_measure::{Delivery, FaultReport, Interrupts, Machine, VectorInterrupts, Warning};
use warikomi_nic::strict::Findings;
use warikomi_nic::{InterruptRecord, RxCounters};
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_protocol::commands::{ReceiveRuns, ReceiveStart, ReceiveStatus, ReceiveStop};
use warikomi_session::{CoreWatch, Exit, Session};
use warikomi_target::{CardId, Target, TargetCounters, TargetError};
use warikomi_trace::Recorded;

use super::counts::DriverCounts;
use super::faults::FaultWatch;
use super::forwarded::{self, Counted, Passage};
use super::order::{Application, Order};
use super::records::Records;
use super::remarks;
use super::spin::{AFTER_AT_MOST, Patience, drain, rx_counters, spin};
use crate::error::Error;
use crate::watch::Progress;

/// Time from bringing everything into place to the first deadline: longer than a target takes care of
/// a driver that has just read its statistics.
const LEAD: Span = Span::from_ms(2);

/// The application is taken to have everything when nothing came for this long.
const APPLICATION_QUIET: Duration = Duration::from_millis(30);

/// Deliveries are recorded in runs of 24 bytes each of the guest's memory.
const MAX_RUNS: u64 = 1 << 20;

/// What a run leaves.
pub(super) struct Finished {
    pub(super) records: Records,
    pub(super) start: Time,
    pub(super) elapsed: Span,
    pub(super) lateness: Lateness,
    pub(super) slack: Span,
    /// Interrupts, counted; how often they were signalled again is in `sent`.
    pub(super) counted: Interrupts,
    pub(super) interrupts: Vec<InterruptRecord>,
    pub(super) sent: TargetCounters,
    pub(super) machine: Machine,
    pub(super) received: ReceiveTotals,
    /// What came of packets that were forwarded.
    pub(super) passage: Passage,
    /// What a driver of ours counted meanwhile.
    pub(super) driver: Map<String, Value>,
    /// What came of the plan's faults, if it has any.
    pub(super) faults: Option<FaultReport>,
    /// The steps of the driver that it must not take, if the card is strict.
    pub(super) findings: Option<Findings>,
    /// What was waited for in vain.
    pub(super) doubts: Vec<Warning>,
}

impl Finished {
    /// Of a run that begins at `start`; with how much slack its deadlines are kept.
    fn begun(records: Records, (start, slack): (Time, Span), machine: Machine) -> Finished {
        Finished {
            records,
            start,
            elapsed: Span::ZERO,
            lateness: Lateness::default(),
            slack,
            counted: Interrupts::default(),
            interrupts: Vec::new(),
            sent: TargetCounters::default(),
            machine,
            received: ReceiveTotals::default(),
            passage: Passage::default(),
            driver: Map::new(),
            faults: None,
            findings: None,
            doubts: Vec::new(),
        }
    }

    /// Takes what our side knows, whatever has become of the guest.
    fn take_partial(&mut self, session: &mut Session, before: &Before) -> Result<(), TargetError> {
        let target = &mut *session.target;
        let (nic, mut host) = target.card(CardId::FIRST)?;
        self.records.look(nic, &mut host, usize::MAX);
        self.records.take_hiccups(target);
        (self.counted, self.interrupts) = take_interrupts(target, &mut self.records)?;
        self.sent = target.counters().since(&before.sent);
        self.machine = session.machine_since(&before.cores);
        Ok(())
    }
}

/// Carries `order` out; `source` makes what is injected, for the NIC's addresses and the time of the
/// first deadline.
pub(super) fn carry_out<S: Source>(
    session: &mut Session,
    order: &Order<'_>,
    source: impl FnOnce(&Addresses, Time) -> Result<S, PlanError>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Finished, Error> {
    let Order { plan, application, run_id, tape } = *order;
    let target = &mut *session.target;
    let possible = match plan.receiver {
        Receiver::Application => target.has_application(),
        Receiver::Driver => true,
        Receiver::SecondCard => session.exit.is_some(),
    };
    if !possible {
        return Err(Error::NoApplication);
    }
    let (nic, host) = target.card(CardId::FIRST)?;
    plan.validate_vectors(nic.vectors().count())?;
    plan.validate_hotplug(host.interrupts.has_hotplug())?;
    let addresses = forwarded::addresses(session.exit.as_ref(), nic.mac_address());
    let watch = FaultWatch::prepare(target, plan)?;
    if plan.receiver == Receiver::Application {
        start_application(target, plan, application, run_id)?;
    }
    warm_up(target, plan, (&addresses, run_id))?;
    if let Some(exit) = &session.exit {
        let mac = session.target.card(Exit::CARD)?.0.mac_address();
        forwarded::begin(exit, plan, (&addresses, mac), run_id)?;
    }
    let counts = Counts::take(session)?;
    let forwarded = Counted::ask(session)?;
    let sent = session.target.counters();
    let before = Before { counts, forwarded, sent, cores: session.watch_cores() };
    let target = &mut *session.target;
    let records = begin(target, plan, &before.counts.nic)?;
    let start = target.clock().now() + LEAD;
    let injector = Injector::of(source(&addresses, start)?);
    if let Some(watch) = &watch {
        watch.start(target, start)?;
    }
    if let Some(tape) = tape {
        target.slot(CardId::FIRST)?.change(|nic| Recorded::around(nic, Rc::clone(tape)));
    }
    let slack = injector.slack();
    let mut finished = Finished::begun(records, (start, slack), session.machine.clone());
    let ended = conduct(session, plan, injector, watch.as_ref(), &mut finished, &before, progress);
    if let Some(exit) = &session.exit {
        finished.passage.departed = forwarded::deliver(exit, &mut finished.records.ledger);
    }
    stop_recording(&mut *session.target)?;
    match watch {
        None => ended?,
        Some(watch) => {
            if ended.is_err() && finished.elapsed == Span::ZERO {
                finished.take_partial(session, &before)?;
            }
            let report = watch.judge(session, &finished.records.ledger, start, ended)?;
            finished.faults = Some(report);
        }
    }
    finished.findings =
        session.target.card(CardId::FIRST)?.0.strict().map(|strict| strict.findings());
    Ok(finished)
}

/// Injects what goes before that which counts.
fn warm_up(
    target: &mut dyn Target,
    plan: &Plan,
    (addresses, run_id): (&Addresses, u32),
) -> Result<(), Error> {
    let Some(warmup) = plan.warmup_plan() else { return Ok(()) };
    let mut injector = Injector::new(&warmup, addresses, !run_id, target.clock().now())?;
    let mut ignored = Records::new(&warmup, &rx_counters(target)?);
    spin(target, &mut injector, &mut ignored, Patience::Limited, &mut |_| ())?;
    drain(target, &mut ignored)?;
    Ok(())
}

/// Records of a run that begins now.
fn begin(
    target: &mut dyn Target,
    plan: &Plan,
    base: &[RxCounters],
) -> Result<Records, TargetError> {
    target.card(CardId::FIRST)?.0.probe().restart(Records::interrupts_to_keep(plan));
    // Those before the run are of no interest.
    target.take_hiccups(&mut |_, _| ());
    Ok(Records::new(plan, base))
}

/// What was counted before the run.
struct Before {
    counts: Counts,
    forwarded: Counted,
    sent: TargetCounters,
    cores: CoreWatch,
}

/// Injects, and collects what became of it, as far as the guest lives.
fn conduct(
    session: &mut Session,
    plan: &Plan,
    mut injector: Injector<impl Source>,
    watch: Option<&FaultWatch>,
    finished: &mut Finished,
    before: &Before,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Error> {
    let target = &mut *session.target;
    let records = &mut finished.records;
    let patience = if watch.is_some() { Patience::Endless } else { Patience::Limited };
    let spun = spin(target, &mut injector, records, patience, progress);
    finished.lateness = injector.lateness();
    spun?;
    if let Some(watch) = watch {
        // It looks at the NIC beneath.
        stop_recording(target)?;
        watch.end(target, &session.info.driver)?;
    }
    let target = &mut *session.target;
    let end = drain(target, records)?;
    stop_recording(target)?;
    finished.elapsed = end.since(finished.start);
    finished.take_partial(session, before)?;
    let target = &mut *session.target;
    let records = &mut finished.records;
    if plan.receiver == Receiver::Application {
        finished.received = stop_application(target, records, &mut finished.doubts)?;
    }
    if let Some(exit) = &session.exit {
        forwarded::wait_until_quiet(target, exit, &mut finished.doubts)?;
        target.card(Exit::CARD)?.0.wire().finish().map_err(Error::Wire)?;
        finished.passage.counted = Some(Counted::ask(session)?.since(&before.forwarded));
    }
    let target = &mut *session.target;
    target.card(CardId::FIRST)?.0.wire().finish().map_err(Error::Wire)?;
    let Counts { driver, nic, at_rest } = Counts::take(session)?;
    let clock = session.target.clock();
    records.take(&nic, clock.now());
    let (Some(driver), Some(driver_before)) = (driver, &before.counts.driver) else {
        finished.doubts.push(remarks::nothing_to_ask());
        return Ok(());
    };
    finished.driver = driver.figures_since(driver_before, clock);
    if watch.is_some_and(|watch| watch.is_anew(&mut *session.target)) {
        // The driver's own counts are those of another interface.
        return Ok(());
    }
    if !(at_rest && before.counts.at_rest) {
        finished.doubts.push(remarks::never_at_rest());
        return Ok(());
    }
    records.ledger.driver_counter(driver.received().saturating_sub(driver_before.received()));
    if watch.is_some() {
        records.ledger.driver_errors(driver.errors().saturating_sub(driver_before.errors()));
    }
    Ok(())
}

/// Takes the recorder away, if there is one.
fn stop_recording(target: &mut dyn Target) -> Result<(), TargetError> {
    let slot = target.slot(CardId::FIRST)?;
    if Recorded::is(&**slot) {
        slot.change(Recorded::removed);
    }
    Ok(())
}

/// The driver's own counts and the NIC's.
struct Counts {
    /// `None` if nothing in the target can be asked.
    driver: Option<DriverCounts>,
    /// Of each receive queue.
    nic: Vec<RxCounters>,
    /// Nothing moved between the two, so that they can be held against each other.
    at_rest: bool,
}

impl Counts {
    /// Takes them at rest if there is such a moment.
    fn take(session: &mut Session) -> Result<Counts, TargetError> {
        const TRIES: usize = 20;
        let (mut before, mut tries) = (rx_counters(&mut *session.target)?, 0);
        loop {
            tries += 1;
            let driver = DriverCounts::ask(session)?;
            let nic = rx_counters(&mut *session.target)?;
            let at_rest = before == nic;
            if at_rest || tries == TRIES {
                return Ok(Counts { driver, nic, at_rest });
            }
            before = nic;
        }
    }
}

/// Interrupts counted, and their times.
fn take_interrupts(
    target: &mut dyn Target,
    records: &mut Records,
) -> Result<(Interrupts, Vec<InterruptRecord>), TargetError> {
    if let Some(handlers) = target.handlers(CardId::FIRST) {
        handlers.note();
    }
    let (nic, _) = target.card(CardId::FIRST)?;
    let vectors = nic.vectors().count();
    let probe = nic.probe();
    let interrupts = probe.take_records();
    records.interrupts(&interrupts);
    let (raised, handled) = (probe.raised_count(), probe.handled_count());
    let counted = Interrupts { raised, handled, ..Interrupts::default() };
    if vectors == 1 {
        return Ok((counted, interrupts));
    }
    // The probe knows vectors up to the last that has ever been raised.
    let by_vector = probe.by_vector().chain(std::iter::repeat((0, 0)));
    let of_vector = |(vector, (raised, handled))| VectorInterrupts {
        vector,
        raised,
        handled,
        unhandled: raised.saturating_sub(handled),
    };
    let vectors = (0..vectors).zip(by_vector).map(of_vector).collect();
    Ok((Interrupts { vectors, ..counted }, interrupts))
}

fn start_application(
    target: &mut dyn Target,
    plan: &Plan,
    application: Application,
    run_id: u32,
) -> Result<(), TargetError> {
    let payload = plan.size_bytes - PAYLOAD_OFFSET;
    let start = ReceiveStart {
        buffer_bytes: application.socket_buffer_bytes,
        max_datagram_bytes: payload.max(HEADER_BYTES) as u32,
        max_runs: plan.count.clamp(1, MAX_RUNS) as u32,
        equal_priority: application.wait.is_some(),
        wait: application.wait.unwrap_or_default(),
        ..ReceiveStart::on_port(UDP_PORT, run_id)
    };
    target.ask(start, Duration::ZERO).map(|_| ())
}

/// Waits until nothing more reaches the application, then takes what it recorded.
fn stop_application(
    target: &mut dyn Target,
    records: &mut Records,
    doubts: &mut Vec<Warning>,
) -> Result<ReceiveTotals, TargetError> {
    let mut seen = target.ask(ReceiveStatus {}, Duration::ZERO)?.datagrams;
    let mut looks = AFTER_AT_MOST.as_millis() / APPLICATION_QUIET.as_millis();
    loop {
        target.serve_for(APPLICATION_QUIET)?;
        let now = target.ask(ReceiveStatus {}, Duration::ZERO)?.datagrams;
        if std::mem::replace(&mut seen, now) == now {
            break;
        }
        looks -= 1;
        if looks == 0 {
            doubts.push(remarks::never_quiet(AFTER_AT_MOST));
            break;
        }
    }
    let totals = target.ask(ReceiveStop {}, Duration::from_secs(2))?;
    records.ledger.delivered_again(totals.duplicates);
    let clock = target.clock();
    let mut from = 0;
    while from < totals.runs.min(MAX_RUNS) {
        let part = ReceiveRuns { from, max: ReceiveRuns::MOST };
        let runs = target.ask(part, Duration::from_secs(2))?.runs;
        if runs.is_empty() {
            break;
        }
        from += runs.len() as u64;
        for run in runs {
            let at = clock.at(run.2);
            records.ledger.delivered(Delivery { first: run.0, count: run.1, at });
        }
    }
    Ok(totals)
}

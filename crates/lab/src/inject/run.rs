//! The loop that injects, and what comes before and after it.

use std::rc::Rc;
use std::time::Duration;

use warikomi_clock::{Span, Time};
use warikomi_guest::answers::ReceiveTotals;
use warikomi_guest::commands::{Counters, ReceiveRuns, ReceiveStart, ReceiveStatus, ReceiveStop};
use warikomi_inject::trace::Recorded;
use warikomi_inject::{
    Addresses, HEADER_BYTES, Injector, Lateness, PAYLOAD_OFFSET, Plan, PlanError, Receiver, Source,
    Step, UDP_PORT,
};
use warikomi_measure::{Delivery, Machine};
use warikomi_nic::RxCounters;
use warikomi_target::kernel::KernelTarget;
use warikomi_target::{Target, TargetCounters, TargetError};

use super::records::Records;
use super::{Application, DRAIN_TIMEOUT, InjectError, Order, Progress};
use crate::Session;

/// Housekeeping takes a few microseconds; it is done when nothing is due for this long, ...
const ROOM_FOR_HOUSEKEEPING: Span = Span::from_us(20);
/// ... not more often than this, ...
const HOUSEKEEPING_EVERY: Span = Span::from_ms(1);
/// ... and at the latest after this, due or not: a guest that has panicked must be noticed.
const HOUSEKEEPING_AT_LAST: Span = Span::from_ms(50);

/// Looking whether the driver has given descriptors back costs the driver cache misses and us
/// 100 ns or so; it is done when nothing is due for this long.
const ROOM_FOR_PROGRESS: Span = Span::from_us(3);
/// Descriptors looked at in one go.
const PROGRESS_LIMIT: usize = 64;

/// Time from bringing everything into place to the first deadline: longer than a target takes care of
/// a driver that has just read its statistics.
const LEAD: Span = Span::from_ms(2);

/// The application is taken to have everything when nothing came for this long.
const APPLICATION_QUIET: Duration = Duration::from_millis(30);

/// A driver that neither accesses its NIC nor takes a frame from its ring for so long hangs.
const DRIVER_SILENCE: Duration = Duration::from_secs(5);

/// Whatever comes after the last packet is over by then, whatever the guest does.
const AFTER_AT_MOST: Duration = Duration::from_secs(30);

/// Deliveries are recorded in runs of 24 bytes each of the guest's memory.
const MAX_RUNS: u64 = 1 << 20;

/// What a run leaves.
pub(super) struct Finished {
    pub(super) records: Records,
    pub(super) start: Time,
    pub(super) elapsed: Span,
    pub(super) lateness: Lateness,
    pub(super) slack: Span,
    pub(super) raised: u64,
    pub(super) handled: u64,
    pub(super) sent: TargetCounters,
    pub(super) machine: Machine,
    pub(super) received: ReceiveTotals,
}

/// Carries `order` out; `source` makes what is injected, for the NIC's addresses and the time of the
/// first deadline.
pub(super) fn carry_out<S: Source>(
    session: &mut Session,
    order: &Order<'_>,
    source: impl FnOnce(&Addresses, Time) -> Result<S, PlanError>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Finished, InjectError> {
    let Order { plan, application, run_id, tape } = *order;
    let target = &mut session.target;
    let addresses = Addresses::to_guest(target.nic().0.mac_address());
    let listened = plan.receiver == Receiver::Application;
    if listened {
        start_application(target, plan, application, run_id)?;
    }
    if let Some(warmup) = plan.warmup_plan() {
        let mut injector = Injector::new(&warmup, &addresses, !run_id, target.clock().now())?;
        let mut ignored = Records::new(&warmup, rx_counters(target));
        spin(target, &mut injector, &mut ignored, &mut |_| ())?;
        drain(target, &mut ignored)?;
    }
    let (driver_before, base) = counts_at_rest(target)?;
    let sent_before = target.counters();
    session.watch_cores();
    let target = &mut session.target;
    let mut records = Records::new(plan, base);
    target.nic().0.probe().restart(Records::interrupts_to_keep(plan));
    let start = target.clock().now() + LEAD;
    let mut injector = Injector::of(source(&addresses, start)?);
    if let Some(tape) = tape {
        target.change_nic(|nic| Recorded::around(nic, Rc::clone(tape)));
    }
    let done = spin(target, &mut injector, &mut records, progress)
        .and_then(|()| drain(target, &mut records));
    if tape.is_some() {
        target.change_nic(Recorded::removed);
    }
    let end = done?;
    let (raised, handled) = take_interrupts(target, &mut records);
    let sent = target.counters().since(&sent_before);
    let machine = session.machine_now();
    let target = &mut session.target;
    let received =
        if listened { stop_application(target, &mut records)? } else { ReceiveTotals::default() };
    target.nic().0.wire().finish().map_err(InjectError::Wire)?;
    let (driver_after, last) = counts_at_rest(target)?;
    records.progress(last, target.clock().now());
    let counted = driver_after.saturating_sub(driver_before);
    records.ledger.driver_counter(counted);
    Ok(Finished {
        records,
        start,
        elapsed: end.since(start),
        lateness: injector.lateness(),
        slack: injector.slack(),
        raised,
        handled,
        sent,
        machine,
        received,
    })
}

/// Serves the driver and injects until the plan is carried out.
fn spin(
    target: &mut KernelTarget,
    injector: &mut Injector<impl Source>,
    records: &mut Records,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), TargetError> {
    let clock = target.clock();
    let total = records.planned;
    let mut kept_house = clock.now();
    let mut worked = false;
    let mut life = Life::default();
    loop {
        let pass = target.poll()?;
        let now = pass.at;
        let hiccups = &mut records.hiccups;
        let _ = if worked { hiccups.pass_after_work(now) } else { hiccups.pass(now) };
        worked = pass.worked;
        let (nic, mut host) = target.nic();
        match injector.step(&mut host, nic, || clock.now(), records) {
            Step::Done => return Ok(()),
            Step::Injected { .. } => worked = true,
            Step::Idle if injector.next_due().since(now) > ROOM_FOR_PROGRESS => {
                let counters = nic.rx_progress(&mut host, PROGRESS_LIMIT);
                records.progress(counters, now);
            }
            Step::Idle if target.shares_a_core() => std::thread::yield_now(),
            Step::Idle => {}
        }
        let since = now.since(kept_house);
        let room = injector.next_due().since(now) > ROOM_FOR_HOUSEKEEPING;
        if since > HOUSEKEEPING_AT_LAST || (room && since > HOUSEKEEPING_EVERY) {
            let (nic, mut host) = target.nic();
            let left = records.progress(nic.rx_progress(&mut host, PROGRESS_LIMIT), now);
            let counters = target.counters();
            life.look(
                now,
                left,
                (counters.accesses, records.ledger.injected_count().saturating_sub(left)),
            )?;
            target.housekeep()?;
            progress(Progress { done: injector.injected(), total });
            kept_house = clock.now();
            if room {
                records.hiccups.excuse(kept_house);
            }
        }
    }
}

/// Whether a driver that has frames on its ring does anything at all.
#[derive(Default)]
struct Life {
    seen: (u64, u64),
    at: Option<Time>,
}

impl Life {
    /// `sign` changes whenever the driver accesses the NIC or takes a frame.
    fn look(&mut self, now: Time, left: u64, sign: (u64, u64)) -> Result<(), TargetError> {
        let since = *self.at.get_or_insert(now);
        if left == 0 || self.seen != sign {
            (self.seen, self.at) = (sign, Some(now));
        } else if now.since(since) > Span::from_ms(DRIVER_SILENCE.as_millis() as u64) {
            return Err(TargetError::Hung { frames: left, within: DRIVER_SILENCE });
        }
        Ok(())
    }
}

/// Waits until the driver has taken what is on the ring, or does not any more; returns when it had
/// taken the last.
fn drain(target: &mut KernelTarget, records: &mut Records) -> Result<Time, TargetError> {
    let begun = target.clock().now();
    let (mut last_change, mut last_left) = (begun, u64::MAX);
    loop {
        for _ in 0..64 {
            target.poll()?;
        }
        let (nic, mut host) = target.nic();
        let (counters, now) = (nic.rx_progress(&mut host, usize::MAX), host.now);
        let left = records.progress(counters, now);
        if left != last_left {
            (last_left, last_change) = (left, now);
        }
        let patience = Span::from_ms(DRAIN_TIMEOUT.as_millis() as u64);
        let limit = Span::from_ms(AFTER_AT_MOST.as_millis() as u64);
        if left == 0 || now.since(last_change) > patience || now.since(begun) > limit {
            return Ok(last_change);
        }
        if now.since(begun) > HOUSEKEEPING_EVERY {
            target.housekeep()?;
        }
    }
}

/// The driver's own count and the NIC's, taken while nothing moved between the two.
fn counts_at_rest(target: &mut KernelTarget) -> Result<(u64, RxCounters), TargetError> {
    const TRIES: usize = 20;
    let mut before = rx_counters(target);
    for _ in 1..TRIES {
        let received = driver_received(target)?;
        let after = rx_counters(target);
        if std::mem::replace(&mut before, after) == after {
            return Ok((received, after));
        }
    }
    Ok((driver_received(target)?, before))
}

fn rx_counters(target: &mut KernelTarget) -> RxCounters {
    let (nic, mut host) = target.nic();
    nic.rx_progress(&mut host, usize::MAX)
}

fn take_interrupts(target: &mut KernelTarget, records: &mut Records) -> (u64, u64) {
    let (nic, _) = target.nic();
    let probe = nic.probe();
    records.interrupts(probe.records());
    (probe.raised_count(), probe.handled_count())
}

fn start_application(
    target: &mut KernelTarget,
    plan: &Plan,
    application: Application,
    run_id: u32,
) -> Result<(), TargetError> {
    let payload = plan.size_bytes - PAYLOAD_OFFSET;
    let start = ReceiveStart {
        buffer_bytes: application.socket_buffer_bytes,
        max_datagram_bytes: payload.max(HEADER_BYTES) as u32,
        max_runs: plan.count.clamp(1, MAX_RUNS) as u32,
        ..ReceiveStart::on_port(UDP_PORT, run_id)
    };
    target.ask(start, Duration::ZERO).map(|_| ())
}

/// Waits until nothing more reaches the application, then takes what it recorded.
fn stop_application(
    target: &mut KernelTarget,
    records: &mut Records,
) -> Result<ReceiveTotals, TargetError> {
    let mut seen = target.ask(ReceiveStatus {}, Duration::ZERO)?.datagrams;
    let looks = AFTER_AT_MOST.as_millis() / APPLICATION_QUIET.as_millis();
    for _ in 0..looks {
        target.serve_for(APPLICATION_QUIET)?;
        let now = target.ask(ReceiveStatus {}, Duration::ZERO)?.datagrams;
        if std::mem::replace(&mut seen, now) == now {
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

/// The driver's own count of frames that it has received.
fn driver_received(target: &mut KernelTarget) -> Result<u64, TargetError> {
    let counters = target.ask(Counters { interface: None }, Duration::ZERO)?;
    Ok(counters.interface.get("rx_packets").copied().unwrap_or(0))
}

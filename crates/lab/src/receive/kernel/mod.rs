//! Ways to receive in a real kernel.
//!
//! The application and the compute job are threads of one priority on the guest's only processor. The
//! job notes how far it has come, so what receiving took is what the job did not get: of the interrupt,
//! the soft interrupt and the protocols as well, which no process is charged for. Our side notes meanwhile how
//! much processor time the guest's processes have had, so time that the machine takes from the guest is not
//! charged to receiving.
//!
//! The job's own speed is measured alone, in the very loop that injects, because the two sides may be halves
//! of one core: in a loop that waits otherwise the job was a quarter slower. A way to receive that the guest
//! refuses is a row with the guest's words in `not_available`.

mod strategy;

use std::time::Duration;

use serde::Serialize;
use warikomi_clock::{Span, Time};
use warikomi_inject::{Arrival, Plan, Receiver, UDP_PORT, Warmup};
use warikomi_measure::{CountOverTime, CpuTime, ms, table, texts};
use warikomi_protocol::answers::{ComputeSamples as Samples, PollsBy, WorkDone};
use warikomi_protocol::commands::{
    ComputeSamples, ComputeStart, ComputeStop, Configure, ReceiveStart, ReceiveStop,
    SuspendInterrupts,
};
use warikomi_session::Session;
use warikomi_target::TargetError;

use super::doubts::Doubts;
use super::made::{Made, Received};
use super::row::Row;
use super::traffic::Traffic;
use super::work::{Alone, Work};
use crate::error::Error;
use crate::inject::{Application, Injected, inject, run_id, time_base};
use crate::watch::Watch;

pub use strategy::{NoStrategy, Strategy};

/// Time between two notes of the compute job.
const NOTE_EVERY: Span = Span::from_ms(1);
const LAST_NOTE: Duration = Duration::from_millis(2);
/// Time between two notes of the guest's processor time.
const NOTE_CPU_EVERY: Span = Span::from_ms(5);

/// What comes around a run: the link's rest, the warm-up, the drain.
const AROUND_A_RUN: Span = Span::from_ms(60_000);

/// What to compare.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target", rename = "kernel")]
pub struct Options {
    /// The ways to receive.
    #[serde(serialize_with = "texts")]
    pub strategies: Vec<Strategy>,
    /// Poll times in microseconds, of those that poll.
    pub polls_us: Vec<u32>,
    /// Receive buffers in bytes.
    pub buffers_bytes: Vec<u32>,
    /// What arrives.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Empty polls before NAPI enables the interrupt, where it defers at all.
    pub napi_defer_hard_irqs: u32,
    /// How long the compute job runs alone, before and after each run.
    #[serde(rename = "calibration_ms", serialize_with = "ms")]
    pub calibration: Span,
}

impl Default for Options {
    /// The poll times and buffers that were published.
    fn default() -> Self {
        Options {
            strategies: Strategy::ALL.to_vec(),
            polls_us: vec![100, 140, 300],
            buffers_bytes: vec![7_000_000, 10_000_000, 15_000_000],
            traffic: Traffic::default(),
            napi_defer_hard_irqs: 1,
            calibration: Span::from_ms(200),
        }
    }
}

/// One row to be.
#[derive(Clone, Copy, Debug)]
struct Case {
    strategy: Strategy,
    poll_us: Option<u32>,
    buffer_bytes: u32,
    burst_bytes: usize,
    load: f64,
}

impl Options {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &strategy in &self.strategies {
            let polls = match strategy.polls() {
                true => self.polls_us.iter().map(|us| Some(*us)).collect(),
                false => vec![None],
            };
            for poll_us in polls {
                for &buffer_bytes in &self.buffers_bytes {
                    cases.extend(self.traffic.each().map(|(burst_bytes, load)| Case {
                        strategy,
                        poll_us,
                        buffer_bytes,
                        burst_bytes,
                        load,
                    }));
                }
            }
        }
        cases
    }
}

/// Compares the ways to receive on one session, one after the other.
pub fn receive(
    session: &mut Session,
    options: &Options,
    watch: &mut Watch,
) -> Result<Received, Error> {
    let name = |case: &Case| case.strategy.name().to_owned();
    let made = watch.each(&options.cases(), name, |case, watch| {
        let before = session.watch_cores();
        let made = carry_out(session, options, case)?;
        watch.saw(session, &before);
        Ok(made)
    })?;
    let (mut target, machine) = watch.seen();
    // These are different in each row.
    target.settings.retain(|name, _| {
        !["napi_defer_hard_irqs", "gro_flush_timeout_ns"].contains(&name.as_str())
    });
    let time = time_base(session);
    Ok(Received::of(made, |rows| table("receive", time, machine, target, options, rows)))
}

/// One row.
fn carry_out(session: &mut Session, options: &Options, case: &Case) -> Result<Made, Error> {
    let buffer_bytes = case.buffer_bytes.into();
    let poll_us = case.poll_us.map(u64::from);
    let row = Row::new(case.strategy.name(), poll_us, buffer_bytes, case.burst_bytes as u64);
    let row = Row { load_share: Some(case.load), ..row };
    let mut made = Made { row, bursts: Vec::new(), doubts: Doubts::default() };
    let plan = options.traffic.plan(case.burst_bytes, case.load)?;
    match prepare(session, options, case)? {
        Err(reason) => made.row.not_available = Some(reason),
        Ok(polls_by) => {
            set_polled(session, polls_by.is_some());
            made.row.polls_by = polls_by.map(|by| format!("{by:?}").to_lowercase());
            fill(session, options, case, &plan, &mut made)?;
        }
    }
    set_polled(session, false);
    if case.strategy.suspend_timeout_ns().is_some() && made.row.not_available.is_none() {
        let none = SuspendInterrupts { interface: None, timeout_ns: 0 };
        session.target.ask(none, Duration::ZERO)?;
    }
    Ok(made)
}

fn set_polled(session: &mut Session, polled: bool) {
    if let Some(agent) = session.target.agent() {
        agent.set_polled(polled);
    }
}

/// Sets the guest up for a case. The inner error is the guest's reason why it cannot be had.
fn prepare(
    session: &mut Session,
    options: &Options,
    case: &Case,
) -> Result<Result<Option<PollsBy>, String>, TargetError> {
    let defers = case.strategy.defers();
    let poll_us = case.poll_us.unwrap_or(0);
    let configure = Configure {
        napi_defer_hard_irqs: Some(if defers { options.napi_defer_hard_irqs } else { 0 }),
        gro_flush_timeout_ns: Some(if defers { u64::from(poll_us) * 1_000 } else { 0 }),
        ..Configure::report_only()
    };
    let target = &mut session.target;
    if let Err(reason) = or_reason(target.ask(configure, Duration::ZERO))? {
        return Ok(Err(reason));
    }
    if let Some(timeout_ns) = case.strategy.suspend_timeout_ns() {
        let suspend = SuspendInterrupts { interface: None, timeout_ns };
        if let Err(reason) = or_reason(target.ask(suspend, Duration::ZERO))? {
            return Ok(Err(reason));
        }
    }
    // Whether the kernel lets an application wait in this way, it tells the application only.
    let wait = case.strategy.wait(poll_us);
    let start = ReceiveStart { wait, equal_priority: true, ..ReceiveStart::on_port(UDP_PORT, 0) };
    let started = match or_reason(target.ask(start, Duration::ZERO))? {
        Ok(started) => started,
        Err(reason) => return Ok(Err(reason)),
    };
    target.ask(ReceiveStop {}, Duration::from_secs(2))?;
    Ok(Ok(started.polls_by))
}

/// Tells what the guest refuses from what makes it impossible to go on.
fn or_reason<T>(answer: Result<T, TargetError>) -> Result<Result<T, String>, TargetError> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(TargetError::Refused { message, .. }) => Ok(Err(message)),
        Err(other) => Err(other),
    }
}

/// Carries a case out.
fn fill(
    session: &mut Session,
    options: &Options,
    case: &Case,
    plan: &Plan,
    made: &mut Made,
) -> Result<(), Error> {
    start_computing(session, plan, options.calibration)?;
    let clock = session.target.clock();
    let cpu = CpuTime::of(session.target.process_id(), clock, NOTE_CPU_EVERY);
    let mut cpu = cpu.map_err(Error::CpuTime)?;
    cpu.note();
    let mut note = || cpu.note_from_time_to_time();
    let before = leave_alone(session, options.calibration, &mut note)?;
    let application = Application {
        socket_buffer_bytes: case.buffer_bytes,
        wait: Some(case.strategy.wait(case.poll_us.unwrap_or(0))),
    };
    let run_id = run_id(&*session.target);
    let run = inject(session, plan, application, run_id, &mut |_| note())?;
    insist(&run)?;
    let after = leave_alone(session, options.calibration, &mut note)?;
    // A note of the job behind its end.
    session.target.serve_for(LAST_NOTE)?;
    cpu.note();
    let work = Work { units: stop_computing(session)?, cpu_ns: cpu.count() };
    let Made { row, bursts, doubts } = made;
    *bursts = row.account(plan, &run.ledger, run.start);
    row.interrupts = run.result.interrupts.as_ref().map(|interrupts| interrupts.raised);
    let end = end_of(&run, plan);
    let alone = Alone::in_periods(&work, before, after).ok_or(Error::NoWork)?;
    row.cpu_share = work.speed(run.start, end).map(|speed| alone.taken_share(speed));
    doubts.add_run(plan, &run);
    doubts.drifted += usize::from(alone.drift_share() > Doubts::DRIFT_SHARE);
    Ok(())
}

/// Leaves the compute job alone; returns from when to when.
///
/// This is an injection of two packets: our side does what it does while it waits for the next burst, and
/// so takes as much from a core whose other half the target may have.
fn leave_alone(
    session: &mut Session,
    calibration: Span,
    note: &mut dyn FnMut(),
) -> Result<(Time, Time), Error> {
    let plan = Plan {
        interval: calibration,
        count: 2,
        receiver: Receiver::Driver,
        warmup: Warmup::NONE,
        ..Plan::default()
    };
    let run_id = run_id(&*session.target);
    let run = inject(session, &plan, Application::default(), run_id, &mut |_| note())?;
    insist(&run)?;
    note();
    Ok((run.start, run.start + calibration))
}

/// Insists that every packet is accounted for, and that the driver takes packets at all: a row of one
/// that has stopped would blame the way to receive.
fn insist(run: &Injected) -> Result<(), Error> {
    run.check()?;
    let totals = run.ledger.totals();
    match totals.accepted {
        0 => Err(Error::Stalled { packets: totals.injected }),
        _ => Ok(()),
    }
}

/// When the last burst's interval was over, and everything was delivered.
fn end_of(run: &Injected, plan: &Plan) -> Time {
    let times = run.ledger.rows().flat_map(|row| [row.planned, row.delivered]);
    let last = times.flatten().max().unwrap_or(run.start);
    // The intervals of a random arrival need not add up to this.
    match plan.arrival {
        Arrival::Bursts => last.max(run.start + plan.duration()),
        _ => last,
    }
}

fn start_computing(
    session: &mut Session,
    plan: &Plan,
    calibration: Span,
) -> Result<(), TargetError> {
    let ticks_per_second = session.target.clock().ticks_per_second();
    let longest = plan.duration() + calibration * 2 + AROUND_A_RUN;
    let start = ComputeStart {
        sample_every_ticks: (NOTE_EVERY.as_secs() * ticks_per_second) as u64,
        max_samples: (longest.as_ps() / NOTE_EVERY.as_ps()).clamp(1, 1 << 20) as u32,
    };
    session.target.ask(start, Duration::ZERO).map(|_| ())
}

fn stop_computing(session: &mut Session) -> Result<CountOverTime, TargetError> {
    let target = &mut session.target;
    target.ask(ComputeStop {}, Duration::from_secs(2))?;
    let clock = target.clock();
    let mut notes: Vec<WorkDone> = Vec::new();
    loop {
        let part = ComputeSamples { from: notes.len() as u64, max: ComputeSamples::MOST };
        let Samples { samples, total } = target.ask(part, Duration::from_secs(2))?;
        let end = samples.is_empty();
        notes.extend(samples);
        if end || notes.len() as u64 >= total {
            break;
        }
    }
    Ok(CountOverTime::new(notes.into_iter().map(|WorkDone(tsc, units)| (clock.at(tsc), units))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_has_a_row_for_each_of_its_parameters() {
        let options = Options::default();
        let cases = options.cases();
        assert_eq!(cases.len(), 3 + 5 * 3 * 3);
        assert!(cases.iter().all(|case| case.poll_us.is_some() == case.strategy.polls()));
    }

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let plan = warikomi_measure::as_object(&Options::default());
        assert_eq!(plan["strategies"].as_array().unwrap().len(), 6);
        assert_eq!(plan["loads"], serde_json::json!([0.25]));
        assert_eq!(plan["line_rate_bps"].as_u64(), Some(800_000_000));
    }
}

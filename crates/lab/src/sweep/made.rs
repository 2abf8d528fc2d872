//! A sweep as it is carried out on a session.

use serde_json::json;
use warikomi_clock::Span;
use warikomi_inject::{MAX_COUNT, Plan};
use warikomi_measure::{CpuTimes, Repeat, RunResult, Thresholds, as_object, warnings};
use warikomi_session::{CoreWatch, Session};

use super::counters::GuestCounters;
use super::cycle::{Cycle, Cycles, Phase, Request};
use super::dips::{Dip, dips};
use super::found::{repeats, row};
use super::plan::{SATURATING_CYCLES, SweepPlan};
use super::search;
use crate::error::Error;
use crate::inject::{Application, inject, run_id, time_base};
use crate::on_demand::OnDemand;
use crate::watch::Watch;

/// How often a cycle that lost something while others had a core is made, at most.
const MAX_ATTEMPTS: u32 = 3;

/// What came of a sweep.
pub struct Swept {
    /// The figures.
    pub result: RunResult,
    /// Every cycle, in order.
    pub cycles: Vec<Cycle>,
    /// The figures of every repetition.
    pub repeats: Vec<Repeat>,
}

/// Carries `plan` out on a target. A case is a length, and each of its cycles is a step.
pub fn sweep(
    target: &mut OnDemand<'_>,
    plan: &SweepPlan,
    application: Application,
    watch: &mut Watch,
) -> Result<Swept, Error> {
    plan.validate()?;
    let counters = GuestCounters::default();
    let mut bench = Bench { plan, target, application, counters, since: None };
    let mut cycles: Vec<Cycle> = Vec::new();
    // A guess for the first length; after it, what the length before has taken.
    let mut expected = search::expected_cycles(plan);
    let found = watch.each_of_steps(&plan.sizes_bytes, |&size_bytes, watch| {
        let mut live = Live { bench: &mut bench, watch, cycles: Vec::new(), expected };
        let found = search::sweep_size(plan, size_bytes, &mut live)?;
        expected = live.cycles.len() as u64;
        cycles.append(&mut live.cycles);
        Ok((size_bytes, found))
    })?;
    let (target, machine) = watch.seen();
    let mut result = RunResult::new("sweep", watch.time_base(), machine);
    result.target = target;
    result.plan = as_object(plan);
    result.rows = Some(found.iter().map(|(size, found)| row(*size, found)).collect());
    if plan.curves() > 0 {
        let dips: Vec<Dip> = found.iter().flat_map(|(_, found)| dips(&found.curve)).collect();
        result.figures.insert("dips".into(), json!(dips));
    }
    result.warnings = warnings(&result, &Thresholds::default());
    let repeats = found.iter().flat_map(|(size, found)| repeats(*size, found)).collect();
    Ok(Swept { result, cycles, repeats })
}

/// Makes the cycles of a length as they are asked for, and keeps each.
struct Live<'a, 'b, 'c> {
    bench: &'a mut Bench<'b, 'c>,
    watch: &'a mut Watch,
    cycles: Vec<Cycle>,
    /// Cycles that the length takes, roughly.
    expected: u64,
}

impl Cycles for Live<'_, '_, '_> {
    fn run(&mut self, request: Request) -> Result<Cycle, Error> {
        let Live { bench, watch, cycles, expected } = self;
        for attempt in 1..=MAX_ATTEMPTS {
            let done = cycles.len() as u64;
            watch.progress(done, (*expected).max(done + 1), &request.to_string());
            let name = format!("{request}, attempt {attempt}");
            let cycle: Cycle = watch.step(&name, |watch| bench.make(&request, attempt, watch))?;
            cycles.push(cycle.clone());
            if !cycle.disturbed {
                return Ok(cycle);
            }
        }
        unreachable!("the last attempt is never one to be made again")
    }
}

/// What cycles are made on.
struct Bench<'a, 'b> {
    plan: &'a SweepPlan,
    target: &'a mut OnDemand<'b>,
    application: Application,
    counters: GuestCounters,
    /// Since when the target's cores have been watched.
    since: Option<CoreWatch>,
}

impl Bench<'_, '_> {
    fn make(&mut self, request: &Request, attempt: u32, watch: &mut Watch) -> Result<Cycle, Error> {
        let plan = self.cycle_plan(request);
        let session = self.target.running(watch)?;
        let run_id = run_id(&*session.target);
        let since = self.since.take().unwrap_or_else(|| session.watch_cores());
        self.counters.begin(session)?;
        let injected = inject(session, &plan, self.application, run_id, &mut |_| ())?;
        injected.check()?;
        let counts = self.counters.end(session)?;
        self.since = note_machine(session, since, watch);
        let totals = injected.ledger.totals();
        let success = injected.result.success.unwrap_or_default();
        let mut cycle = Cycle {
            line_rate_bps: plan.line_rate_bps,
            injected: totals.injected,
            accepted: totals.accepted,
            delivered: success.end_to_end.map(|_| totals.delivered),
            driver_share: success.driver,
            end_to_end_share: success.end_to_end,
            throughput_bps: injected.result.throughput_bps.unwrap_or(0.0),
            send_ns: injected.result.inject_ns.map(|times| times.p50),
            unaccounted: totals.unaccounted,
            stolen_percent: injected.result.machine.stolen_percent,
            ..Cycle::of(request)
        };
        // To be saturated is to lose.
        let may_lose = matches!(request.phase, Phase::Saturated | Phase::Line);
        cycle.disturbed = attempt < MAX_ATTEMPTS
            && !may_lose
            && !cycle.is_perfect()
            && injected.result.machine.was_disturbed();
        Ok(cycle.with_counts(counts))
    }

    fn cycle_plan(&self, request: &Request) -> Plan {
        let plan = Plan {
            interval: Span::from_ps((request.interval_ns * 1e3) as u64),
            ..self.plan.cycle(request.size_bytes)
        };
        match request.phase {
            Phase::Saturated => {
                Plan { count: plan.count.saturating_mul(SATURATING_CYCLES).min(MAX_COUNT), ..plan }
            }
            Phase::Line => Plan { line_rate_bps: self.plan.line_rate_bps, ..plan },
            Phase::Coarse | Phase::Curve | Phase::Driver | Phase::EndToEnd => plan,
        }
    }
}

/// Takes note of the target, and of its cores over as many cycles as it takes to know what was stolen: a cycle
/// may be shorter than the tick by which the system counts. Returns since when they are watched for the next.
fn note_machine(session: &mut Session, since: CoreWatch, watch: &mut Watch) -> Option<CoreWatch> {
    let known = session.machine_since(&since).stolen_percent.is_some();
    if known || CpuTimes::read(&[]).is_none() {
        watch.saw(session, &since);
        return None;
    }
    watch.saw_target(&session.info, time_base(session));
    Some(since)
}

//! A sweep as it is carried out on a session.

use warikomi_clock::{Span, read_tsc};
use warikomi_inject::{MAX_COUNT, Plan};
use warikomi_measure::{CpuTimes, Repeat, RunResult, Thresholds, TimeBase, as_object, warnings};
use warikomi_session::{CoreWatch, Session};

use super::cycle::{Cycle, Cycles, Phase, Request};
use super::found::{repeats, row};
use super::plan::{SATURATING_CYCLES, SweepPlan};
use super::search;
use crate::error::Error;
use crate::inject::{Application, inject};
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

/// Carries `plan` out on a session; each cycle is a step.
pub fn sweep(
    session: &mut Session,
    plan: &SweepPlan,
    application: Application,
    watch: &mut Watch,
) -> Result<Swept, Error> {
    plan.validate()?;
    let bench = Bench { plan, since: session.watch_cores(), session, application };
    // A guess for the first length; after it, what the lengths so far have taken.
    let mut live =
        Live { bench, watch, cycles: Vec::new(), per_length: search::expected_cycles(plan) };
    let mut found = Vec::new();
    for (&size_bytes, lengths_done) in plan.sizes_bytes.iter().zip(1..) {
        found.push((size_bytes, search::sweep_size(plan, size_bytes, &mut live)?));
        live.per_length = live.cycles.len() as u64 / lengths_done;
    }
    let Live { bench, watch, cycles, .. } = live;
    let (_, machine) = watch.seen();
    let mut result = RunResult::new("sweep", TimeBase::Real, machine);
    result.target = bench.session.info.clone();
    result.plan = as_object(plan);
    result.rows = Some(found.iter().map(|(size, found)| row(*size, found)).collect());
    result.warnings = warnings(&result, &Thresholds::default());
    let repeats = found.iter().flat_map(|(size, found)| repeats(*size, found)).collect();
    Ok(Swept { result, cycles, repeats })
}

/// Makes cycles as they are asked for, and keeps each.
struct Live<'a> {
    bench: Bench<'a>,
    watch: &'a mut Watch,
    cycles: Vec<Cycle>,
    /// Cycles that a length takes, roughly.
    per_length: u64,
}

impl Cycles for Live<'_> {
    fn run(&mut self, request: Request) -> Result<Cycle, Error> {
        let Live { bench, watch, cycles, per_length } = self;
        for attempt in 1..=MAX_ATTEMPTS {
            let done = cycles.len() as u64;
            let lengths = bench.plan.sizes_bytes.len() as u64;
            watch.progress(done, (*per_length * lengths).max(done + 1), &request.to_string());
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
struct Bench<'a> {
    plan: &'a SweepPlan,
    session: &'a mut Session,
    application: Application,
    /// Since when the cores have been watched.
    since: CoreWatch,
}

impl Bench<'_> {
    fn make(&mut self, request: &Request, attempt: u32, watch: &mut Watch) -> Result<Cycle, Error> {
        let plan = self.cycle_plan(request);
        let run_id = read_tsc() as u32;
        let injected = inject(self.session, &plan, self.application, run_id, &mut |_| ())?;
        injected.check()?;
        self.note_machine(watch);
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
        Ok(cycle)
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
            Phase::Coarse | Phase::Driver | Phase::EndToEnd => plan,
        }
    }

    /// Takes note of the cores, over as many cycles as it takes to know what was stolen: a cycle may be
    /// shorter than the tick by which the system counts.
    fn note_machine(&mut self, watch: &mut Watch) {
        let known = self.session.machine_since(&self.since).stolen_percent.is_some();
        if known || CpuTimes::read(&[]).is_none() {
            watch.saw(self.session, &self.since);
            self.since = self.session.watch_cores();
        }
    }
}

//! Which cycles a sweep makes: a coarse pass with growing intervals, then a search by bisection.
//!
//! What is asked for next follows from what the cycles so far have shown and from nothing else, so
//! that a sweep that was stopped goes on from its cycles.

use warikomi_inject::Receiver;
use warikomi_measure::median;

use super::cycle::{Cycle, Cycles, Phase, Request};
use super::found::{Found, Shortest};
use super::plan::SweepPlan;
use crate::error::Error;

/// How much longer the next interval of the coarse pass is.
const GROWTH: f64 = 1.2;

/// Cycles of the coarse pass beyond the first interval without loss.
const BEYOND: usize = 3;

/// The coarse pass ends here, found or not.
const MAX_COARSE_CYCLES: usize = 80;
const LONGEST_NS: f64 = 1e6;

/// The search ends when the interval is known to this share.
const PRECISION: f64 = 0.02;

/// Cycles that decide about an interval, by majority, so that one pause of the host does not.
const JURY: usize = 3;

/// Cycles of one length, roughly, to estimate how long a sweep takes.
pub(super) fn expected_cycles(plan: &SweepPlan) -> u64 {
    const COARSE: u64 = 18;
    const SEARCH: u64 = 12;
    let repeat = u64::from(plan.repeat);
    let line = u64::from(plan.line_rate_bps.is_some());
    repeat
        + COARSE * (1 + u64::from(plan.curves()))
        + goals(plan).len() as u64 * repeat * SEARCH
        + line
}

/// Who must not lose a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Driver,
    EndToEnd,
}

fn goals(plan: &SweepPlan) -> &'static [Goal] {
    match plan.receiver {
        Receiver::Application => &[Goal::Driver, Goal::EndToEnd],
        Receiver::Driver | Receiver::SecondCard => &[Goal::Driver],
    }
}

impl Goal {
    fn is_met(self, cycle: &Cycle) -> bool {
        cycle.kept_pace()
            && match self {
                Goal::Driver => cycle.accepted == cycle.injected,
                Goal::EndToEnd => cycle.delivered == Some(cycle.injected),
            }
    }
}

pub(super) fn sweep_size(
    plan: &SweepPlan,
    size_bytes: usize,
    cycles: &mut dyn Cycles,
) -> Result<Found, Error> {
    let request = |phase, repeat, interval_ns| Request { size_bytes, phase, repeat, interval_ns };
    let mut saturated = Vec::new();
    for repeat in 1..=plan.repeat {
        saturated.push(cycles.run(request(Phase::Saturated, repeat, 0.0))?);
    }
    let shortest_ns = median(saturated.iter().filter_map(|cycle| cycle.send_ns));
    let coarse = coarse_pass(plan, shortest_ns, &mut |interval_ns| {
        cycles.run(request(Phase::Coarse, 1, interval_ns))
    })?;
    // At the shortest interval without loss: a packet that finds no descriptor takes less, and with
    // longer intervals every packet must wake the guest.
    let sent = coarse.iter().find(|cycle| Goal::Driver.is_met(cycle));
    let mut found = Found {
        send_ns: sent.and_then(|cycle| cycle.send_ns).unwrap_or(f64::NAN),
        saturated_bps: saturated.iter().map(|cycle| cycle.throughput_bps).collect(),
        driver: Vec::new(),
        end_to_end: None,
        on_line: None,
        curve: Vec::new(),
    };
    for &goal in goals(plan) {
        let mut shortest = Vec::new();
        for repeat in 1..=plan.repeat {
            let phase = match goal {
                Goal::Driver => Phase::Driver,
                Goal::EndToEnd => Phase::EndToEnd,
            };
            shortest.push(bisect(goal, &coarse, &mut |interval_ns| {
                cycles.run(request(phase, repeat, interval_ns))
            })?);
        }
        match goal {
            Goal::Driver => found.driver = shortest,
            Goal::EndToEnd => found.end_to_end = Some(shortest),
        }
    }
    if plan.line_rate_bps.is_some() {
        found.on_line = Some(cycles.run(request(Phase::Line, 1, 0.0))?);
    }
    // In rounds, because these machines change within minutes.
    for repeat in 1..=plan.curves() {
        for cycle in &coarse {
            found.curve.push(cycles.run(request(Phase::Curve, repeat, cycle.interval_ns))?);
        }
    }
    found.curve.extend(coarse);
    Ok(found)
}

/// Ever longer intervals, until no packet is lost anywhere, and some beyond.
fn coarse_pass(
    plan: &SweepPlan,
    shortest_ns: f64,
    run: &mut dyn FnMut(f64) -> Result<Cycle, Error>,
) -> Result<Vec<Cycle>, Error> {
    let mut cycles: Vec<Cycle> = Vec::new();
    const LEAST_NS: f64 = 50.0;
    // `max` takes the number if the other is none, because nothing could be injected.
    let mut interval_ns = shortest_ns.max(LEAST_NS).round();
    while cycles.len() < MAX_COARSE_CYCLES && interval_ns < LONGEST_NS {
        cycles.push(run(interval_ns)?);
        let quiet = |goal: &Goal| {
            cycles.len() > BEYOND && cycles.iter().rev().take(BEYOND + 1).all(|c| goal.is_met(c))
        };
        if goals(plan).iter().all(quiet) {
            break;
        }
        interval_ns = (interval_ns * GROWTH).round();
    }
    Ok(cycles)
}

/// The shortest interval at which most cycles meet the goal; [`Shortest::NONE`] if none does.
fn bisect(
    goal: Goal,
    coarse: &[Cycle],
    run: &mut dyn FnMut(f64) -> Result<Cycle, Error>,
) -> Result<Shortest, Error> {
    let Some(first) = coarse.iter().position(|cycle| goal.is_met(cycle)) else {
        return Ok(Shortest::NONE);
    };
    let mut met = coarse[first].interval_ns;
    let mut missed = if first > 0 { coarse[first - 1].interval_ns } else { met / GROWTH };
    // What one cycle met by luck the next may not.
    let mut shortest = loop {
        if let Some(bps) = seen_if_met(goal, met, run)? {
            break Shortest { interval_ns: met, bps };
        }
        missed = met;
        met = (met * GROWTH).round();
        if met > LONGEST_NS {
            return Ok(Shortest::NONE);
        }
    };
    while shortest.interval_ns / missed > 1.0 + PRECISION && shortest.interval_ns - missed > 1.0 {
        let between = (shortest.interval_ns * missed).sqrt().round();
        match seen_if_met(goal, between, run)? {
            Some(bps) => shortest = Shortest { interval_ns: between, bps },
            None => missed = between,
        }
    }
    Ok(shortest)
}

/// The throughput of the cycles that meet the goal, their median, if most do.
fn seen_if_met(
    goal: Goal,
    interval_ns: f64,
    run: &mut dyn FnMut(f64) -> Result<Cycle, Error>,
) -> Result<Option<f64>, Error> {
    let (mut seen, mut missed) = (Vec::new(), 0);
    while seen.len().max(missed) <= JURY / 2 {
        let cycle = run(interval_ns)?;
        match goal.is_met(&cycle) {
            true => seen.push(cycle.throughput_bps),
            false => missed += 1,
        }
    }
    Ok((seen.len() > missed).then(|| median(seen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that loses nothing from `driver_ns` on, a stack that does from `stack_ns` on, and our own
    /// side, which needs `own_ns` for a packet.
    struct Model {
        driver_ns: f64,
        stack_ns: f64,
        own_ns: f64,
        asked: Vec<Request>,
    }

    impl Cycles for Model {
        fn run(&mut self, request: Request) -> Result<Cycle, Error> {
            self.asked.push(request.clone());
            let share = |limit: f64| (request.interval_ns / limit).min(1.0);
            let (driver, stack) = (share(self.driver_ns), share(self.stack_ns));
            Ok(Cycle {
                injected: 1_000,
                accepted: (1_000.0 * driver) as u64,
                delivered: Some((1_000.0 * stack) as u64),
                send_ns: Some(100.0),
                throughput_bps: if request.interval_ns == 0.0 {
                    8e9
                } else {
                    request.size_bytes as f64 * 8e9 / request.interval_ns.max(self.own_ns)
                },
                ..Cycle::of(&request)
            })
        }
    }

    const CURVE: u32 = 2;

    fn found(driver_ns: f64, stack_ns: f64) -> (Found, Vec<Request>) {
        found_by(driver_ns, stack_ns, 0.0)
    }

    #[test]
    fn an_interval_that_we_cannot_keep_shows_nothing() {
        let (found, _) = found_by(50.0, 50.0, 400.0);
        let shortest = found.driver[0].interval_ns;
        assert!((400.0 * 0.85..=400.0).contains(&shortest), "{shortest}");
    }

    fn found_by(driver_ns: f64, stack_ns: f64, own_ns: f64) -> (Found, Vec<Request>) {
        let mut model = Model { driver_ns, stack_ns, own_ns, asked: Vec::new() };
        let plan = SweepPlan { curve: CURVE, ..SweepPlan::default() };
        let found = sweep_size(&plan, 1_500, &mut model).unwrap();
        (found, model.asked)
    }

    #[test]
    fn the_shortest_intervals_are_found_for_the_driver_and_end_to_end() {
        let (found, asked) = found(777.0, 2_345.0);
        let near = |found: &[Shortest], target: f64| {
            let is_near = |v: f64| v >= target && v <= target * (1.0 + PRECISION) + 1.0;
            found.len() == 3
                && found.iter().all(|one| {
                    is_near(one.interval_ns) && (one.bps * one.interval_ns - 12e12).abs() < 1e6
                })
        };
        assert!(near(&found.driver, 777.0), "{found:?}");
        assert!(near(found.end_to_end.as_ref().unwrap(), 2_345.0), "{found:?}");
        let coarse: Vec<_> =
            asked.iter().filter(|r| r.phase == Phase::Coarse).map(|r| r.interval_ns).collect();
        assert_eq!(coarse[0], 100.0, "from the shortest possible");
        let beyond = coarse.iter().filter(|&&ns| ns >= 2_345.0).count();
        assert_eq!(beyond, BEYOND + 1, "and beyond: {coarse:?}");
        let curve: Vec<_> =
            asked.iter().filter(|r| r.phase == Phase::Curve).map(|r| r.interval_ns).collect();
        assert_eq!(curve, [&coarse[..], &coarse].concat(), "once more, and again");
        assert_eq!(found.curve.len(), 3 * coarse.len());
    }

    #[test]
    fn a_driver_that_never_keeps_up_is_not_searched_for_ever() {
        let (found, asked) = found(1e9, 1e9);
        assert!(found.driver.iter().all(|one| one.interval_ns.is_nan()));
        assert!(asked.len() < 100 * (1 + CURVE as usize));
    }

    #[test]
    fn a_driver_that_always_keeps_up_is_as_fast_as_it_is_sent_to() {
        let (found, _) = found(1.0, 1.0);
        assert!(found.driver.iter().all(|one| one.interval_ns <= 100.0), "{found:?}");
    }

    #[test]
    fn a_lucky_cycle_does_not_decide() {
        let mut calls = 0;
        let cycle = |interval_ns, accepted| {
            let request = Request { size_bytes: 60, phase: Phase::Driver, repeat: 1, interval_ns };
            let throughput_bps = 60.0 * 8e9 / interval_ns;
            Cycle { injected: 10, accepted, throughput_bps, ..Cycle::of(&request) }
        };
        let coarse = [cycle(100.0, 5), cycle(120.0, 10)];
        let shortest = bisect(Goal::Driver, &coarse, &mut |ns| {
            calls += 1;
            Ok(cycle(ns, if ns >= 200.0 { 10 } else { 9 }))
        });
        assert!((200.0..=205.0).contains(&shortest.unwrap().interval_ns));
    }

    #[test]
    fn the_estimate_is_of_the_right_size() {
        let (_, asked) = found(777.0, 2_345.0);
        let plan = SweepPlan { curve: CURVE, ..SweepPlan::default() };
        let estimate = expected_cycles(&plan) as f64;
        assert!((0.5..2.0).contains(&(asked.len() as f64 / estimate)), "{}", asked.len());
    }
}

//! All ways under all loads, one after the other.

use warikomi_clock::Span;
use warikomi_measure::Warning;

use super::edge;
use super::growth::{Growth, Usage};
use super::made::{Made, Replaced};
use super::places::Places;
use super::plan::{Case, Load, Options, Plan, Soak};
use super::row::Row;
use super::tally::Tally;
use super::workload::{Bench, Turn};
use crate::error::Error;
use crate::watch::Watch;

/// Runs without a replacement, which the others are held against; more would say no more.
const RUNS_WITHOUT: u64 = 5;
/// How long one run of a soak is: between two of them it is looked whether anything has grown, and whether
/// the user wants it to end.
const SOAK_RUN: Span = Span::from_ms(2_000);
/// When the published workload is replaced in, at the latest: it computes for so long all together.
const BUSY: Span = Span::from_ms(1_000);

/// Carries the plan out. Ctrl-C ends it after the run that is going on, with what has been found.
pub fn replace(options: &Options, watch: &mut Watch) -> Result<Replaced, Error> {
    let plan = &options.plan;
    plan.validate()?;
    let name = |case: &Case| Row::new(plan, case).name();
    let made = watch.each(&plan.cases(), name, |case, watch| {
        let goes_on = !watch.interrupted.is_set();
        goes_on.then(|| carry_out(options, case, watch)).transpose()
    })?;
    let ways = if plan.edge { &plan.ways[..] } else { &[] };
    let edges = watch.each(
        ways,
        |way| format!("{way}, edge"),
        |&way, watch| {
            let goes_on = !watch.interrupted.is_set();
            goes_on.then(|| edge::find(options, way, watch)).transpose()
        },
    )?;
    let edges = edges.into_iter().flatten().collect();
    Ok(Replaced::of(plan, made.into_iter().flatten(), edges, watch))
}

/// One row.
fn carry_out(options: &Options, case: &Case, watch: &mut Watch) -> Result<Made, Error> {
    let plan = &options.plan;
    let mut tally = Tally::new(plan, case);
    let mut bench = Bench::start(options, case, plan.buffers, true)?;
    bench.known_to(watch)?;
    let places = Places::new(plan.seed, case.number);
    let growth = match plan.soak {
        None => {
            trials(plan, &mut bench, &mut tally, places, watch)?;
            None
        }
        Some(soak) => {
            let usage = soaked(&soak, &mut bench, &mut tally, places, watch)?;
            Some(Growth { row: tally.name(), usage })
        }
    };
    let (failures, may_hold_up) = (bench.failures(), bench.may_hold_up_starts());
    bench.shown_to(watch);
    bench.stop()?;
    Ok(Made {
        row: tally.row(failures.len()),
        lines: tally.lines().collect(),
        timeline: tally.timeline(),
        growth,
        warnings: warnings(&tally, &failures, may_hold_up),
    })
}

/// One replacement in each run, and some runs without.
fn trials(
    plan: &Plan,
    bench: &mut Bench<'_>,
    tally: &mut Tally,
    mut places: Places,
    watch: &mut Watch,
) -> Result<(), Error> {
    let busy = tally.load == Load::Busy;
    let length = if busy { BUSY } else { Span::from_ms(plan.trial_ms) };
    for trial in 0..plan.trials {
        if trial < RUNS_WITHOUT && tally.load != Load::Idle {
            tally.without(&bench.run(&Turn::of(&[], length, busy))?);
        }
        tally.with(bench.run(&Turn::of(&places.some(1), length, busy))?);
        if !goes_on(watch, tally, plan.trials) {
            break;
        }
    }
    Ok(())
}

/// Many replacements in each run; what there was after each.
fn soaked(
    soak: &Soak,
    bench: &mut Bench<'_>,
    tally: &mut Tally,
    mut places: Places,
    watch: &mut Watch,
) -> Result<Vec<Usage>, Error> {
    let every = soak.every();
    let in_a_run = (SOAK_RUN.as_ps() / every.as_ps().max(1)).max(1);
    let mut usage = Vec::new();
    let mut left = soak.count;
    while left > 0 {
        let now = left.min(in_a_run);
        tally.with(bench.run(&Turn::of(&places.some(now), every * now, false))?);
        usage.push(Usage::now(tally.replacements()));
        left -= now;
        if !goes_on(watch, tally, soak.count) {
            break;
        }
    }
    Ok(usage)
}

/// Shows how far a row has come; false if the user wants it to end.
fn goes_on(watch: &mut Watch, tally: &Tally, all: u64) -> bool {
    watch.progress(tally.replacements(), all, &tally.name());
    !watch.interrupted.is_set()
}

fn warnings(tally: &Tally, failures: &[String], may_hold_up: &str) -> Vec<Warning> {
    let (name, times) = (tally.name(), failures.len());
    let failed = failures.first().map(|first| Warning {
        what: format!("{name}: {times} times a driver failed or did not take over; {first}"),
        hint: format!("look at what the driver printed{may_hold_up}"),
    });
    let frames = tally.no_descriptor_without;
    let too_much = (frames > 0).then(|| Warning {
        what: format!(
            "{name}: {frames} frames found no descriptor in runs without a replacement, so the traffic \
             itself is too much"
        ),
        hint: "give a longer --interval, or more --ring-buffers".to_owned(),
    });
    failed.into_iter().chain(too_much).collect()
}

//! All ways under all loads, one after the other.

use serde_json::json;
use warikomi_clock::Span;
use warikomi_measure::{Machine, TargetInfo, TimeBase, Warning, table};
use warikomi_target::Interrupted;

use super::edge::{self, Edge};
use super::growth::Usage;
use super::moments::Places;
use super::plan::{Load, Plan, Soak};
use super::tally::{Line, Moment, Tally};
use super::workload::{Bench, Turn};
use super::{Options, Progress, ReplaceRow, Replaced};
use crate::Error;

/// Runs without a replacement, which the others are held against; more would say no more.
const RUNS_WITHOUT: u64 = 5;
/// How long one run of a soak is: between two of them it is looked whether anything has grown, and whether
/// somebody wants it to end.
const SOAK_RUN: Span = Span::from_ms(2_000);
/// When the published workload is replaced in, at the latest: it computes for so long all together.
const BUSY: Span = Span::from_ms(1_000);

/// What has been found so far.
#[derive(Default)]
struct Found {
    rows: Vec<ReplaceRow>,
    lines: Vec<Line>,
    timeline: Vec<Moment>,
    growth: Vec<serde_json::Value>,
    edges: Vec<Edge>,
    warnings: Vec<Warning>,
    seen: Option<(TargetInfo, Machine)>,
}

/// Carries the plan out. Ctrl-C ends it after the run that is going on, with what has been found.
pub fn replace(
    options: &Options,
    interrupted: &Interrupted,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Replaced, Error> {
    let plan = &options.plan;
    plan.validate()?;
    let mut found = Found::default();
    let rows = plan.ways.len() * plan.loads.len();
    let each = plan.soak.map_or(plan.trials, |soak| soak.count);
    for (number, (way, load)) in pairs(plan).enumerate() {
        if interrupted.is_set() {
            break;
        }
        let mut tally = Tally::new(plan, way, load);
        let mut bench = Bench::start(options, (way, load), plan.buffers, true)?;
        let mut show = |tally: &Tally| {
            let done = number as u64 * each + tally.replacements();
            progress(Progress { done, all: rows as u64 * each, row: &tally.name() });
            !interrupted.is_set()
        };
        show(&tally);
        let places = Places::new(plan.seed, number as u64);
        match plan.soak {
            None => trials(plan, &mut bench, &mut tally, places, &mut show)?,
            Some(soak) => {
                let growth = soaked(&soak, &mut bench, &mut tally, places, &mut show)?;
                found.growth.push(json!({"row": tally.name(), "usage": growth}));
            }
        }
        found.take(&tally, &bench);
        bench.stop()?;
    }
    if plan.edge {
        for &way in plan.ways.iter().take_while(|_| !interrupted.is_set()) {
            found.edges.push(edge::find(options, way)?);
        }
    }
    found.finish(options)
}

fn pairs(plan: &Plan) -> impl Iterator<Item = (warikomi_live::Way, Load)> + '_ {
    plan.ways.iter().flat_map(|&way| plan.loads.iter().map(move |&load| (way, load)))
}

/// One replacement in each run, and some runs without.
fn trials(
    plan: &Plan,
    bench: &mut Bench<'_>,
    tally: &mut Tally,
    mut places: Places,
    go_on: &mut dyn FnMut(&Tally) -> bool,
) -> Result<(), Error> {
    let busy = tally.load == Load::Busy;
    let length = if busy { BUSY } else { Span::from_ms(plan.trial_ms) };
    for trial in 0..plan.trials {
        if trial < RUNS_WITHOUT && tally.load != Load::Idle {
            tally.without(&bench.run(&Turn::of(&[], length, busy))?);
        }
        tally.with(bench.run(&Turn::of(&places.some(1), length, busy))?);
        if !go_on(tally) {
            break;
        }
    }
    Ok(())
}

/// Many replacements in each run; what there was before the first run, and after each.
fn soaked(
    soak: &Soak,
    bench: &mut Bench<'_>,
    tally: &mut Tally,
    mut places: Places,
    go_on: &mut dyn FnMut(&Tally) -> bool,
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
        if !go_on(tally) {
            break;
        }
    }
    Ok(usage)
}

impl Found {
    fn take(&mut self, tally: &Tally, bench: &Bench<'_>) {
        let trouble = bench.trouble();
        self.rows.push(tally.row(trouble.len()));
        self.lines.extend(tally.lines());
        self.timeline.extend(tally.timeline());
        if let Some(first) = trouble.first() {
            self.warnings.push(Warning {
                what: format!(
                    "{}: {} times a driver failed or did not take over; {first}",
                    tally.name(),
                    trouble.len()
                ),
                hint: "look at what the driver printed".to_owned(),
            });
        }
        if tally.no_descriptor_without > 0 {
            self.warnings.push(Warning {
                what: format!(
                    "{}: {} frames found no descriptor in runs without a replacement, so the \
                    traffic itself is too much",
                    tally.name(),
                    tally.no_descriptor_without
                ),
                hint: "give a longer --interval, or more --buffers".to_owned(),
            });
        }
        let machine = match self.seen.take() {
            Some((_, before)) => before.watched_again(bench.machine()),
            None => bench.machine(),
        };
        self.seen = Some((bench.session().info.clone(), machine));
    }

    fn finish(self, options: &Options) -> Result<Replaced, Error> {
        let (info, machine) = self.seen.unwrap_or_default();
        let mut result = table("replace", TimeBase::Real, machine, info, &options.plan, &self.rows);
        if !self.growth.is_empty() {
            result.figures.insert("growth".into(), json!(self.growth));
        }
        if !self.edges.is_empty() {
            result.figures.insert("edges".into(), json!(self.edges));
        }
        result.warnings =
            warikomi_measure::warnings(&result, &warikomi_measure::Thresholds::default());
        result.warnings.extend(self.warnings);
        let broken = self.rows.iter().filter_map(ReplaceRow::broken).collect();
        let Found { rows, lines, timeline, .. } = self;
        Ok(Replaced { result, rows, lines, timeline, broken })
    }
}

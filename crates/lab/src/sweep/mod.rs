//! Success against interval, for frames of several lengths, and the shortest interval without loss.
//!
//! Repeats the published measurement: cycles of 5,000 packets with growing interval, from the
//! shortest possible to the first at which every packet is received, and beyond.

pub(crate) mod columns;
mod cycle;
mod plan;
mod search;

use cycle::Live;
use search::Found;
use serde_json::{Map, Value, json};
use warikomi_measure::{Machine, Repeat, RunResult, Thresholds, TimeBase, published, warnings};

use crate::Error;
use crate::Session;
use crate::inject::Application;

pub use columns::throughput;
pub use cycle::{Cycle, CycleLog, Phase, read_cycles};
pub use plan::{MAX_REPEAT, MAX_SIZES, SweepPlan};

/// A saturated cycle is longer, because a ring that is empty at first takes hundreds at once.
const SATURATING_CYCLES: u64 = 4;

/// How far a sweep has come.
#[derive(Clone, Copy, Debug)]
pub struct SweepProgress<'a> {
    /// Cycles made.
    pub done: u64,
    /// Cycles in all, as far as it can be told beforehand.
    pub expected: u64,
    /// The one that has just been made.
    pub cycle: &'a Cycle,
}

/// What came of a sweep.
pub struct Swept {
    /// The figures.
    pub result: RunResult,
    /// Those of every repetition.
    pub repeats: Vec<Repeat>,
}

/// Carries `plan` out on a session. `earlier` are the cycles of a sweep that was stopped: they are not
/// made again. Every new one is written to `log` when it is done.
pub fn sweep(
    session: &mut Session,
    plan: &SweepPlan,
    application: Application,
    earlier: Vec<Cycle>,
    log: &mut CycleLog,
    progress: &mut dyn FnMut(SweepProgress<'_>),
) -> Result<Swept, Error> {
    plan.validate()?;
    let lengths = plan.sizes_bytes.len() as u64;
    // A guess for the first length; after it, what the lengths so far have taken.
    let mut per_length = search::expected_cycles(plan);
    let mut done = 0;
    let mut earlier = earlier.into_iter();
    let mut found = Vec::new();
    let watch = session.watch_cores();
    for (&size_bytes, lengths_done) in plan.sizes_bytes.iter().zip(1..) {
        let mut seen = |cycle: &Cycle| {
            done += 1;
            progress(SweepProgress { done, expected: done.max(per_length * lengths), cycle });
        };
        let mut cycles = Live { plan, session, application, earlier, log, done: &mut seen };
        found.push((size_bytes, search::sweep_size(plan, size_bytes, &mut cycles)?));
        earlier = cycles.earlier;
        per_length = done / lengths_done;
    }
    let machine = session.machine_since(&watch);
    Ok(describe(machine, session, plan, &found))
}

fn describe(
    machine: Machine,
    session: &Session,
    plan: &SweepPlan,
    found: &[(usize, Found)],
) -> Swept {
    let mut result = RunResult::new("sweep", TimeBase::Real, machine);
    result.target = session.info.clone();
    if let Ok(Value::Object(plan)) = serde_json::to_value(plan) {
        result.plan = plan;
    }
    result.rows = Some(found.iter().map(|(size, found)| row(*size, found)).collect());
    result.warnings = warnings(&result, &Thresholds::default());
    Swept {
        result,
        repeats: found.iter().flat_map(|(size, found)| repeats(*size, found)).collect(),
    }
}

/// Bits of a frame, by a time in nanoseconds: bit/s.
fn bps(size_bytes: usize, interval_ns: f64) -> f64 {
    8e9 * size_bytes as f64 / interval_ns
}

fn row(size_bytes: usize, found: &Found) -> Map<String, Value> {
    let shortest_ns = median(found.driver_ns.iter().copied());
    let saturated_bps = median(found.saturated_bps.iter().copied());
    let loss_free_bps = bps(size_bytes, shortest_ns);
    let mut row = Map::new();
    let mut put = |name: &str, value: f64| {
        // What was not found, or not published, is absent.
        if value.is_finite() {
            row.insert(name.to_owned(), json!(value));
        }
    };
    put("size_bytes", size_bytes as f64);
    put("shortest_loss_free_ns", shortest_ns);
    put("loss_free_bps", loss_free_bps);
    let injection = published::injection();
    put("published_bps", injection.throughput_bps(size_bytes).unwrap_or(f64::NAN));
    put("saturated_bps", saturated_bps);
    put("share_of_saturated", loss_free_bps / saturated_bps);
    if let Some(end_to_end_ns) = &found.end_to_end_ns {
        let shortest_ns = median(end_to_end_ns.iter().copied());
        put("end_to_end_loss_free_ns", shortest_ns);
        put("end_to_end_loss_free_bps", bps(size_bytes, shortest_ns));
    }
    put("send_ns", found.send_ns);
    put("published_send_ns", injection.send_ns(size_bytes).unwrap_or(f64::NAN));
    if let Some(on_line) = &found.on_line {
        put("line_rate_bps", on_line.line_rate_bps.map_or(f64::NAN, |rate| rate as f64));
        put("on_line_bps", on_line.throughput_bps);
        put("on_line_driver_share", on_line.driver_share);
        put("published_real_nic_bps", injection.real_nic_bps(size_bytes).unwrap_or(f64::NAN));
    }
    row.insert("size_bytes".into(), json!(size_bytes));
    row
}

fn repeats(size_bytes: usize, found: &Found) -> Vec<Repeat> {
    let bps_of = |values: &[f64]| values.iter().map(|&ns| bps(size_bytes, ns)).collect();
    let mut figures = vec![
        ("shortest_loss_free_ns", found.driver_ns.clone()),
        ("loss_free_bps", bps_of(&found.driver_ns)),
        ("saturated_bps", found.saturated_bps.clone()),
    ];
    if let Some(end_to_end_ns) = &found.end_to_end_ns {
        figures.push(("end_to_end_loss_free_ns", end_to_end_ns.clone()));
        figures.push(("end_to_end_loss_free_bps", bps_of(end_to_end_ns)));
    }
    let repeats = figures.into_iter().flat_map(|(figure, values)| {
        values.into_iter().zip(1..).map(move |(value, repeat)| Repeat {
            figure: figure.to_owned(),
            size_bytes: Some(size_bytes),
            repeat,
            value,
        })
    });
    repeats.filter(|repeat| repeat.value.is_finite()).collect()
}

/// The middle of the numbers among `values`; `NaN` of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            send_ns: 110.0,
            saturated_bps: vec![20e9, 30e9, 25e9],
            driver_ns: vec![600.0, 800.0, 500.0],
            end_to_end_ns: Some(vec![f64::NAN, 3_000.0, 3_000.0]),
            on_line: None,
        }
    }

    #[test]
    fn a_row_holds_medians_and_what_follows_from_them() {
        let row = row(1_500, &found());
        assert_eq!(row["size_bytes"], json!(1_500));
        assert_eq!(row["shortest_loss_free_ns"], json!(600.0));
        assert_eq!(row["loss_free_bps"], json!(20e9));
        assert_eq!(row["share_of_saturated"], json!(0.8));
        assert_eq!(row["end_to_end_loss_free_ns"], json!(3_000.0));
        assert_eq!(row["published_bps"], json!(6.3e9));
        assert!(!row.contains_key("on_line_bps"));
    }

    #[test]
    fn what_was_not_found_is_absent() {
        let row = row(60, &Found { driver_ns: vec![f64::NAN], ..found() });
        assert!(!row.contains_key("loss_free_bps") && !row.contains_key("published_bps"));
    }

    #[test]
    fn every_repetition_is_kept() {
        let repeats = repeats(1_500, &found());
        let of = |figure: &str| repeats.iter().filter(|r| r.figure == figure).count();
        assert_eq!((of("shortest_loss_free_ns"), of("end_to_end_loss_free_ns")), (3, 2));
    }
}

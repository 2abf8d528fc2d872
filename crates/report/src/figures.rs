//! Single figures of results, and figures as their names say they are to be written.

use serde_json::{Map, Value};
use warikomi_measure::RunResult;

use crate::terminal::figures::{count, percent, rate, time};

/// A number in the unit that its name ends with, as people write it.
pub(crate) fn shown(name: &str, value: f64) -> String {
    let whole = |value: f64| match value {
        whole if whole.fract() == 0.0 && (0.0..1e15).contains(&whole) => count(whole as u64),
        other => decimals(other),
    };
    match name.rsplit_once('_').map_or(name, |(_, unit)| unit) {
        _ if name.starts_with("share_of_") => percent(value),
        "ns" => time(value),
        "us" => time(value * 1e3),
        "bps" => rate(value),
        "pps" => format!("{} frames/s", whole(value.round())),
        "share" => percent(value),
        "percent" => percent(value / 100.0),
        "byte" => format!("{} ns/byte", decimals(value)),
        _ => whole(value),
    }
}

fn decimals(value: f64) -> String {
    let text = format!("{value:.4}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Single figures by name, units at the end of the names. `figures` of the result come last.
pub(crate) fn single_figures(result: &RunResult) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = Vec::new();
    let mut add =
        |name: &str, value: Option<Value>| all.extend(value.map(|value| (name.to_owned(), value)));
    let success = result.success.as_ref();
    add("driver_share", success.map(|success| success.driver.into()));
    add("end_to_end_share", success.and_then(|success| success.end_to_end).map(Value::from));
    add("throughput_bps", result.throughput_bps.map(Value::from));
    let inject = result.inject_ns.as_ref();
    add("inject_mean_ns", inject.map(|times| times.mean.into()));
    add("inject_p50_ns", inject.map(|times| times.p50.into()));
    add("inject_p99_ns", inject.map(|times| times.p99.into()));
    let interrupts = result.interrupts.as_ref();
    add("interrupts_raised", interrupts.map(|interrupts| interrupts.raised.into()));
    add("interrupts_handled", interrupts.map(|interrupts| interrupts.handled.into()));
    add("interrupts_signalled_again", interrupts.map(|interrupts| interrupts.resignalled.into()));
    let pacing = result.pacing.as_ref();
    add("missed_deadlines", pacing.map(|pacing| pacing.missed_deadlines.into()));
    add("longest_lateness_ns", pacing.map(|pacing| pacing.longest_lateness_ns.into()));
    let hiccups = result.hiccups.as_ref();
    for (side, summary) in [
        ("support", hiccups.and_then(|hiccups| hiccups.support)),
        ("target", hiccups.and_then(|hiccups| hiccups.target)),
    ] {
        add(&format!("{side}_hiccups"), summary.map(|summary| summary.count.into()));
        add(&format!("{side}_longest_hiccup_ns"), summary.map(|summary| summary.longest_ns.into()));
    }
    all.extend(result.figures.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// Whether all of a row was measured over a line. A row that has figures with and without one names
/// the former `on_line_…`.
pub(crate) fn on_a_line(row: &Map<String, Value>) -> bool {
    let rate = row.get("line_rate_bps").and_then(Value::as_f64);
    rate.is_some() && !row.contains_key("on_line_bps")
}

//! The single figures of a result.

use serde_json::Value;
use warikomi_measure::RunResult;

/// Single figures by key. `figures` of the result come last.
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
    let transit = result.transit_ns.as_ref();
    add("transit_mean_ns", transit.map(|times| times.mean.into()));
    add("transit_p50_ns", transit.map(|times| times.p50.into()));
    add("transit_p99_ns", transit.map(|times| times.p99.into()));
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

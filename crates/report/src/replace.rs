//! What was published about replacing a driver, with what stands for each system here.

use serde_json::{Map, Value};
use warikomi_measure::{RunResult, published};

/// The greatest, the mean and the least, as publications have them.
const FIGURES: [&str; 3] = ["max", "mean", "min"];

/// What it is, what was published and what was found, in nanoseconds; nothing here where nothing was measured.
pub(crate) fn beside_published(result: &RunResult) -> Vec<(String, f64, Option<f64>)> {
    let mut beside = Vec::new();
    for (system, way, figures) in published::driver_replacement().systems() {
        let mut add = |what: &str, load: &str, spread: &str, published_ms: [f64; 3]| {
            let here = row(result, way, load).and_then(|row| row.get(spread)?.as_object());
            for (figure, ms) in FIGURES.into_iter().zip(published_ms) {
                let us = here.and_then(|here| here.get(figure)?.as_f64());
                let name = format!("{system} ({way}): {what}, {figure}");
                beside.push((name, ms * 1e6, us.map(|us| us * 1e3)));
            }
        };
        add("replace, idle", "idle", "swap_us", figures.swap_ms_idle);
        add("replace, busy", "busy", "swap_us", figures.swap_ms_busy);
        add("send without", "busy", "send_us", figures.send_ms_without);
        add("send with", "busy", "send_with_us", figures.send_ms_with);
    }
    beside
}

/// The row of planned replacements in this way under this load.
fn row<'a>(result: &'a RunResult, way: &str, load: &str) -> Option<&'a Map<String, Value>> {
    let wanted = [("way", way), ("load", load), ("kind", "planned")];
    let same = |row: &&Map<String, Value>| {
        wanted.iter().all(|(name, value)| row.get(*name).and_then(Value::as_str) == Some(value))
    };
    result.rows.iter().flatten().find(same)
}

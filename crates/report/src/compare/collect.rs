//! The figures of a run, each with its repetitions.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use warikomi_measure::{Repeat, RunResult};

use crate::figures::{on_a_line, shown, single_figures};

/// What tells one figure from others: where in the run it belongs to, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The frame length, if it belongs to one.
    pub(super) size_bytes: Option<u64>,
    /// What else its row is of, such as `1 Gbit/s line` or `place raised`; empty if nothing.
    pub(super) of: String,
    /// Its name, with its unit.
    pub(super) figure: String,
}

/// A figure of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figure {
    /// From the result, if it is there.
    pub(super) value: Option<f64>,
    /// From `repeats.csv`: only numbers.
    pub(super) repeats: Vec<f64>,
}

impl Figure {
    /// The median of the repetitions, or what the result says if there are none.
    pub(super) fn typical(&self) -> Option<f64> {
        let mut sorted = self.repeats.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => self.value,
            (even, half) if even % 2 == 0 => Some(sorted[half - 1] / 2.0 + sorted[half] / 2.0),
            (_, half) => Some(sorted[half]),
        }
    }
}

/// Whether more is better, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// Which way a figure is better, by its name; `None` where neither is.
pub(super) fn better(figure: &str) -> Option<Better> {
    if figure.contains("drift") || figure == "interval_ns" {
        return None;
    }
    let bad_share = ["error", "lost", "missed"].iter().any(|bad| figure.contains(bad));
    match figure {
        _ if figure.ends_with("_ns") || figure.ends_with("_ns_per_byte") => Some(Better::Less),
        _ if figure.ends_with("_bps") || figure.ends_with("_pps") => Some(Better::More),
        _ if figure.ends_with("_share") && bad_share => Some(Better::Less),
        _ if figure.ends_with("_share") || figure.starts_with("share_of_") => Some(Better::More),
        _ => None,
    }
}

/// Figures that are no outcome: what was asked for, or what the machine is.
const GIVEN: [&str; 4] = ["requested_ns", "resolution_ns", "count", "quiet_count"];

/// All figures of a run that are numbers and its own.
pub(super) fn collect(result: &RunResult, repeats: &[Repeat]) -> BTreeMap<Key, Figure> {
    let mut all: BTreeMap<Key, Figure> = BTreeMap::new();
    let mut add = |size_bytes, of: &str, figure: &str, value: Option<f64>| {
        let given = GIVEN.contains(&figure) || figure.starts_with("published_");
        if let Some(value) = value.filter(|value| value.is_finite() && !given) {
            let key = Key { size_bytes, of: of.to_owned(), figure: figure.to_owned() };
            all.entry(key).or_default().value = Some(value);
        }
    };
    for (name, value) in single_figures(result) {
        add(None, "", &name, value.as_f64());
    }
    for row in result.rows.iter().flatten() {
        let (size_bytes, of) = place(row);
        let own = row.iter().filter(|(name, _)| *name != "size_bytes" && !is_key(name));
        own.for_each(|(name, value)| add(size_bytes, &of, name, value.as_f64()));
    }
    for repeat in repeats.iter().filter(|repeat| repeat.value.is_finite()) {
        let size_bytes = repeat.size_bytes.map(|bytes| bytes as u64);
        let key = Key { size_bytes, of: String::new(), figure: repeat.figure.clone() };
        all.entry(key).or_default().repeats.push(repeat.value);
    }
    all
}

fn is_key(name: &str) -> bool {
    matches!(
        name,
        "line_rate_bps"
            | "place"
            | "fault"
            | "mixture"
            | "buffers"
            | "completion"
            | "bounce"
            | "way"
            | "load"
            | "kind"
    )
}

/// Which row of a table this is.
fn place(row: &Map<String, Value>) -> (Option<u64>, String) {
    let line = on_a_line(row);
    let words = row.iter().filter(|(name, value)| {
        is_key(name) && !value.is_null() && (line || *name != "line_rate_bps")
    });
    let words = words.map(|(name, value)| match (name.as_str(), value.as_f64()) {
        ("line_rate_bps", Some(bps)) => format!("{} line", shown(name, bps)),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    });
    (row.get("size_bytes").and_then(Value::as_u64), words.collect::<Vec<_>>().join(", "))
}

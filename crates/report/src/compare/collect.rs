//! The figures of a run, each with its repetitions.

use std::collections::BTreeMap;

use serde_json::Value;
use warikomi_measure::layout::{Column, Object};
use warikomi_measure::{Repeat, RunResult};

use crate::columns;
use crate::figures::single_figures;

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

/// A figure of a run, for comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figure {
    /// Column that describes the figure.
    pub(super) column: Column,
    /// From the result, if it is there.
    pub(super) value: Option<f64>,
    /// From `repeats.csv`: only numbers.
    pub(super) repeats: Vec<f64>,
}

impl Figure {
    fn of(column: Column) -> Figure {
        Figure { column, ..Figure::default() }
    }

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

/// All figures of a run that are numbers and its own: no parameters, and nothing that was published.
pub(super) fn collect(result: &RunResult, repeats: &[Repeat]) -> BTreeMap<Key, Figure> {
    let mut all: BTreeMap<Key, Figure> = BTreeMap::new();
    let mut add = |size_bytes, of: &str, column: Column, value: Option<f64>| {
        let given = column.parameter || column.key.starts_with("published_");
        if let Some(value) = value.filter(|value| value.is_finite() && !given) {
            let key = Key { size_bytes, of: of.to_owned(), figure: column.key.clone() };
            let figure = all.entry(key).or_insert_with(|| Figure::of(column));
            figure.value = Some(value);
        }
    };
    let layout = &result.layout;
    for (key, value) in single_figures(result) {
        add(None, "", layout.figure(&key), value.as_f64());
    }
    let rows: Vec<&Object> = result.rows.iter().flatten().collect();
    let columns = columns::of_rows(layout, &rows);
    for row in rows {
        let size_bytes = row.get(SIZE).and_then(Value::as_u64);
        let of = place(&columns, row);
        for column in columns.iter().filter(|column| column.key != SIZE) {
            add(size_bytes, &of, column.clone(), column.number(row));
        }
    }
    for repeat in repeats.iter().filter(|repeat| repeat.value.is_finite()) {
        let size_bytes = repeat.size_bytes.map(|bytes| bytes as u64);
        let key = Key { size_bytes, of: String::new(), figure: repeat.figure.clone() };
        let figure = all.entry(key).or_insert_with(|| Figure::of(layout.column(&repeat.figure)));
        figure.repeats.push(repeat.value);
    }
    all
}

/// The parameter that the lines of `repeats.csv` have a column for.
const SIZE: &str = "size_bytes";

/// Which row of a table this is.
fn place(columns: &[Column], row: &Object) -> String {
    let parameters = columns.iter().filter(|column| column.parameter && column.key != SIZE);
    let names = parameters.map(|column| column.name(row)).filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join(", ")
}

//! Rows by their keys, wherever a source says that they are.

use std::path::Path;

use serde_json::Value;
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Object, Source, at_path};

use super::error::ReadError;
use super::tables::Watch;
use super::tables::records;

/// The rows of a source that is in the result; none of a file.
pub fn rows<'a>(result: &'a RunResult, source: &'a Source) -> Vec<&'a Object> {
    match source {
        Source::Rows => result.rows.iter().flatten().collect(),
        Source::Here(rows) => rows.iter().collect(),
        Source::Figures(path) => {
            let list = at_path(&result.figures, path).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_object).collect()
        }
        Source::File(_) => Vec::new(),
    }
}

/// What a chart needs of a table in a file.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Columns that must be there, with numbers, or with nothing where there is none.
    pub numbers: Vec<String>,
    /// Columns that say yes or no, as far as they are there.
    pub flags: Vec<String>,
    /// Other columns.
    pub others: Vec<String>,
}

/// Gives each line of a file to `each`, with the columns that are wanted. A file that is not there has none.
pub fn lines(
    path: &Path,
    wanted: &Wanted,
    watch: Watch<'_>,
    mut each: impl FnMut(&Object),
) -> Result<(), ReadError> {
    let mut places: Option<Vec<Place>> = None;
    let mut row = Object::new();
    records(path, watch, |header, record| {
        if places.is_none() {
            places = Some(find(header, wanted)?);
        }
        for (at, key, read) in places.iter().flatten() {
            let value = read(record.get(*at).unwrap_or_default())?;
            match row.get_mut(key) {
                Some(old) => *old = value,
                None => drop(row.insert(key.clone(), value)),
            }
        }
        each(&row);
        Ok(())
    })
}

/// Where a column is, its key, and how its fields are read.
type Place = (usize, String, fn(&str) -> Result<Value, String>);

fn find(header: &csv::StringRecord, wanted: &Wanted) -> Result<Vec<Place>, String> {
    let place = |key: &String| header.iter().position(|name| name == key);
    let mut places: Vec<Place> = Vec::new();
    for key in &wanted.numbers {
        let at = place(key).ok_or_else(|| format!("there is no column '{key}'"))?;
        places.push((at, key.clone(), number));
    }
    let known = |key: &&String| !wanted.numbers.contains(key) && !wanted.flags.contains(key);
    places
        .extend(wanted.flags.iter().filter_map(|key| Some((place(key)?, key.clone(), flag as _))));
    let others = wanted.others.iter().filter(known);
    places.extend(others.filter_map(|key| Some((place(key)?, key.clone(), any as _))));
    Ok(places)
}

/// A number, or nothing. What is not finite is nothing, because it has no place anywhere.
fn number(field: &str) -> Result<Value, String> {
    match field {
        "" => Ok(Value::Null),
        _ => field.parse::<f64>().map(Value::from).map_err(|_| format!("'{field}' is no number")),
    }
}

/// `true` and `false`, or 1 and 0; empty is not known, and so not marked.
fn flag(field: &str) -> Result<Value, String> {
    match field {
        "true" | "1" => Ok(true.into()),
        "false" | "0" | "" => Ok(false.into()),
        other => Err(format!("'{other}' is neither true nor false")),
    }
}

/// Reads a field as a number if it is one, else as text.
fn any(field: &str) -> Result<Value, String> {
    let number = || field.parse::<f64>().ok().filter(|number| number.is_finite());
    // A whole number stays one, so that names do not end in `.0`.
    let value = field.parse::<u64>().map(Value::from).ok().or_else(|| number().map(Value::from));
    Ok(match field {
        "" => Value::Null,
        "true" => true.into(),
        "false" => false.into(),
        text => value.unwrap_or_else(|| text.into()),
    })
}

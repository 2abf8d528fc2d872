//! The columns of a table, whether or not its result declares them.

use serde_json::Value;
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Object, Source, Table, at_path};

use crate::read::rows;

/// The most columns of a table.
const MAX_COLUMNS: usize = 96;
/// The most rows of which the keys are looked at.
const MAX_ROWS: usize = 2_000;

/// The columns of the rows of a result that have anything in them: parameters, then figures, each published
/// one behind its own. What is not declared follows from the rows.
pub(crate) fn of_rows(layout: &Layout, rows: &[&Object]) -> Vec<Column> {
    let (parameters, figures): (Vec<_>, Vec<_>) =
        all(&layout.columns, rows).into_iter().partition(|column| column.parameter);
    let (published, mut figures): (Vec<_>, Vec<_>) =
        figures.into_iter().partition(|column| column.key.starts_with("published_"));
    for one in published {
        let beside = |column: &Column| {
            let named = one.key.strip_prefix("published_") == Some(&column.key);
            named || column.published.as_ref() == Some(&one.key)
        };
        let at = figures.iter().position(beside).map_or(figures.len(), |at| at + 1);
        figures.insert(at, one);
    }
    parameters.into_iter().chain(figures).collect()
}

/// The columns of a further table.
pub(crate) fn of_table<'a>(
    result: &'a RunResult,
    table: &'a Table,
) -> (Vec<Column>, Vec<&'a Object>) {
    let rows = rows(result, &table.source);
    let columns = match table.source {
        Source::Rows => of_rows(&result.layout, &rows),
        _ if table.columns.is_empty() => all(&[], &rows),
        _ => filled(table.columns.clone(), &rows),
    };
    (columns, rows)
}

/// Columns of which at least one row has something to say.
pub(crate) fn filled(columns: Vec<Column>, rows: &[&Object]) -> Vec<Column> {
    let said = |column: &Column| rows.iter().any(|row| !column.cell(row).is_empty());
    columns.into_iter().filter(said).collect()
}

fn all(declared: &[Column], rows: &[&Object]) -> Vec<Column> {
    let mut columns = declared.to_vec();
    for row in rows.iter().take(MAX_ROWS) {
        for (key, value) in *row {
            match value {
                Value::Object(parts) => {
                    parts.keys().for_each(|part| add(&mut columns, &format!("{key}.{part}"), rows));
                }
                Value::Array(_) => {}
                _ => add(&mut columns, key, rows),
            }
        }
    }
    columns.retain(|column| rows.iter().any(|row| column.value(row).is_some()));
    columns
}

/// A column that is not declared. One of words tells rows apart, as far as anybody can know.
fn add(columns: &mut Vec<Column>, key: &str, rows: &[&Object]) {
    if columns.len() >= MAX_COLUMNS || columns.iter().any(|known| known.key == key) {
        return;
    }
    let column = Column::of(key);
    let mut values = rows.iter().take(MAX_ROWS).filter_map(|row| at_path(row, key));
    let words = values.all(|value| value.is_string() || value.is_null());
    columns.push(Column { parameter: column.parameter || words, ..column });
}

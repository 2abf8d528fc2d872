//! Cells of rows, and what is said of them; for the columns of every experiment.

use serde_json::Value;
use warikomi_measure::layout::{Column, Headline, Layout, Object, Unit, at_path};

/// A text of a row; empty if there is none.
pub fn text<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A number of a row, by its path.
pub fn number(row: &Object, key: &str) -> Option<f64> {
    at_path(row, key)?.as_f64()
}

/// The objects of a list.
pub fn list<'a>(of: &'a Object, key: &str) -> impl Iterator<Item = &'a Object> {
    of.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// A row of a table that is in no result.
pub fn object<const N: usize>(cells: [(&str, Value); N]) -> Object {
    let known = cells.into_iter().filter(|(_, value)| !value.is_null());
    known.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A column of a row as one of the figures that matter most, with the published figure beside it.
pub fn headline(
    layout: &Layout,
    row: &Object,
    key: &str,
    title: &str,
    of: &str,
) -> Option<Headline> {
    let column: Column = layout.column(key);
    let published = column.published.as_ref().and_then(|key| number(row, key));
    Some(Headline {
        title: title.to_owned(),
        value: column.number(row)?,
        unit: if column.unit == Unit::Mbps { Unit::Bps } else { column.unit },
        published,
        of: of.to_owned(),
    })
}

/// The most remarks of one kind.
const MAX_REMARKS: usize = 64;

/// Says why rows are not available, each reason once. `name` is what a row is called.
pub fn say_refusals(layout: &mut Layout, rows: &[Object], name: impl Fn(&Object) -> String) {
    let mut said: Vec<(String, String)> = Vec::new();
    for row in rows {
        let reason = (name(row), text(row, "not_available").to_owned());
        if !reason.1.is_empty() && !said.contains(&reason) && said.len() < MAX_REMARKS {
            layout.say(format!("{} is not available", reason.0), reason.1.clone());
            said.push(reason);
        }
    }
}

//! Experiments that make a table.

use serde_json::Value;
use warikomi_measure::RunResult;

use super::Style;
use super::figures::{count, percent, rate, time};
use super::table::Page;

/// The rows of a result as a table, turned: a line for each figure and a column for each row, headed
/// by its frame length if it has one. A figure's unit is the end of its name: `_ns`, `_bps`,
/// `_bytes`, `_pps`, `_share`; so is its beginning, if that is `share_`.
pub fn rows(result: &RunResult, style: Style) -> String {
    let mut page = Page::new(style);
    let target = &result.target;
    page.heading(&format!("{}: {} on {}", result.experiment, target.driver, target.model));
    let rows = result.rows.as_deref().unwrap_or_default();
    let header: Vec<String> = std::iter::once("frame length in bytes".to_owned())
        .chain(rows.iter().map(|row| cell(HEAD, row.get(HEAD))))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let names = rows.first().into_iter().flatten().map(|(name, _)| name.as_str());
    let lines: Vec<_> = names
        .filter(|name| *name != HEAD)
        .map(|name| {
            let cells = rows.iter().map(|row| cell(name, row.get(name)));
            (false, std::iter::once(title(name)).chain(cells).collect())
        })
        .collect();
    page.table(&header, &lines);
    if let Some(stolen) = result.machine.stolen_percent {
        page.paragraph("time stolen by the host: ", &percent(stolen / 100.0));
    }
    for warning in &result.warnings {
        page.blank();
        page.warning(&warning.what, &warning.mend);
    }
    page.finish()
}

/// What heads a column.
const HEAD: &str = "size_bytes";

const UNITS: [&str; 5] = ["_ns", "_bps", "_bytes", "_pps", "_share"];

/// A column's name for people: the figures carry their units themselves.
pub(super) fn title(name: &str) -> String {
    let stem = UNITS.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    let unit = if name.ends_with("_pps") { " frames/s" } else { "" };
    stem.replace('_', " ") + unit
}

fn cell(name: &str, value: Option<&Value>) -> String {
    let Some(value) = value else { return String::new() };
    let Some(number) = value.as_f64() else {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    };
    match UNITS.iter().find(|unit| name.ends_with(*unit)) {
        Some(&"_ns") => time(number),
        Some(&"_bps") => rate(number),
        Some(&"_share") => percent(number),
        None if name.starts_with("share_") => percent(number),
        Some(_) => count(number as u64),
        None => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use warikomi_measure::{Machine, TimeBase};

    #[test]
    fn every_figure_has_its_unit() {
        let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
        let row = json!({"size_bytes": 1500, "inject_ns": 250.0, "ratio": 1.25,
                         "saturated_bps": 16.5e9, "lost_share": 0.5});
        result.rows = Some(vec![row.as_object().unwrap().clone()]);
        let text = rows(&result, Style::default());
        for expected in ["1,500", "250 ns", "1.25", "16.5 Gbit/s", "50.00%", "saturated"] {
            assert!(text.contains(expected), "{expected} is not in:\n{text}");
        }
    }
}

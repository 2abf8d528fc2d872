//! Experiments that make a table.

use serde_json::{Map, Value};
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
    if let Some(rows) = &result.rows {
        page.heading(&format!("{}: {} on {}", result.experiment, target.driver, target.model));
        table(&mut page, &rows.iter().collect::<Vec<_>>());
        if let Some(stolen) = result.machine.stolen_percent {
            page.paragraph("time stolen by the host: ", &percent(stolen / 100.0));
        }
    }
    comparison(&mut page, result);
    sending(&mut page, result);
    for warning in &result.warnings {
        page.blank();
        page.warning(&warning.what, &warning.mend);
    }
    page.finish()
}

/// Ways for packets from one core to another, one against the others: the table that `bench` makes
/// beside its rows, and what each way copies.
fn comparison(page: &mut Page, result: &RunResult) {
    let Some(rows) = result.figures.get("comparison").and_then(Value::as_array) else { return };
    if result.rows.is_some() {
        page.blank();
    }
    page.heading("from one core to another: medians of the rounds, and how far these lie apart");
    table(page, &rows.iter().filter_map(Value::as_object).collect::<Vec<_>>());
    if let Some(stolen) = result.figures.get("comparison_stolen_share").and_then(Value::as_f64) {
        page.paragraph("time stolen by the host: ", &percent(stolen));
    }
    let ways = result.figures.get("comparison_ways").and_then(Value::as_object);
    for (name, description) in ways.into_iter().flatten() {
        if let Some(text) = description.as_str() {
            page.paragraph(&format!("{}: ", title(name)), text);
        }
    }
}

/// What adapting costs a sender, which `bench` measures besides.
fn sending(page: &mut Page, result: &RunResult) {
    let Some(rows) = result.figures.get("sending").and_then(Value::as_array) else { return };
    if result.rows.is_some() || result.figures.contains_key("comparison") {
        page.blank();
    }
    page.heading("what a sender does for a message: medians of the rounds");
    table(page, &rows.iter().filter_map(Value::as_object).collect::<Vec<_>>());
}

fn table(page: &mut Page, rows: &[&Map<String, Value>]) {
    let header: Vec<String> = std::iter::once("frame length in bytes".to_owned())
        .chain(rows.iter().map(|row| cell(HEAD, row.get(HEAD))))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let names = rows.first().into_iter().flat_map(|row| row.iter()).map(|(name, _)| name.as_str());
    let lines: Vec<_> = names
        .filter(|name| *name != HEAD)
        .map(|name| {
            let cells = rows.iter().map(|row| cell(name, row.get(name)));
            (false, std::iter::once(title(name)).chain(cells).collect())
        })
        .collect();
    page.table(&header, &lines);
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

    #[test]
    fn what_adapting_costs_a_sender_has_a_table_of_its_own() {
        let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
        let rows = json!([{"size_bytes": 64, "model": "oc48", "adaptive_over_interrupt_free": 1.03,
            "adaptive_ns": 412.5}]);
        result.figures.insert("sending".into(), rows);
        let text = super::rows(&result, Style::default());
        for expected in ["what a sender does", "oc48", "1.03", "412.5 ns"] {
            assert!(text.contains(expected), "{expected} is not in:\n{text}");
        }
    }

    #[test]
    fn a_comparison_stands_alone_or_below_the_rows() {
        let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
        let figures = json!({
            "comparison": [{"size_bytes": 64, "ring_bps": 5.5e9, "ring_over_memif": 2.5},
                           {"size_bytes": 1500, "ring_bps": 121e9}],
            "comparison_ways": {"ring": "copies twice"},
            "comparison_stolen_share": 0.01,
        });
        result.figures = figures.as_object().unwrap().clone();
        let alone = rows(&result, Style::default());
        for expected in ["1,500", "121 Gbit/s", "2.50", "ring: copies twice", "1.00%"] {
            assert!(alone.contains(expected), "{expected} is not in:\n{alone}");
        }
        assert!(!alone.contains("bench:"), "{alone}");
        result.rows = Some(vec![]);
        assert!(rows(&result, Style::default()).ends_with(&alone));
    }
}

//! What is shown of random histories.

use serde_json::Value;
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Unit, View, count};

use crate::cells::text;

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let number = |name: &str| result.plan_number(name).unwrap_or_default() as u64;
    let with =
        if result.plan.get("faults") == Some(&Value::Bool(true)) { "with" } else { "without" };
    // A seed is no count, and has no separators.
    let seed = result.plan.get("seed").map_or(String::new(), Value::to_string);
    let asked = format!("{} histories from seed {seed}, {with} faults", count(number("count")));
    let columns = ["histories", "packets", "delivered", "events", "restarts", "driver_failures"];
    let columns = columns.map(str::to_owned).to_vec();
    let row = result.rows.as_deref().unwrap_or_default().first();
    let counted = |key: &str, title: &str| Column::figure(key, title).unit(Unit::Count);
    result.layout = Layout {
        asked: Some(asked),
        columns: vec![
            counted("histories", "histories, none wrong"),
            counted("packets", "packets"),
            counted("delivered", "delivered"),
            counted("events", "events judged"),
            counted("restarts", "parts started again"),
            counted("driver_failures", "of these, drivers that gave up"),
        ],
        views: vec![View { turned: true, columns, ..View::default() }],
        ..Layout::default()
    };
    // Too long for a column.
    if let Some(digest) = row.map(|row| text(row, "digest").to_owned()) {
        result.layout.say("digest of all", digest);
    }
}

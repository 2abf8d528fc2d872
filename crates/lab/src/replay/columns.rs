//! What a replay shows besides what an injection does: whether the driver behaved as in the recording.

use serde_json::Value;
use warikomi_clock::Span;
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Table, count};

use crate::cells::list;
use crate::experiment::Experiment;
use crate::inject::Inject;

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    Inject::describe(result);
    until(result);
    let figure = |name: &str| result.figures.get(name).and_then(Value::as_u64);
    let differences = figure("outcomes_different").zip(figure("steps_never_recorded"));
    // A capture does not say what a driver did.
    let Some((outcomes, steps)) = differences else { return };
    let said = match result.figures.get("first_difference").and_then(Value::as_str) {
        None => "the driver behaved as in the recording".to_owned(),
        Some(first) => format!(
            "first difference {first}. In all: {} packets with another outcome, {} steps that were never \
             recorded",
            count(outcomes),
            count(steps)
        ),
    };
    result.layout.say("comparison", said);
}

/// What a replay shows that was to come to a place.
fn until(result: &mut RunResult) {
    let Some(times) = result.figures.get("until_reached").and_then(Value::as_u64) else { return };
    let said = match result.figures.get("until_place").and_then(Value::as_str) {
        Some(place) => {
            let at_ns = result.figures.get("until_at_ns").and_then(Value::as_f64);
            let at = Span::from_ps((at_ns.unwrap_or_default() * 1e3) as u64);
            format!(
                "reached the place for the {} time at {at} of virtual time: {place}",
                nth(times)
            )
        }
        None => format!("reached the place {} times, and not as often as asked for", count(times)),
    };
    result.layout.say("until", said);
    if list(&result.figures, "stack").next().is_some() {
        let columns = vec![Column::parameter("frame", "frame")];
        let table = Table::of_figures("stack", "Stack at the place", "stack", columns);
        result.layout.tables.push(table);
    }
}

/// 1st, 2nd, 3rd, 4th.
fn nth(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{}{ending}", count(number))
}

#[cfg(test)]
mod tests {
    use super::nth;

    #[test]
    fn numbers_are_counted_as_people_count() {
        let counted = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(nth);
        let written =
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
        assert_eq!(counted, written);
    }
}

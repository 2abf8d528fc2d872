//! What a replay shows besides what an injection does: whether the driver behaved as in the recording.

use serde_json::Value;
use warikomi_measure::RunResult;
use warikomi_measure::layout::count;

use crate::experiment::Experiment;
use crate::inject::Inject;

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    Inject::describe(result);
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

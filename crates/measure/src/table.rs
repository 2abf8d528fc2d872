//! Results that are tables.

use std::fmt::Display;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use warikomi_clock::Span;

use crate::machine::Machine;
use crate::result::{RunResult, TargetInfo, TimeBase};

/// A row as the object that a result holds. What is not known is absent.
pub fn as_object(row: &impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(row) else { return Map::new() };
    object.retain(|_, value| !value.is_null());
    object
}

/// A list of things as their texts.
pub fn texts<T: Display, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(T::to_string))
}

/// A time in milliseconds.
pub fn ms<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_us() / 1e3)
}

/// A time in microseconds.
pub fn us<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_us())
}

/// A result that is a table, but for what is to be said against it.
pub fn table(
    experiment: &str,
    time_base: TimeBase,
    machine: Machine,
    target: TargetInfo,
    plan: &impl Serialize,
    rows: &[impl Serialize],
) -> RunResult {
    let mut result = RunResult::new(experiment, time_base, machine);
    result.target = target;
    result.plan = as_object(plan);
    result.rows = Some(rows.iter().map(as_object).collect());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_absent() {
        #[derive(Serialize)]
        struct Row {
            known_ns: Option<f64>,
            unknown_ns: Option<f64>,
        }
        let object = as_object(&Row { known_ns: Some(1.5), unknown_ns: None });
        assert_eq!(Value::Object(object), serde_json::json!({"known_ns": 1.5}));
    }
}

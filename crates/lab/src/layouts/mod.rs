//! What each experiment says of its results: columns, tables, charts, and what matters most.
//!
//! It follows from a finished result alone. So a result that an older version wrote, without any of this, can
//! be described as well.

mod cells;

use warikomi_measure::RunResult;

pub use cells::{headline, list, number, object, say_refusals, text};

/// Describes a result by its experiment; one of an unknown experiment is left as it is.
pub fn describe(result: &mut RunResult) {
    match result.experiment.as_str() {
        "accuracy" => crate::accuracy::columns::describe(result),
        "cost" => crate::cost::columns::describe(result),
        "inject" => crate::inject::columns::describe(result),
        "receive" => crate::receive::columns::describe(result),
        "replace" => crate::replace::columns::describe(result),
        "sweep" => crate::sweep::columns::describe(result),
        // A kernel's rows say what sent.
        "transmit" if result.rows.iter().flatten().any(|row| row.contains_key("sender")) => {
            crate::transmit::kernel::columns::describe(result);
        }
        "transmit" => crate::transmit::columns::describe(result),
        _ => {}
    }
    result.layout.settle();
}

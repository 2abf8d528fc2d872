//! Transmit: message size × buffers × completion strategy × bounce buffer.
//!
//! [`Options`] say which rows there are. A row is a run of the sender (`warikomi_stack::send`), in real time
//! in a process of its own ([`real`]), or in virtual time ([`simulated`]); every frame that it sends is judged
//! by the wire ([`numbered`](warikomi_wire::peer::numbered)), and one that is lost, doubled, out of order or changed fails the experiment.

pub mod advice;
mod beside;
pub(crate) mod columns;
pub mod kernel;
mod options;
pub mod real;
mod row;
mod series;
mod shares;
pub mod simulated;
mod traffic;

pub use options::{Amount, Options, Pace};
pub use row::{Repetition, Row};
pub use series::Progress;
pub use shares::{Share, shares};
pub use traffic::{Mixture, Traffic};
pub use warikomi_sim::transmit::SIZES_BYTES;

use serde_json::json;
use warikomi_driver::DriverInfo;
use warikomi_measure::{Machine, RunResult, TargetInfo, TimeBase, table};

use crate::Error;

/// What came of a comparison.
pub struct Transmitted {
    /// The figures; a row for each traffic with each way to send it.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
    /// Each repetition of each row.
    pub repetitions: Vec<Repetition>,
}

/// The driver of that name.
pub fn driver(name: &str) -> Result<&'static DriverInfo, Error> {
    let known = warikomi_driver::DRIVERS.iter().find(|info| info.name == name);
    known.copied().ok_or_else(|| {
        let known = drivers();
        Error::impossible(format!(
            "there is no driver '{name}' that runs in a process; there are: {known}"
        ))
    })
}

fn drivers() -> String {
    let names: Vec<_> = warikomi_driver::DRIVERS.iter().map(|info| info.name).collect();
    names.join(", ")
}

/// A comparison's result, but for what is to be said against it.
fn result(
    options: &Options,
    time_base: TimeBase,
    machine: Machine,
    target: TargetInfo,
    rows: &[Row],
) -> RunResult {
    let mut result = table("transmit", time_base, machine, target, &options.plan_of_result(), rows);
    let shares = shares(rows);
    if !shares.is_empty() {
        result.figures.insert("shares".into(), json!(shares));
    }
    result.figures.insert("advice".into(), json!(advice::advise(rows)));
    result
}

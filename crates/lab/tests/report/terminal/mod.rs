//! What each experiment prints: its columns, drawn by what knows no experiment.

mod accuracy;
mod cost;
mod explore;
mod receive;
mod replace;
mod soak;
mod sweep;
mod transmit;
mod transmit_kernel;

use warikomi_measure::RunResult;
use warikomi_report::terminal::{Style, page};

/// A finished result as its experiment describes it and a terminal shows it. It must survive being kept.
fn shown(result: &RunResult, style: Style) -> String {
    let mut result = result.clone();
    warikomi_lab::describe(&mut result);
    let kept = RunResult::from_json(&result.to_json()).expect("what is written can be read");
    assert_eq!(kept, result, "a result is the same after it was kept");
    page(&result, style)
}

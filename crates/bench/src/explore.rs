//! How many places a second are struck: each a trial of its own in a kernel that finds its own mistakes.

use serde_json::{Value, json};
use warikomi_lab::explore::{Explore, Operation};
use warikomi_lab::{Error, Experiment, Watch};
use warikomi_measure::RunResult;
use warikomi_session::TargetArguments;
use warikomi_target::Interrupted;

use crate::rounds::median;

/// Rounds of which the median is taken; one takes about half a minute.
const ROUNDS: usize = 3;

/// Functions of r8169 whose places are reached while packets come and go.
const FUNCTIONS: [&str; 3] = ["rtl8169_poll", "rtl_rx", "rtl_tx"];

/// Measures it, where packets come and go alone and with all that can be done to a driver, and puts a row for each
/// into `result`. `progress` is told steps done and in all.
pub fn explore(
    target: &TargetArguments,
    interrupted: &Interrupted,
    result: &mut RunResult,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), Error> {
    let ways = [("ping", vec![Operation::Ping]), ("all operations", Vec::new())];
    let mut rows: Vec<Value> = Vec::new();
    for (number, (name, operations)) in ways.iter().enumerate() {
        let (mut trials, mut per_second) = (Value::Null, Vec::new());
        for round in 0..ROUNDS {
            progress(number * ROUNDS + round, ways.len() * ROUNDS);
            let mut watch = Watch::unobserved();
            watch.interrupted = interrupted.clone();
            let explored = Explore::of(target.clone(), &FUNCTIONS, operations).run(&mut watch)?;
            let figures = &explored.result.figures;
            trials = figures.get("trials").cloned().unwrap_or_default();
            per_second.extend(figures.get("trials_per_second").and_then(Value::as_f64));
            result.machine = explored.result.machine.clone();
            result.target = explored.result.target.clone();
        }
        let per_second = median(&mut per_second);
        rows.push(json!({ "operation": name, "trials": trials, "trials_per_s": per_second }));
    }
    progress(ways.len() * ROUNDS, ways.len() * ROUNDS);
    result.figures.insert("exploring".into(), rows.into());
    Ok(())
}

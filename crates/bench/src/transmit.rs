//! What adapting costs a sender: the time that a short message takes, with what decides while it runs and
//! without.
//!
//! Messages come at a pace that no device here has trouble with, so the sender waits for nothing, and its busy
//! time is what it does for each of them. Ways take turns, and a ratio is of two runs of one round.

use serde_json::{Map, Value, json};
use warikomi_clock::Span;
use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_lab::transmit::{Amount, Options, Pace, Repetition, Traffic, real};
use warikomi_lab::{Error, Watch};
use warikomi_measure::RunResult;
use warikomi_nic::NicOptions;
use warikomi_session::OwnParts;
use warikomi_stack::buffers::BufferKind;
use warikomi_target::Interrupted;

use crate::rounds::median;

/// Where decisions weigh most: there is hardly anything else to do for such a message.
const SIZE_BYTES: u32 = 64;
const INTERVAL: Span = Span::from_us(5);
const MESSAGES: u64 = 20_000;
/// Rounds of which the median is taken; a round takes less than half a second.
const ROUNDS: u32 = 11;
/// A device whose descriptors are in memory, and one that must be asked.
const MODELS: [&str; 2] = ["rtl8168", "oc48"];
/// What the figures call the rows of [`options`], in their order.
const WAYS: [&str; 3] = ["interrupt_free", "adaptive", "adaptive_auto"];

/// Measures it on each device, and puts a row for each into `result`. `progress` is told steps done and in
/// all.
pub fn transmit(
    parts: OwnParts,
    interrupted: &Interrupted,
    result: &mut RunResult,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), Error> {
    let mut rows = Vec::new();
    for (number, model) in MODELS.into_iter().enumerate() {
        progress(number, MODELS.len());
        let mut watch = Watch::unobserved();
        (watch.parts, watch.interrupted) = (parts, interrupted.clone());
        let found = real::transmit(&options(model), &mut watch)?;
        rows.push(Value::Object(row(model, &found.repetitions)));
        result.machine = found.result.machine;
        result.warnings.extend(found.result.warnings);
    }
    result.figures.insert("sending".into(), rows.into());
    Ok(())
}

fn options(model: &str) -> Options {
    Options {
        traffic: vec![Traffic::Size(SIZE_BYTES)],
        buffers: vec![BufferKind::Mbuf { cluster_bytes: 2_048 }],
        completions: vec![Completion::InterruptFree, Completion::Adaptive(Thresholds::default())],
        bounces: vec![Bounce::None, Bounce::Auto],
        amount: Amount::Messages(MESSAGES),
        pace: Pace::Interval(INTERVAL),
        repeats: ROUNDS,
        nic: NicOptions::of(model),
        driver: model.to_owned(),
        ..Options::default()
    }
}

/// Medians over the rounds: times, and ratios of two ways in one round.
fn row(model: &str, repetitions: &[Repetition]) -> Map<String, Value> {
    let times = |way: usize| -> Vec<f64> {
        let of_way = repetitions.iter().filter(|one| one.row == way);
        of_way.filter_map(busy_ns_per_message).collect()
    };
    let ratio = |of: usize, to: usize| {
        let (of, to) = (times(of), times(to));
        median(&mut of.iter().zip(&to).map(|(of, to)| of / to).collect::<Vec<_>>())
    };
    let mut row = Map::new();
    row.insert("size_bytes".into(), SIZE_BYTES.into());
    row.insert("model".into(), model.into());
    row.insert("adaptive_over_interrupt_free".into(), json!(ratio(1, 0)));
    row.insert("auto_over_no_bounce".into(), json!(ratio(2, 1)));
    for (way, name) in WAYS.iter().enumerate() {
        row.insert(format!("{name}_ns"), json!(median(&mut times(way))));
    }
    row
}

fn busy_ns_per_message(one: &Repetition) -> Option<f64> {
    let busy = one.cpu_share? * one.took_ns as f64;
    (one.messages > 0).then(|| busy / one.messages as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_one_round_and_the_median_of_all() {
        let mut all = Vec::new();
        // The machine is twice as slow in the second round, and four times in the third.
        for (repeat, slower) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
            for (row, ns) in [(0, 100), (1, 105), (2, 126)] {
                let took_ns = (2_000.0 * slower) as u64 * ns;
                let (messages, cpu_share) = (1_000, Some(0.5));
                all.push(Repetition {
                    row,
                    repeat,
                    messages,
                    cpu_share,
                    took_ns,
                    ..Repetition::default()
                });
            }
        }
        let row = row("any", &all);
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!((figure("adaptive_over_interrupt_free") - 1.05).abs() < 1e-9);
        assert!((figure("auto_over_no_bounce") - 1.2).abs() < 1e-9);
        assert!((figure("interrupt_free_ns") - 200.0).abs() < 1e-9, "{row:?}");
    }
}

//! What came of a comparison.

use serde_json::{Value, json};
use warikomi_measure::{Machine, RunResult, TargetInfo, TimeBase, table};

use super::advice::advise;
use super::fitted;
use super::lengths::lengths;
use super::options::Options;
use super::row::{Repetition, Row};
use super::shares::shares;

/// What came of a comparison.
pub struct Transmitted {
    /// The figures; a row for each traffic with each way to send it.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
    /// Each repetition of each row.
    pub repetitions: Vec<Repetition>,
}

impl Transmitted {
    /// All rows of all cards together, but for what is to be said against them.
    pub(super) fn of(
        cards: &[Options],
        time_base: TimeBase,
        (mut target, machine): (TargetInfo, Machine),
        (rows, repetitions): (Vec<Row>, Vec<Repetition>),
    ) -> Transmitted {
        let mut plan = cards.first().map_or(Value::Null, Options::plan_of_result);
        if cards.len() > 1 {
            let names: Vec<&str> = cards.iter().map(|options| &*options.nic.model).collect();
            plan["cards"] = json!(names);
            target.driver = names.join(", ");
            target.model.clone_from(&target.driver);
        }
        let mut result = table("transmit", time_base, machine, target, &plan, &rows);
        // Advice is about buffers and bounce buffers of UDP.
        let of_udp = if rows.iter().any(|row| row.tso.is_some()) { &[][..] } else { &rows[..] };
        let shares = shares(of_udp);
        let only = cards.first().map_or("", |options| &options.nic.model);
        let lengths = lengths(only, of_udp, &shares);
        if !lengths.is_empty() {
            result.figures.insert("lengths".into(), json!(lengths));
        }
        if !shares.is_empty() {
            result.figures.insert("shares".into(), json!(shares));
        }
        result.figures.insert("advice".into(), json!(advise(of_udp)));
        fitted::note(&mut result, cards.first().and_then(|options| options.nic.bus.as_ref()), None);
        Transmitted { result, rows, repetitions }
    }
}

/// Rows and repetitions of one card after the other.
pub(super) fn of_each<E>(
    cards: &[Options],
    mut rows: impl FnMut(&Options) -> Result<(Vec<Row>, Vec<Repetition>), E>,
) -> Result<(Vec<Row>, Vec<Repetition>), E> {
    let (mut all, mut repetitions) = (Vec::new(), Vec::new());
    for options in cards {
        let (of_card, repeated) = rows(options)?;
        let before = all.len();
        all.extend(of_card);
        repetitions
            .extend(repeated.into_iter().map(|line| Repetition { row: before + line.row, ..line }));
    }
    Ok((all, repetitions))
}

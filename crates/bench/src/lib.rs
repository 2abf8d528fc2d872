//! Measures Warikomi itself: the figures of docs/benchmarks.md.
//!
//! Every figure is the median of several rounds, and what is compared is measured in turns within
//! one run, because these machines are rarely alone.

mod columns;
pub mod comparison;
mod copy;
mod explore;
mod hypervisor;
mod memory;
mod model;
mod rates;
mod ring;
mod rounds;
mod testpmd;
mod transmit;
mod way;

use serde::Serialize;
use warikomi_lab::Error;
use warikomi_measure::{Machine, RunResult, TimeBase, Warning, as_object};
use warikomi_session::Session;

pub use columns::describe;
pub use explore::explore;
pub use hypervisor::{Hypervisor, compare as against_hypervisor};
pub use memory::memory;
pub use rounds::ROUNDS;
pub use transmit::transmit;
pub use way::{Failure, Running, Sample, Setup, Way};

/// Frame lengths in bytes, and the name that published figures have for them. The longest frame
/// that the NIC takes is 5 bytes short of 16 KB.
pub const SIZES: &[(&str, usize)] = &[
    ("1 KB", 1024),
    ("1.5 KB", 1500),
    ("4 KB", 4096),
    ("8 KB", 8192),
    ("12 KB", 12_288),
    ("16 KB", 16_379),
];

/// The figures of one frame length. Times in nanoseconds, rates in bit/s of frames.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Frame length in bytes.
    pub size_bytes: usize,
    /// Time to inject: update descriptor, place frame, request interrupt, with the driver polling.
    pub inject_ns: f64,
    /// Time to copy the same bytes into the same memory, whose lines the other core has read last.
    pub memcpy_ns: f64,
    /// Time to copy them there once more, when the lines are this core's.
    pub memcpy_warm_ns: f64,
    /// The median over the rounds of one by the other.
    pub inject_over_memcpy: f64,
    /// Time to inject when the interrupt has to be signalled, too.
    pub inject_and_signal_ns: f64,
    /// What the driver accepts of frames that come as fast as possible.
    pub saturated_bps: f64,
    /// Its frames in a second.
    pub saturated_pps: f64,
    /// The shortest interval at which at least 99.9% are accepted.
    pub shortest_interval_ns: f64,
    /// The driver's own is this at most, because our side cannot keep a shorter one; absent if that is
    /// not so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shortest_interval_at_most: bool,
    /// What the driver accepted at that interval, as it was seen.
    pub shortest_interval_bps: f64,
    /// By how much that rate is lower while everything is recorded.
    pub recording_cost_share: f64,
    /// What an event takes in a trace.
    pub trace_bytes_per_event: f64,
}

/// Runs all of it on one session; takes some minutes. `progress` is told steps done and in all.
pub fn bench(
    session: &mut Session,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<RunResult, Error> {
    let steps = SIZES.len() * 3;
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    let watch = session.watch_cores();
    for (index, &(_, size)) in SIZES.iter().enumerate() {
        let mut step = |done: usize| progress(3 * index + done, steps);
        step(0);
        if !rates::is_let_in(session, size)? {
            refused.push(size);
            continue;
        }
        let copy = copy::inject_against_memcpy(session, size)?;
        step(1);
        let saturated_pps = rates::saturated_pps(session, size)?;
        step(2);
        let rates::Shortest { interval, recording_cost_share, trace_bytes_per_event } =
            rates::shortest(session, size, saturated_pps)?;
        let bits = 8.0 * size as f64;
        rows.push(Row {
            size_bytes: size,
            inject_ns: copy.inject_ns,
            memcpy_ns: copy.memcpy_ns,
            memcpy_warm_ns: copy.memcpy_warm_ns,
            inject_over_memcpy: copy.ratio,
            inject_and_signal_ns: copy.inject_and_signal_ns,
            saturated_bps: saturated_pps * bits,
            saturated_pps,
            shortest_interval_ns: interval.ns,
            shortest_interval_at_most: interval.at_most,
            shortest_interval_bps: interval.bps,
            recording_cost_share,
            trace_bytes_per_event,
        });
    }
    progress(steps, steps);
    let mut result = outcome(session.machine_since(&watch), session, &rows);
    result.warnings.extend(not_measured(&refused));
    Ok(result)
}

fn outcome(machine: Machine, session: &Session, rows: &[Row]) -> RunResult {
    let mut result = RunResult::new("bench", TimeBase::Real, machine);
    result.target = session.info.clone();
    result.rows = Some(rows.iter().map(as_object).collect());
    result.warnings = rows.iter().filter_map(at_most).collect();
    result
}

fn not_measured(refused: &[usize]) -> Option<Warning> {
    let sizes: Vec<_> = refused.iter().map(usize::to_string).collect();
    (!refused.is_empty()).then(|| Warning {
        what: format!("not measured: the card refuses frames of {} bytes", sizes.join(", ")),
        hint: "its driver asks for no longer ones at this MTU, or the card takes none".into(),
    })
}

fn at_most(row: &Row) -> Option<Warning> {
    row.shortest_interval_at_most.then(|| Warning {
        what: format!(
            "the shortest interval of frames of {} bytes is at most {:.0} ns: the driver kept up with \
             the shortest that our own side can keep",
            row.size_bytes, row.shortest_interval_ns
        ),
        hint: "take it for a bound, not for the driver's limit; a faster support side may find less"
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_is_a_bound_is_said_to_be_one() {
        let row = Row {
            size_bytes: 1_500,
            inject_ns: 1.0,
            memcpy_ns: 1.0,
            memcpy_warm_ns: 1.0,
            inject_over_memcpy: 1.0,
            inject_and_signal_ns: 1.0,
            saturated_bps: 1.0,
            saturated_pps: 1.0,
            shortest_interval_ns: 93.4,
            shortest_interval_at_most: true,
            shortest_interval_bps: 1.0,
            recording_cost_share: 0.0,
            trace_bytes_per_event: 1.0,
        };
        let said = at_most(&row).unwrap().what;
        assert!(said.starts_with("the shortest interval of frames of 1500 bytes is at most 93 ns"));
        assert_eq!(as_object(&row)["shortest_interval_at_most"], true);
        let measured = Row { shortest_interval_at_most: false, ..row };
        assert_eq!(at_most(&measured), None);
        assert!(!as_object(&measured).contains_key("shortest_interval_at_most"));
    }

    #[test]
    fn lengths_that_a_card_refuses_are_named() {
        assert_eq!(not_measured(&[]), None);
        let said = not_measured(&[4_096, 8_192]).unwrap().what;
        assert_eq!(said, "not measured: the card refuses frames of 4096, 8192 bytes");
    }
}

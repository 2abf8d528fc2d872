//! What it costs to send a packet to the driver: update a descriptor, place the packet, request the
//! interrupt.

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_inject::{Plan, Receiver};
use warikomi_measure::{Distribution, Fate, Samples};
use warikomi_session::Session;

use super::fit::middle;
use super::receive::carry_out;
use crate::error::Error;

/// Calls of a series.
pub const CALLS: u64 = 3_000;
/// Those that count, numbered from 1, as in the published measurement.
pub const COUNTED: std::ops::RangeInclusive<u64> = 1_000..=2_000;

/// A series is made so often at most.
const ATTEMPTS: usize = 10;

/// Long enough that the driver keeps up, short enough that it polls on: for frames of no bytes,
/// and per byte.
const POLLED_INTERVAL: Span = Span::from_ns(1_500);
const POLLED_PS_PER_BYTE: u64 = 400;
/// Long enough that the driver has enabled its interrupt again at every packet.
const SIGNALLED_INTERVAL: Span = Span::from_us(80);

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its number, from 1.
    pub number: u64,
    /// How long it took.
    pub took: Span,
}

/// A series of calls for one frame length.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Series {
    /// Those that placed a packet, in order.
    pub(super) calls: Vec<Call>,
    /// The figures of those that count.
    pub(super) counted: Distribution,
    /// Interrupts for a call.
    pub(super) interrupts_per_call: f64,
}

impl Series {
    fn of(calls: Vec<Call>, interrupts_per_call: f64) -> Option<Series> {
        let mut samples = Samples::new();
        calls
            .iter()
            .filter(|call| COUNTED.contains(&call.number))
            .for_each(|call| samples.record(call.took));
        samples.summary().map(|counted| Series { calls, counted, interrupts_per_call })
    }
}

/// While the driver polls, so that an interrupt is requested but seldom has to be signalled. `None`
/// if no packet that counts found a descriptor, however often it was tried.
pub(super) fn polled(session: &mut Session, size: usize) -> Result<Option<Series>, Error> {
    series(session, size, POLLED_INTERVAL + Span::from_ps(size as u64 * POLLED_PS_PER_BYTE))
}

/// While the driver waits, so that an injection includes what tells the target of its interrupt: the write that
/// wakes it.
pub(super) fn signalled(session: &mut Session, size: usize) -> Result<Option<Series>, Error> {
    series(session, size, SIGNALLED_INTERVAL)
}

/// A series takes milliseconds, in which another process may have the driver's core: if no packet that counts found a
/// descriptor, it is made again.
fn series(session: &mut Session, size: usize, interval: Span) -> Result<Option<Series>, Error> {
    for _ in 0..ATTEMPTS {
        if let Some(series) = attempt(session, size, interval)? {
            return Ok(Some(series));
        }
    }
    Ok(None)
}

fn attempt(session: &mut Session, size: usize, interval: Span) -> Result<Option<Series>, Error> {
    let receiver = Receiver::Driver;
    let plan = Plan { size_bytes: size, interval, count: CALLS, receiver, ..Plan::default() };
    let run = carry_out(session, &plan)?;
    let placed = |row: &warikomi_measure::Row| {
        matches!(row.fate, Fate::Unclaimed | Fate::LostOnRing | Fate::LostInStack)
    };
    let call =
        |row: warikomi_measure::Row| Some(Call { number: row.sequence + 1, took: row.took? });
    let raised = run.result.interrupts.as_ref().map_or(0, |interrupts| interrupts.raised);
    let calls = run.ledger.rows().filter(placed).filter_map(call).collect();
    Ok(Series::of(calls, raised as f64 / CALLS as f64))
}

/// The series in the middle, by its mean.
pub(super) fn median(mut series: Vec<&Series>) -> Option<&Series> {
    series.sort_by(|a, b| a.counted.mean.total_cmp(&b.counted.mean));
    middle(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_calls_1000_to_2000() {
        let took = |number: u64| match number {
            1_000..=2_000 => Span::from_ns(200 + number % 2),
            _ => Span::from_us(9),
        };
        let calls = (1..=CALLS).map(|number| Call { number, took: took(number) }).collect();
        let series = Series::of(calls, 1.0).unwrap();
        assert_eq!(series.counted.count, 1_001);
        let expected = 200.0 + 500.0 / 1_001.0;
        assert!((series.counted.mean - expected).abs() < 1e-9, "{}", series.counted.mean);
    }

    #[test]
    fn calls_that_do_not_count_have_no_figures() {
        assert!(Series::of(vec![Call { number: 999, took: Span::from_ns(1) }], 0.0).is_none());
    }
}

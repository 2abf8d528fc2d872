//! How fast the driver can go.

use std::mem::discriminant;
use std::rc::Rc;

use warikomi_clock::{Span, read_tsc};
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::Error;
use warikomi_lab::inject::{Application, Injected, Order, inject_plan};
use warikomi_session::Session;
use warikomi_trace::Tape;

use crate::rounds::{ROUNDS, median};

const SATURATING_PACKETS: u64 = 50_000;
const CYCLE_PACKETS: u64 = 5_000;

/// What counts as all: one in a thousand is left to the host of a shared machine.
const ENOUGH: f64 = 0.999;

/// A driver that does not keep up at this interval, in nanoseconds, does not keep up at all.
const LONGEST_NS: f64 = 1e7;

/// Nothing can be injected in less.
const SHORTEST_NS: f64 = 10.0;

/// By how much an interval is longer or shorter than the one tried before, until the search is between two.
const STRIDE: f64 = 1.5;

/// The search ends when the interval is known to this share.
const PRECISION: f64 = 0.02;

/// A pace is kept if the last packet goes out no later than this share of the cycle.
const LATE_SHARE: f64 = 0.1;

fn carry_out(
    session: &mut Session,
    plan: &Plan,
    tape: Option<&Rc<Tape>>,
) -> Result<Injected, Error> {
    // The driver's speed, not the stack's.
    let plan = Plan { receiver: Receiver::Driver, ..plan.clone() };
    let application = Application::default();
    let order = Order { plan: &plan, application, run_id: read_tsc() as u32, tape };
    inject_plan(session, &order, &mut |_| ())
}

/// Whether the card lets frames of this length in at all.
pub(super) fn is_let_in(session: &mut Session, size: usize) -> Result<bool, Error> {
    const TRIED: u64 = 10;
    let plan = Plan { size_bytes: size, count: TRIED, ..Plan::default() };
    Ok(carry_out(session, &plan, None)?.ledger.totals().filtered < TRIED)
}

/// Frames that the driver accepts in a second when they come as fast as possible.
pub(super) fn saturated_pps(session: &mut Session, size: usize) -> Result<f64, Error> {
    let plan = Plan {
        size_bytes: size,
        interval: Span::ZERO,
        count: SATURATING_PACKETS,
        ..Plan::default()
    };
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let bps = carry_out(session, &plan, None)?.result.throughput_bps.unwrap_or(f64::NAN);
        rates.push(bps / (8.0 * size as f64));
    }
    Ok(median(&mut rates))
}

/// The result of [`shortest`].
pub(super) struct Shortest {
    /// The shortest interval at which [`ENOUGH`] are accepted, and the rate there.
    pub(super) interval: Found,
    /// The share of that rate that is lost while everything is recorded.
    pub(super) recording_cost_share: f64,
    /// What an event takes in the trace.
    pub(super) trace_bytes_per_event: f64,
}

/// The shortest interval at which [`ENOUGH`] are accepted, without recording and, in turns with that,
/// with it: medians of several searches by bisection.
pub(super) fn shortest(
    session: &mut Session,
    size: usize,
    saturated_pps: f64,
) -> Result<Shortest, Error> {
    let (mut found, mut cost, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    // A little longer than what the driver takes when it is saturated.
    let guess_ns = 1.2e9 / saturated_pps;
    for _ in 0..ROUNDS {
        let plain = search(guess_ns, |ns| verdict(session, size, ns, &mut |_| None))?;
        let mut last = None;
        let recorded = search(guess_ns, |ns| {
            verdict(session, size, ns, &mut |plan| {
                last = Some(Rc::new(Tape::for_packets(plan.count, 0)));
                last.clone()
            })
        })?;
        found.push(plain);
        cost.push(1.0 - recorded.bps / plain.bps);
        bytes.extend(last.map(|tape| tape.bytes() as f64 / tape.events() as f64));
    }
    found.sort_by(|one, other| one.ns.total_cmp(&other.ns));
    Ok(Shortest {
        interval: found[found.len() / 2],
        recording_cost_share: median(&mut cost),
        trace_bytes_per_event: median(&mut bytes),
    })
}

/// What cycles at an interval show.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// [`ENOUGH`] were accepted, so many bits of them in a second.
    Enough { bps: f64 },
    /// Fewer were.
    TooFew,
    /// Our own side cannot keep the pace, so that what was accepted shows nothing.
    NotKept,
}

/// The bounds that a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// The interval in nanoseconds, `NaN` if the driver does not keep up at all.
    pub(super) ns: f64,
    /// What the driver accepted there, in bit/s, as it was seen: no interval is exactly as it was asked for.
    pub(super) bps: f64,
    /// The driver's own is this at most: it ends at our side, not at the driver.
    pub(super) at_most: bool,
}

/// One search, by strides from `guess_ns` on and then by bisection.
fn search<E>(
    guess_ns: f64,
    mut verdict: impl FnMut(f64) -> Result<Verdict, E>,
) -> Result<Found, E> {
    let mut tried_ns = guess_ns;
    let mut short = None;
    let mut enough = loop {
        // It is not a number when nothing was accepted at all.
        if tried_ns.is_nan() || tried_ns > LONGEST_NS {
            return Ok(Found { ns: f64::NAN, bps: f64::NAN, at_most: false });
        }
        match verdict(tried_ns)? {
            Verdict::Enough { bps } => break Found { ns: tried_ns, bps, at_most: false },
            why => short = Some((tried_ns, why)),
        }
        tried_ns *= STRIDE;
    };
    let (mut too_short_ns, mut why) = loop {
        if let Some(short) = short {
            break short;
        }
        let shorter = enough.ns / STRIDE;
        if shorter < SHORTEST_NS {
            return Ok(Found { at_most: true, ..enough });
        }
        match verdict(shorter)? {
            Verdict::Enough { bps } => enough = Found { ns: shorter, bps, at_most: false },
            why => short = Some((shorter, why)),
        }
    };
    while enough.ns / too_short_ns > 1.0 + PRECISION {
        let between = (too_short_ns * enough.ns).sqrt();
        match verdict(between)? {
            Verdict::Enough { bps } => enough = Found { ns: between, bps, at_most: false },
            other => (too_short_ns, why) = (between, other),
        }
    }
    Ok(Found { at_most: why == Verdict::NotKept, ..enough })
}

/// Gives each cycle something to record on, or nothing.
type Tapes<'a> = &'a mut dyn FnMut(&Plan) -> Option<Rc<Tape>>;

/// Two of three cycles decide, so that one pause of the host does not; if all three differ, they show
/// nothing. A rate is that of the cycle that decides.
fn verdict(
    session: &mut Session,
    size: usize,
    interval_ns: f64,
    tapes: Tapes<'_>,
) -> Result<Verdict, Error> {
    let plan = Plan {
        size_bytes: size,
        interval: Span::from_ps((interval_ns * 1e3) as u64),
        count: CYCLE_PACKETS,
        ..Plan::default()
    };
    let mut seen = Vec::new();
    for _ in 0..3 {
        let verdict = of_cycle(&carry_out(session, &plan, tapes(&plan).as_ref())?);
        if seen.contains(&discriminant(&verdict)) {
            return Ok(verdict);
        }
        seen.push(discriminant(&verdict));
    }
    Ok(Verdict::NotKept)
}

fn of_cycle(run: &Injected) -> Verdict {
    let last = run.ledger.rows().last().and_then(|row| Some((row.injected?, row.planned?)));
    let late = last
        .is_none_or(|(at, due)| at.since(due).as_ns() > LATE_SHARE * due.since(run.start).as_ns());
    match run.result.success {
        Some(success) if success.driver < ENOUGH => Verdict::TooFew,
        Some(_) if !late => Verdict::Enough { bps: run.result.throughput_bps.unwrap_or(f64::NAN) },
        _ => Verdict::NotKept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that needs `driver_ns` for a frame, and a side of ours that needs `own_ns`; what is found
    /// from a guess, and what was tried.
    fn found(guess_ns: f64, driver_ns: f64, own_ns: f64) -> (Found, Vec<f64>) {
        let mut tried = Vec::new();
        let found = search(guess_ns, |ns| {
            tried.push(ns);
            Ok::<_, ()>(match ns {
                // However fast it shall be, it is no faster than we are.
                ns if ns.max(own_ns) < driver_ns => Verdict::TooFew,
                ns if ns < own_ns => Verdict::NotKept,
                // Of intervals that are kept no more exactly than this.
                _ => Verdict::Enough { bps: 0.97 * 12e12 / ns },
            })
        });
        (found.unwrap(), tried)
    }

    fn is_near(found: Found, ns: f64) -> bool {
        (ns..=ns * (1.0 + PRECISION)).contains(&found.ns)
    }

    #[test]
    fn the_interval_is_found_wherever_it_lies_from_the_guess() {
        for driver_ns in [60.0, 200.0, 447.0, 450.0, 555.0, 9_000.0, 9e6] {
            let (found, tried) = found(540.0, driver_ns, 50.0);
            assert!(is_near(found, driver_ns) && !found.at_most, "{driver_ns}: {found:?}");
            assert!((found.bps * found.ns / 12e12 - 0.97).abs() < 1e-9, "as seen: {found:?}");
            assert!(tried.len() < 40, "{driver_ns}: {tried:?}");
        }
    }

    #[test]
    fn where_our_own_side_ends_the_search_the_interval_is_a_bound() {
        let (found, _) = found(540.0, 100.0, 300.0);
        assert!(is_near(found, 300.0) && found.at_most, "{found:?}");
    }

    #[test]
    fn an_interval_below_all_that_is_tried_is_a_bound() {
        let (found, tried) = found(540.0, 0.0, 0.0);
        assert!(found.at_most && found.ns / STRIDE < SHORTEST_NS, "{found:?}");
        assert!(tried.iter().all(|&ns| ns >= SHORTEST_NS));
    }

    #[test]
    fn a_driver_that_never_keeps_up_has_no_interval() {
        let (found, tried) = found(540.0, 1e12, 50.0);
        assert!(found.ns.is_nan() && !found.at_most && tried.len() < 40, "{found:?}");
    }

    #[test]
    fn nothing_is_tried_where_nothing_was_accepted() {
        let (found, tried) = found(f64::NAN, 1.0, 1.0);
        assert!(found.ns.is_nan() && tried.is_empty());
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(search(540.0, |_| Err("gone")), Err("gone"));
    }
}

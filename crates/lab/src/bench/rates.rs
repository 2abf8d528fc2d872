//! How fast the driver can go.

use std::rc::Rc;

use warikomi_clock::{Span, read_tsc};
use warikomi_inject::trace::Tape;
use warikomi_inject::{Plan, Receiver};

use super::{ROUNDS, median};
use crate::Session;
use crate::inject::{Application, InjectError, Injected, Order, inject_plan};

const SATURATING_PACKETS: u64 = 50_000;
const CYCLE_PACKETS: u64 = 5_000;

/// What counts as all: one in a thousand is left to the host of a shared machine.
const ENOUGH: f64 = 0.999;

/// A driver that does not keep up at this interval, in nanoseconds, does not keep up at all.
const LONGEST_NS: f64 = 1e7;

/// The search ends when the interval is known to this share.
const PRECISION: f64 = 0.02;

fn carry_out(
    session: &mut Session,
    plan: &Plan,
    tape: Option<&Rc<Tape>>,
) -> Result<Injected, InjectError> {
    // The driver's speed, not the stack's.
    let plan = Plan { receiver: Receiver::Driver, ..plan.clone() };
    let application = Application::default();
    let order = Order { plan: &plan, application, run_id: read_tsc() as u32, tape };
    inject_plan(session, &order, &mut |_| ())
}

/// Frames that the driver accepts in a second when they come as fast as possible.
pub(super) fn saturated_pps(session: &mut Session, size: usize) -> Result<f64, InjectError> {
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

/// What [`shortest`] finds.
pub(super) struct Shortest {
    /// The shortest interval at which [`ENOUGH`] are accepted.
    pub(super) shortest_interval_ns: f64,
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
) -> Result<Shortest, InjectError> {
    let (mut found, mut cost, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let plain = search(session, size, saturated_pps, &mut |_| None)?;
        let mut last = None;
        let recorded = search(session, size, saturated_pps, &mut |plan| {
            last = Some(Rc::new(Tape::for_packets(plan.count, 0)));
            last.clone()
        })?;
        found.push(plain);
        cost.push(1.0 - plain / recorded);
        bytes.extend(last.map(|tape| tape.bytes() as f64 / tape.events() as f64));
    }
    Ok(Shortest {
        shortest_interval_ns: median(&mut found),
        recording_cost_share: median(&mut cost),
        trace_bytes_per_event: median(&mut bytes),
    })
}

/// Gives each cycle something to record on, or nothing.
type Tapes<'a> = &'a mut dyn FnMut(&Plan) -> Option<Rc<Tape>>;

/// One search by bisection; the interval in nanoseconds, `NaN` if the driver does not keep up at all.
fn search(
    session: &mut Session,
    size: usize,
    saturated_pps: f64,
    tapes: Tapes<'_>,
) -> Result<f64, InjectError> {
    // The driver cannot take more than it does when it is saturated.
    let mut too_short = 0.8e9 / saturated_pps;
    let mut long_enough = too_short;
    loop {
        long_enough *= 1.5;
        // It is not a number when nothing was accepted at all.
        if long_enough.is_nan() || long_enough > LONGEST_NS {
            return Ok(f64::NAN);
        }
        if is_enough(session, size, long_enough, tapes)? {
            break;
        }
        too_short = long_enough;
    }
    while long_enough / too_short > 1.0 + PRECISION {
        let between = (too_short * long_enough).sqrt();
        if is_enough(session, size, between, tapes)? {
            long_enough = between;
        } else {
            too_short = between;
        }
    }
    Ok(long_enough)
}

/// Two of three cycles decide, so that one pause of the host does not.
fn is_enough(
    session: &mut Session,
    size: usize,
    interval_ns: f64,
    tapes: Tapes<'_>,
) -> Result<bool, InjectError> {
    let plan = Plan {
        size_bytes: size,
        interval: Span::from_ps((interval_ns * 1e3) as u64),
        count: CYCLE_PACKETS,
        ..Plan::default()
    };
    let mut passed = 0;
    for cycle in 1..=3 {
        let success = carry_out(session, &plan, tapes(&plan).as_ref())?.result.success;
        passed += usize::from(success.is_some_and(|success| success.driver >= ENOUGH));
        if passed == 2 || cycle - passed == 2 {
            break;
        }
    }
    Ok(passed == 2)
}

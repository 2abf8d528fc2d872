//! What it costs the target to receive a packet, when packets come as fast as they can.
//!
//! The target has one core, and a saturated target never rests: the time of a run by the packets
//! that it received in it is what one packet costs. Packets that find no descriptor cost it nothing.
//! That is so of the driver alone, with packets for no protocol. It is so of everything up to the
//! application as well, if the time runs until the application has the last one, and if nothing was
//! lost on the way, where it would have cost something and not count. So those runs are short
//! enough for the socket to hold what the application has not come to yet.

use warikomi_clock::{Span, read_tsc};
use warikomi_inject::{Plan, Receiver, Warmup};
use warikomi_session::Session;

use crate::error::Error;
use crate::inject::{Application, Injected, inject};

/// Packets of a run for the driver alone.
const DRIVER_PACKETS: u64 = 50_000;
/// Packets of a run for the application, and bytes that they may have together: half of what its
/// socket holds.
const APPLICATION_PACKETS: u64 = 5_000;
const SOCKET_BYTES: u64 = 16 << 20;
/// What the kernel counts against a socket for a packet besides its bytes, at most.
const SOCKET_OVERHEAD_BYTES: u64 = 4_096;

/// The share of packets that a saturated target must have missed: otherwise it was the injection that
/// set the pace.
const SATURATED_SHARE: f64 = 0.01;
/// The share of accepted packets that may be lost behind the driver.
const LOST_SHARE: f64 = 0.001;

/// What one packet costs the driver, in nanoseconds; `None` if it was not saturated.
pub(super) fn driver_ns(session: &mut Session, size: usize) -> Result<Option<f64>, Error> {
    let run = flood(session, size, Receiver::Driver, DRIVER_PACKETS, Warmup::default())?;
    let totals = run.ledger.totals();
    let bps = run.result.throughput_bps.filter(|bps| *bps > 0.0);
    let saturated = totals.no_descriptor as f64 >= SATURATED_SHARE * totals.injected as f64;
    Ok(bps.filter(|_| saturated).map(|bps| size as f64 * 8e9 / bps))
}

/// What one packet costs the target until its application has it, in nanoseconds; `None` if
/// the target was not saturated, packets were lost behind the driver, or there is no application.
pub(super) fn end_to_end_ns(session: &mut Session, size: usize) -> Result<Option<f64>, Error> {
    if !session.target.has_application() {
        return Ok(None);
    }
    let run = flood_application(session, size, Warmup::default())?;
    let totals = run.ledger.totals();
    let last = run.ledger.rows().filter_map(|row| row.delivered).max();
    let lost = totals.lost_in_stack as f64 > LOST_SHARE * totals.accepted as f64;
    let saturated = totals.no_descriptor as f64 >= SATURATED_SHARE * totals.injected as f64;
    Ok(last
        .filter(|_| saturated && !lost && totals.delivered > 0)
        .map(|last| last.since(run.start).as_ns() / totals.delivered as f64))
}

/// As many packets for the application, as fast as possible, as its socket holds.
pub(super) fn flood_application(
    session: &mut Session,
    size: usize,
    warmup: Warmup,
) -> Result<Injected, Error> {
    let fit = SOCKET_BYTES / (size as u64 + SOCKET_OVERHEAD_BYTES);
    flood(session, size, Receiver::Application, fit.min(APPLICATION_PACKETS), warmup)
}

/// Carries out `count` packets as fast as possible.
pub(super) fn flood(
    session: &mut Session,
    size: usize,
    receiver: Receiver,
    count: u64,
    warmup: Warmup,
) -> Result<Injected, Error> {
    let plan =
        Plan { size_bytes: size, interval: Span::ZERO, count, receiver, warmup, ..Plan::default() };
    carry_out(session, &plan)
}

/// Carries out a plan and insists that every packet is accounted for, and that the driver takes packets
/// at all: one that has stopped would make all figures that follow absent, for a wrong reason.
pub(super) fn carry_out(session: &mut Session, plan: &Plan) -> Result<Injected, Error> {
    let run = inject(session, plan, Application::default(), read_tsc() as u32, &mut |_| ())?;
    run.check()?;
    let totals = run.ledger.totals();
    if totals.accepted == 0 {
        return Err(Error::Stalled { packets: totals.injected });
    }
    Ok(run)
}

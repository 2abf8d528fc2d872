//! Round trips in real time, of a driver in a process of its own.

use std::time::Duration;

use warikomi_clock::{Span, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_process::Orders;
use warikomi_protocol::answers::RoundTripsTotals;
use warikomi_protocol::commands::{Counters, RoundTripsStart, RoundTripsStatus};
use warikomi_session::Session;
use warikomi_stack::{RoundTripCounts, RoundTripPlan};
use warikomi_target::{CardId, TargetError};
use warikomi_wire::{NETWORK_IP, UDP_PORT};

use super::row::Row;
use crate::error::Error;
use crate::watch::Watch;

/// Brings a target up whose driver has these orders, and whose card is cabled to a host that answers.
pub type BringUp<'a> = dyn FnMut(&Orders, &mut Watch) -> Result<Session, Error> + 'a;

/// Receive buffers: twice as many as a ring of ours holds, so that some are left to send from.
const BUFFERS: u64 = 2_048;
/// Bytes of each: a frame of an MTU of 1,500 bytes and its check sequence.
const BUFFER_BYTES: u64 = 2_048;
/// From one question how far it is to the next; the answer is looked for at the driver's own times.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Beside the time after which a message is lost: a driver that sleeps looks at it every 100 ms.
const PATIENCE: Span = Span::from_ms(5_000);

/// Sends all messages of a plan with this way to receive, above a target of its own.
pub fn measure(
    plan: &RoundTripPlan,
    strategy: Strategy,
    bring_up: &mut BringUp<'_>,
    watch: &mut Watch,
) -> Result<Row, Error> {
    let orders = Orders { strategy, buffers: BUFFERS, buffer_bytes: BUFFER_BYTES };
    let mut session = bring_up(&orders, watch)?;
    // The driver's first moments are not its usual ones.
    session.target.serve_for(Duration::from_millis(20))?;
    let before_cores = session.watch_cores();
    let before = counted(&mut session)?;
    let start = RoundTripsStart {
        destination: format!("{NETWORK_IP}:{UDP_PORT}"),
        payload_bytes: plan.payload_bytes,
        run_id: read_tsc() as u32,
        warmup: plan.warmup,
        count: plan.count,
        timeout_us: plan.timeout.as_ps().div_ceil(1_000_000),
    };
    session.target.ask(start, Duration::ZERO)?;
    let totals = wait(&mut session, plan, watch)?;
    let after = counted(&mut session)?;
    let took_ns = round_trips(&mut session, plan)?;
    watch.saw(&mut session, &before_cores);
    session.stop()?;
    let counts = checked(plan, &totals, took_ns.len())?;
    let interrupts = after.1.saturating_sub(before.1);
    Ok(Row {
        sleeps: after.0.saturating_sub(before.0),
        interrupts: Some(interrupts),
        ..Row::new(strategy, counts, &took_ns)
    })
}

/// Until every message is answered or lost. Each must be so in its time, so a target that makes no progress has a
/// deadline, whatever it says.
fn wait(
    session: &mut Session,
    plan: &RoundTripPlan,
    watch: &mut Watch,
) -> Result<RoundTripsTotals, Error> {
    let all = plan.warmup + plan.count;
    let clock = session.target.clock();
    let (mut done, mut progressed) = (0, clock.now());
    loop {
        session.target.serve_for(ASK_EVERY)?;
        if watch.interrupted.is_set() {
            return Err(TargetError::Interrupted.into());
        }
        let totals = session.target.ask(RoundTripsStatus { from: u64::MAX }, Duration::ZERO)?;
        if totals.over {
            return Ok(totals);
        }
        let now = clock.now();
        let over = totals.answered.saturating_add(totals.lost);
        if over != done {
            (done, progressed) = (over, now);
        } else if now.since(progressed) > plan.timeout + PATIENCE {
            return Err(Error::impossible(format!(
                "the application has neither an answer nor given one up for {}: {done} of {all} messages are over",
                plan.timeout + PATIENCE
            )));
        }
        watch.progress(done.min(all), all, "messages");
    }
}

/// How long each took.
fn round_trips(session: &mut Session, plan: &RoundTripPlan) -> Result<Vec<u32>, Error> {
    let mut all: Vec<u32> = Vec::new();
    while (all.len() as u64) < plan.count {
        let from = all.len() as u64;
        let part = session.target.ask(RoundTripsStatus { from }, Duration::ZERO)?;
        if part.round_trips_ns.is_empty() {
            break;
        }
        all.extend(part.round_trips_ns);
    }
    Ok(all)
}

/// The counts, which an application says, if they can be: every message is over, and each that was answered behind
/// the warm-up has a time.
fn checked(
    plan: &RoundTripPlan,
    totals: &RoundTripsTotals,
    times: usize,
) -> Result<RoundTripCounts, Error> {
    let RoundTripsTotals { sent, answered, lost, strays, .. } = *totals;
    let times = times as u64;
    let measured = answered.saturating_sub(plan.warmup)..=answered.min(plan.count);
    if answered.checked_add(lost) != Some(sent)
        || sent != plan.warmup + plan.count
        || !measured.contains(&times)
    {
        return Err(Error::impossible(format!(
            "the application says that of {sent} messages {answered} were answered and {lost} lost, and has {times} \
             times of them: that cannot be of {} behind a warm-up of {}; this is a bug of Warikomi, please report it",
            plan.count, plan.warmup
        )));
    }
    Ok(RoundTripCounts { sent, answered, lost, strays })
}

/// Sleeps of the driver, and interrupts of the card, so far.
fn counted(session: &mut Session) -> Result<(u64, u64), Error> {
    let counters = session.target.ask(Counters { interface: None }, Duration::ZERO)?;
    let sleeps = counters.driver.get("sleeps").copied().unwrap_or(0);
    Ok((sleeps, session.target.card(CardId::FIRST)?.0.counters().interrupts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: RoundTripPlan = RoundTripPlan {
        payload_bytes: 32,
        run_id: 1,
        warmup: 10,
        count: 100,
        timeout: Span::from_ms(1),
    };

    #[test]
    fn what_an_application_says_is_held_against_what_can_be() {
        let said = |sent, answered, lost, times| {
            let totals = RoundTripsTotals { sent, answered, lost, ..RoundTripsTotals::default() };
            checked(&PLAN, &totals, times).is_ok()
        };
        assert!(said(110, 110, 0, 100));
        // One that was lost may be of the warm-up, or not.
        assert!(said(110, 109, 1, 99) && said(110, 109, 1, 100));
        for (sent, answered, lost, times) in [
            (110, 110, 0, 99),
            (110, 110, 0, 101),
            (110, 109, 0, 100),
            (111, 111, 0, 100),
            (110, u64::MAX, 111, 100),
            (110, 5, 105, 6),
        ] {
            assert!(!said(sent, answered, lost, times), "{sent} {answered} {lost} {times}");
        }
    }
}

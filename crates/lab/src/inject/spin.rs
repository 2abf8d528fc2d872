//! The loop that injects and serves the driver, and the one that waits until the driver has taken everything.

use std::time::Duration;

use warikomi_clock::{Span, Time};
use warikomi_inject::{Injector, Source, Step};
use warikomi_measure::{Hiccups, Meanwhile};
use warikomi_nic::RxCounters;
use warikomi_target::{CardId, Target, TargetError};

use super::records::Records;
use crate::watch::Progress;

/// Housekeeping is done when nothing is due for as long as it may take, ...
const ROOM_FOR_HOUSEKEEPING: Span = Hiccups::HOUSEKEEPING_THRESHOLD;
/// ... not more often than this, ...
const HOUSEKEEPING_EVERY: Span = Span::from_ms(1);
/// ... and at the latest after this, due or not: a guest that has panicked must be noticed.
const HOUSEKEEPING_AT_LAST: Span = Span::from_ms(50);

/// How far the run has come is told no more often than anyone can see: it may draw on a terminal.
const TELL_EVERY: Span = Span::from_ms(50);

/// Looking whether the driver has given descriptors back costs the driver cache misses and us
/// 100 ns or so; it is done when nothing is due for this long, and no handler is awaited, whose first look
/// would come upon us while we are busy.
const ROOM_FOR_PROGRESS: Span = Span::from_us(3);
/// Where the next frame goes is looked at when it is due in less than this: by now the driver has left that
/// memory alone, and what is in the cache then will still be.
pub const LOOKED_AHEAD: Span = Span::from_us(1);
/// Descriptors looked at in one go.
const PROGRESS_LIMIT: usize = 64;

/// A driver that neither accesses its NIC nor takes a frame from its ring for so long hangs.
const DRIVER_SILENCE: Duration = Duration::from_secs(5);

/// Whatever comes after the last packet is over by then, whatever the guest does.
pub(super) const AFTER_AT_MOST: Duration = Duration::from_secs(30);

/// How long a run may take to drain once its last packet is injected.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether a driver that does nothing any more ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// After [`DRIVER_SILENCE`], with an error.
    Limited,
    /// Never: what became of the driver is judged afterwards.
    Endless,
}

/// Serves the driver and injects until the plan is carried out.
pub(super) fn spin(
    target: &mut dyn Target,
    injector: &mut Injector<impl Source>,
    records: &mut Records,
    patience: Patience,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), TargetError> {
    let clock = target.clock();
    let total = records.planned;
    let mut kept_house = clock.now();
    let mut told = kept_house;
    let mut worked = false;
    let mut life = Life::default();
    let (mut next, mut looked_ahead) = (Time::ZERO, false);
    loop {
        let due = injector.next_due();
        if due != next {
            (next, looked_ahead) = (due, false);
            target.keep_clear_of(due);
        }
        let pass = target.poll()?;
        let now = pass.at;
        if !clock.is_virtual() {
            records.hiccups.support.pass_after(now, Meanwhile::of(pass.signalled, worked));
        }
        worked = pass.worked;
        let (nic, mut host) = target.card(CardId::FIRST)?;
        match injector.step(&mut host, nic, || clock.now(), records) {
            Step::Done => return Ok(()),
            Step::Injected { .. } => worked = true,
            Step::Idle if due.since(now) > ROOM_FOR_PROGRESS && !nic.probe().is_waiting() => {
                records.look(nic, &mut host, PROGRESS_LIMIT);
            }
            Step::Idle
                if !looked_ahead && due.since(now) < LOOKED_AHEAD && !nic.probe().is_waiting() =>
            {
                looked_ahead = true;
                nic.look_ahead(&mut host, 1, injector.next_bytes());
            }
            Step::Idle if target.shares_a_core() => std::thread::yield_now(),
            Step::Idle => {}
        }
        let since = now.since(kept_house);
        let room = injector.next_due().since(now) > ROOM_FOR_HOUSEKEEPING;
        if since > HOUSEKEEPING_AT_LAST || (room && since > HOUSEKEEPING_EVERY) {
            let (nic, mut host) = target.card(CardId::FIRST)?;
            let left = records.look(nic, &mut host, PROGRESS_LIMIT);
            let counters = target.counters();
            let sign = (counters.accesses, records.ledger.injected_count().saturating_sub(left));
            let alive = life.look(now, left, sign);
            if patience == Patience::Limited {
                alive?;
            }
            target.housekeep()?;
            records.take_hiccups(target);
            kept_house = clock.now();
            if kept_house.since(told) > TELL_EVERY {
                progress(Progress { done: injector.injected(), all: total, at_work: "packets" });
                kept_house = clock.now();
                told = kept_house;
            }
            // Without room it makes packets late, and the next pass sees that. Others may take our core here, too.
            if room && !clock.is_virtual() {
                records.hiccups.support.pass_after(kept_house, Meanwhile::KeptHouse);
            }
        }
    }
}

/// Whether a driver that has frames on its ring does anything at all.
#[derive(Default)]
struct Life {
    seen: (u64, u64),
    at: Option<Time>,
}

impl Life {
    /// `sign` changes whenever the driver accesses the NIC or takes a frame.
    fn look(&mut self, now: Time, left: u64, sign: (u64, u64)) -> Result<(), TargetError> {
        let since = *self.at.get_or_insert(now);
        if left == 0 || self.seen != sign {
            (self.seen, self.at) = (sign, Some(now));
        } else if now.since(since) > Span::from_ms(DRIVER_SILENCE.as_millis() as u64) {
            return Err(TargetError::Hung { frames: left, within: DRIVER_SILENCE });
        }
        Ok(())
    }
}

/// Waits until the driver has taken what is on the ring, or does not any more; returns when it had
/// taken the last.
pub(super) fn drain(target: &mut dyn Target, records: &mut Records) -> Result<Time, TargetError> {
    let begun = target.clock().now();
    let (mut last_change, mut last_left) = (begun, u64::MAX);
    loop {
        let passes = if target.clock().is_virtual() { 1 } else { 64 };
        for _ in 0..passes {
            target.poll()?;
        }
        let (nic, mut host) = target.card(CardId::FIRST)?;
        let (left, now) = (records.look(nic, &mut host, usize::MAX), host.now);
        if left != last_left {
            (last_left, last_change) = (left, now);
        }
        let patience = Span::from_ms(DRAIN_TIMEOUT.as_millis() as u64);
        let limit = Span::from_ms(AFTER_AT_MOST.as_millis() as u64);
        if left == 0 || now.since(last_change) > patience || now.since(begun) > limit {
            return Ok(last_change);
        }
        if now.since(begun) > HOUSEKEEPING_EVERY {
            target.housekeep()?;
        }
    }
}

/// The NIC's counts of each receive queue.
pub(super) fn rx_counters(target: &mut dyn Target) -> Result<Vec<RxCounters>, TargetError> {
    let (nic, mut host) = target.card(CardId::FIRST)?;
    let queues = 0..nic.info().rx_queues;
    Ok(queues.map(|queue| nic.rx_queue_progress(&mut host, queue, usize::MAX)).collect())
}

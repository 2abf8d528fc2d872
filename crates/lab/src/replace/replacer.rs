//! Replaces the driver at given moments, and watches each replacement from outside.

use std::collections::VecDeque;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::{Span, Time};
use warikomi_live::{Event, Program, Replacement};
use warikomi_process::{ProcessTarget, StoreRequest, dispatches};
use warikomi_target::{CardId, Target, TargetError};
use warikomi_wire::peer::Judged;
use warikomi_wire::peer::workload::Workload;

use super::gaps;
use super::overseer::Overseer;
use super::plan::MOST_DESCRIPTORS;

/// From so long before a replacement on, frames are watched.
const LEAD: Span = Span::from_us(200);
/// So long after it they are watched at most: the workload computes for 1 ms between two sends.
const TRAIL: Span = Span::from_ms(5);
/// What a replacement without a new process takes, generously.
const MOMENT: Span = Span::from_ms(2);
/// Frames whose times are kept, each way.
const TIMES_KEPT: usize = 4_096;
/// Replacements whose frames are kept for a picture.
pub(super) const PICTURES: usize = 64;
/// Descriptors looked at in one go.
const PROGRESS_LIMIT: usize = 64;
/// A driver that has run so long has not failed at once. Short, because it is killed again and again.
pub(super) const SUCCESS_AFTER_KILLS: Span = Span::from_ms(1);
/// A driver runs for so long before it is killed, or it would count as one that cannot run: twice as long, because the
/// supervisor's clock starts a little later.
const RUNS_BEFORE_KILLED: Span = Span::from_ps(2 * SUCCESS_AFTER_KILLS.as_ps());
/// A driver that is not warm by then never will be.
const READY_WITHIN: Span = Span::from_ms(10_000);

/// When frames came by, around a replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    /// Put on the receive ring.
    pub(super) arrived: Vec<Time>,
    /// Taken from it.
    pub(super) taken: Vec<Time>,
    /// Sent.
    pub(super) sent: Vec<Time>,
}

/// One replacement, as seen from outside.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    /// What the supervisor says.
    pub(super) replacement: Replacement,
    /// The request, or the signal that killed.
    pub(super) begun: Time,
    /// Free receive descriptors then.
    pub(super) free_descriptors: u64,
    /// Between two frames of the workload on the wire.
    pub(super) send_gap: Option<Span>,
    /// Between two frames taken from the receive ring.
    pub(super) receive_gap: Option<Span>,
    /// Of the first few.
    pub(super) frames: Option<Frames>,
    /// How often the application got the processor from the request to the result.
    pub(super) dispatches: Option<u64>,
    /// What other clients asked of the data store since the replacement before.
    pub(super) store_requests: Vec<StoreRequest>,
}

impl Observed {
    /// How long no driver served the device.
    pub(super) fn outage(&self, killed: bool) -> Span {
        let replacement = &self.replacement;
        if killed { replacement.served.since(self.begun) } else { replacement.outage() }
    }
}

enum Phase {
    /// Until the next moment comes near.
    Waiting,
    /// Frames are watched, the moment comes, or a warm driver is waited for.
    Near,
    /// Ordered or killed at this time.
    Going(Time, u64),
    /// Replaced; the first frames behind it are waited for.
    Settling(Time, u64, Replacement),
}

/// Replaces the driver when its time has come, and watches.
pub(super) struct Replacer {
    kills: bool,
    /// The driver that comes next, and the one after it.
    programs: [Program; 2],
    moments: VecDeque<Time>,
    phase: Phase,
    wire: Judged<Workload>,
    frames: FrameTimes,
    /// What has been seen.
    pub(super) observed: Vec<Observed>,
    /// What was not asked for, in words.
    pub(super) failures: Vec<String>,
    /// No driver runs any more.
    pub(super) given_up: Option<String>,
    /// Whether it is looked how often the application gets the processor: that takes some system calls.
    counts_dispatches: bool,
    /// How often it had at the request, and then, since.
    dispatched: Option<u64>,
    /// What the store's other clients have asked for up to the result.
    store_requests: Vec<StoreRequest>,
    /// Since when a moment has come and no driver was there that could take over.
    waiting_since: Option<Time>,
    /// Why a spare came to nothing, the last that did.
    spare_failure: Option<String>,
    /// Since when the driver has served the device, if it is not the first.
    served: Time,
}

impl Replacer {
    /// Without moments so far; `programs` follow one another in turns.
    pub(super) fn new(
        kills: bool,
        counts_dispatches: bool,
        programs: [Program; 2],
        wire: Judged<Workload>,
    ) -> Replacer {
        Replacer {
            kills,
            counts_dispatches,
            dispatched: None,
            programs,
            moments: VecDeque::new(),
            phase: Phase::Waiting,
            wire,
            frames: FrameTimes::default(),
            observed: Vec::new(),
            failures: Vec::new(),
            given_up: None,
            store_requests: Vec::new(),
            waiting_since: None,
            spare_failure: None,
            served: Time::ZERO,
        }
    }

    /// From now on the driver is replaced at these moments, which are in order.
    pub(super) fn schedule(&mut self, moments: impl IntoIterator<Item = Time>) {
        self.moments.extend(moments);
    }

    /// Whether nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        let idle = matches!(self.phase, Phase::Waiting) && self.moments.is_empty();
        idle || self.given_up.is_some()
    }

    /// Whether the driver is being replaced at this very moment: nothing that takes time shall be done now. A
    /// replacement that takes long must not be without it.
    pub(super) fn is_replacing(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Going(begun, _) if now < begun + MOMENT)
    }

    /// Looks at the time, and does what is due; to be called beside each poll of the target.
    #[inline]
    pub(super) fn step(
        &mut self,
        now: Time,
        target: &mut ProcessTarget,
        overseer: &mut Overseer,
    ) -> Result<(), TargetError> {
        match self.phase {
            Phase::Waiting => {
                let near = self.moments.front().is_some_and(|&moment| moment <= now + LEAD);
                if near {
                    self.frames = FrameTimes::begin(target)?;
                    self.phase = Phase::Near;
                }
                Ok(())
            }
            Phase::Near => {
                self.frames.look(now, target)?;
                self.begin(now, target, overseer)
            }
            Phase::Going(..) => self.frames.look(now, target),
            Phase::Settling(begun, free, replacement) => {
                self.frames.look(now, target)?;
                let settled = self.frames.took_since(replacement.served)
                    && self.wire.lock().came_since(replacement.served);
                if settled || now > replacement.served + TRAIL {
                    self.settle(begun, free, replacement);
                }
                Ok(())
            }
        }
    }

    /// Begins if the moment has come and a driver is there that can take over.
    fn begin(
        &mut self,
        now: Time,
        target: &mut ProcessTarget,
        overseer: &mut Overseer,
    ) -> Result<(), TargetError> {
        let Some(&moment) = self.moments.front().filter(|&&moment| moment <= now) else {
            return Ok(());
        };
        // Where they are asked for faster than they can be had, the next one is due at once.
        if self.kills && now < self.served + RUNS_BEFORE_KILLED {
            return Ok(());
        }
        if !overseer.is_ready(target) {
            // Not since the moment: where replacements are asked for faster than they can be had, each is late.
            let since = *self.waiting_since.get_or_insert(now.max(moment));
            if now > since + READY_WITHIN {
                let within = READY_WITHIN.as_secs();
                let why = self.spare_failure.as_ref().map(|why| format!("; the last one: {why}"));
                let why = why.unwrap_or_default();
                self.given_up = Some(format!("no other driver was ready within {within} s{why}"));
            }
            return Ok(());
        }
        self.waiting_since = None;
        self.dispatched = self.dispatches(target);
        let free = {
            let (nic, mut host) = target.card(CardId::FIRST)?;
            nic.rx_free(&mut host, MOST_DESCRIPTORS as usize) as u64
        };
        // To look at all this has taken some of its time.
        let now = Target::clock(target).now();
        if self.kills {
            let process = target.seat(target.served()).and_then(|seat| seat.process_id);
            let Some(id) = process else { return Ok(()) };
            // One that has ended by itself is a failure that is seen elsewhere.
            let _ = kill(Pid::from_raw(id as i32), Signal::SIGKILL);
        } else {
            // One that is going on already ends soon.
            if !overseer.replace(&self.programs[0], target)? {
                return Ok(());
            }
            self.programs.swap(0, 1);
        }
        self.moments.pop_front();
        self.phase = Phase::Going(now, free);
        Ok(())
    }

    /// How often the application has got the processor so far, where that is looked at.
    fn dispatches(&self, target: &ProcessTarget) -> Option<u64> {
        self.counts_dispatches.then(|| dispatches::of(target.part_process("application")?))?
    }

    /// Takes what the supervisor tells.
    pub(super) fn handle_event(&mut self, event: Event, target: &mut ProcessTarget) {
        if let Event::Replaced(replacement) = &event {
            self.served = replacement.served;
        }
        match (event, &self.phase) {
            (Event::Replaced(replacement), &Phase::Going(begun, free)) => {
                self.phase = Phase::Settling(begun, free, replacement);
                let before = self.dispatched.take();
                self.dispatched =
                    self.dispatches(target).zip(before).map(|(now, then)| now.saturating_sub(then));
                self.store_requests = target.take_store_requests();
            }
            // After a failure that is in the list already.
            (Event::Replaced(_), _) => {}
            (Event::Failed { .. }, Phase::Going(..)) if self.kills => {}
            (Event::Failed { generation, why, .. }, _) => {
                self.failures.push(format!("driver {generation} failed: {why}"));
            }
            (Event::RolledBack { refused, why, .. }, _) => {
                self.failures.push(format!("driver {refused} did not take over: {why}"));
                self.phase = Phase::Waiting;
            }
            (Event::SpareFailed { why, .. }, _) => self.spare_failure = Some(why),
            (Event::GivenUp { why }, _) => self.given_up = Some(why),
        }
    }

    fn settle(&mut self, begun: Time, free_descriptors: u64, replacement: Replacement) {
        let until = replacement.served;
        let frames = Frames {
            sent: self.wire.lock().times_since(begun - LEAD),
            ..std::mem::take(&mut self.frames).frames()
        };
        self.observed.push(Observed {
            replacement,
            begun,
            free_descriptors,
            send_gap: gaps::longest(&frames.sent, begun, until),
            receive_gap: gaps::longest(&frames.taken, begun, until),
            frames: (self.observed.len() < PICTURES).then_some(frames),
            dispatches: self.dispatched.take(),
            store_requests: std::mem::take(&mut self.store_requests),
        });
        self.phase = Phase::Waiting;
    }
}

/// Notes when frames are put on the receive ring and taken from it.
#[derive(Default)]
struct FrameTimes {
    on_ring: u64,
    accepted: u64,
    arrived: VecDeque<Time>,
    taken: VecDeque<Time>,
}

impl FrameTimes {
    fn begin(target: &mut ProcessTarget) -> Result<FrameTimes, TargetError> {
        let (nic, mut host) = target.card(CardId::FIRST)?;
        let counters = nic.rx_progress(&mut host, usize::MAX);
        Ok(FrameTimes {
            on_ring: counters.on_ring,
            accepted: counters.accepted,
            ..FrameTimes::default()
        })
    }

    fn look(&mut self, now: Time, target: &mut ProcessTarget) -> Result<(), TargetError> {
        let (nic, mut host) = target.card(CardId::FIRST)?;
        let counters = nic.rx_progress(&mut host, PROGRESS_LIMIT);
        for (times, seen, count) in [
            (&mut self.arrived, &mut self.on_ring, counters.on_ring),
            (&mut self.taken, &mut self.accepted, counters.accepted),
        ] {
            if std::mem::replace(seen, count) != count {
                if times.len() == TIMES_KEPT {
                    times.pop_front();
                }
                times.push_back(now);
            }
        }
        Ok(())
    }

    fn took_since(&self, from: Time) -> bool {
        self.taken.back().is_some_and(|&last| last > from)
    }

    fn frames(self) -> Frames {
        Frames { arrived: self.arrived.into(), taken: self.taken.into(), sent: Vec::new() }
    }
}

//! The loop as a machine of steps.
//!
//! Each step does one bounded thing and says what comes next; whoever runs the machine gives it the time, and
//! waits for it. Where another process can be killed, or something else can happen, one step ends and the
//! next begins.

use warikomi_clock::{Span, Time};
use warikomi_pci::attach::layout::{report, state};
use warikomi_shared::Woken;

use super::attachment::Attachment;
use super::counted::Up;
use super::error::RunError;
use super::look::{HOUSEKEEP_EVERY, ordered};
use super::machine::{Counts, DriverLoop, Parts, Phase, Rest, Step};
use super::succession::{Opening, Succession};
use crate::Upper;
use crate::device::SupportGone;
use crate::strategy::{Next, Receiver};

impl DriverLoop {
    /// Everything but the device's own registers and memory is ready.
    pub fn new<A: Attachment, U: Upper>(
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<DriverLoop, RunError> {
        let (needed, (_, bytes)) = (on.driver.info().ring_bytes, on.device.dma());
        if needed as u64 > bytes {
            return Err(RunError::NoRoom { needed, bytes });
        }
        let mut machine = DriverLoop {
            phase: Phase::Opening(Opening::Start),
            receiver: Receiver::new(ordered(on)?, now),
            counts: Counts::default(),
            received: Up::default(),
            waiting: None,
            unsent: 0,
            link_changed: false,
            passes: 0,
            passed: None,
            worked: 0,
            active: now,
            reported: now,
            looked: now,
            rest: Rest::default(),
            woken: Ok(Woken::Called),
            succession: Succession::of(on.device, on.driver.info())?,
            answered: 0,
            alert: 0,
            awake_until: Time::ZERO,
        };
        if machine.succession.is_some() {
            machine.phase = Phase::Waiting;
            on.device.warm(needed);
            on.upper.warm();
            machine.report(on, now);
            on.report(report::STATE, state::WARM);
        }
        Ok(machine)
    }

    /// The next step, at `now`. After an error there is none: the device is stopped, or left as it is for a
    /// successor.
    #[inline]
    pub fn step<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        self.advance(on, now).or_else(|error| self.give_up(on, now, error))
    }

    #[inline]
    fn advance<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        match self.phase {
            Phase::Decide { found } => {
                self.active = now;
                let next = self.receiver.next(now, found);
                match self.follow(next) {
                    Step::Again if matches!(self.phase, Phase::Pass { .. }) => self.pass(on, now),
                    step => Ok(step),
                }
            }
            Phase::Pass { first: false } => self.pass(on, now),
            Phase::Look { handled } => self.look_at_all(on, now, handled),
            _ => self.other_step(on, now),
        }
    }

    /// The steps that are not part of a pass.
    #[cold]
    fn other_step<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Waiting => return self.wait(on, now),
            Phase::Opening(Opening::Start) => {
                self.start(on)?;
                self.begin(on, now)?;
            }
            Phase::Opening(Opening::After(predecessor)) => {
                self.phase = Phase::Accepting(self.take_over(on, predecessor)?);
            }
            Phase::Opening(Opening::GoOn) => self.begin(on, now)?,
            Phase::Accepting(held) => {
                self.accept(on, &held)?;
                self.begin(on, now)?;
            }
            Phase::Pass { .. } => return self.first_pass(on, now),
            Phase::Arm { budget } => {
                self.phase = Phase::Arm { budget };
                self.watch_rest(now);
                self.arm(on, now)?;
                self.phase = Phase::LastLook { budget };
            }
            Phase::LastLook { budget } => {
                self.phase = Phase::LastLook { budget };
                self.watch_rest(now);
                let sleep = self.last_look(on, now, budget)?;
                self.phase = if sleep.is_some() { Phase::Asleep } else { Phase::Awake };
                return Ok(sleep.unwrap_or(Step::Again));
            }
            Phase::Asleep => {
                self.phase = Phase::Asleep;
                if let Some(sleep) = self.sleep_on(on, now)? {
                    return Ok(sleep);
                }
                self.continue_after_sleep(on, now)?;
            }
            Phase::Awake => {
                self.phase = Phase::Awake;
                self.watch_rest(now);
                self.continue_after_sleep(on, now)?;
            }
            Phase::Giving(to) => self.give(on, to),
            Phase::Stopping => {
                self.quiesce(on)?;
                self.end(on, now);
                return Ok(Step::Ended { waiting: false });
            }
            Phase::Failing(error) => {
                let _ = self.quiesce(on);
                return Err(error);
            }
            Phase::Ended => return Ok(Step::Ended { waiting: false }),
            phase @ (Phase::Look { .. } | Phase::Decide { .. }) => self.phase = phase,
        }
        Ok(Step::Again)
    }

    fn continue_after_sleep<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<(), RunError> {
        let stop = self.wake_up(on, now)?;
        self.phase = if stop { Phase::Stopping } else { Phase::Pass { first: false } };
        Ok(())
    }

    /// After an error: whatever happened, the device is stopped, unless a successor continues where this driver
    /// failed.
    #[cold]
    fn give_up<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
        error: RunError,
    ) -> Result<Step, RunError> {
        use Phase::{Accepting, Ended, Failing, Opening, Waiting};
        let phase = std::mem::replace(&mut self.phase, Ended);
        if !matches!(phase, Waiting | Opening(_) | Accepting(_) | Ended) {
            on.device.window().sleeper().retract();
            on.report(report::ASLEEP, 0);
            on.upper.awake();
            if self.succession.is_none() {
                self.phase = Failing(error);
                return Ok(Step::Again);
            }
        }
        self.report(on, now);
        Err(error)
    }

    pub(super) fn end<A: Attachment, U: Upper>(&mut self, on: &mut Parts<'_, A, U>, now: Time) {
        self.report(on, now);
        on.report(report::STATE, state::STOPPED);
    }

    /// Whether the driver has, or takes, the device.
    pub fn is_driving(&self) -> bool {
        !matches!(self.phase, Phase::Waiting | Phase::Ended)
    }

    /// Whether the next step stops the device.
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping | Phase::Failing(_))
    }

    /// Whether the driver has served the device in this turn.
    pub fn is_ready(&self) -> bool {
        use Phase::{Accepting, Opening, Pass};
        self.is_driving() && !matches!(self.phase, Opening(_) | Accepting(_) | Pass { first: true })
    }

    /// Looks at the receive ring so far.
    pub fn looks(&self) -> u64 {
        self.counts.polls
    }

    /// What has ended the wait that [`Step::Sleep`] asked for.
    pub fn woke(&mut self, how: Result<Woken, SupportGone>) {
        self.woken = how;
    }

    /// What the strategy has said.
    #[inline]
    fn follow(&mut self, next: Next) -> Step {
        self.phase = Phase::Pass { first: false };
        match next {
            Next::Poll { .. } => Step::Again,
            Next::Yield { .. } => {
                self.passed = None;
                Step::Yield
            }
            Next::Arm { budget } => {
                self.phase = Phase::Arm { budget };
                Step::Again
            }
        }
    }

    /// One look at everything; before it, what must be done now and then.
    #[inline]
    fn pass<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        if self.is_ordered_away(on) && self.hand_over(on) {
            return Ok(Step::Again);
        }
        if self.passes.is_multiple_of(HOUSEKEEP_EVERY) && self.housekeep(on, now)? {
            self.phase = Phase::Stopping;
            return Ok(Step::Again);
        }
        self.pass_now(on, now)
    }

    #[inline]
    fn pass_now<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        self.passes += 1;
        self.watch(now);
        let handled = self.handle_interrupts(on)?;
        if handled > 0 {
            self.phase = Phase::Look { handled };
            return Ok(Step::Again);
        }
        self.look_at_all(on, now, handled)
    }

    #[inline]
    pub(super) fn look_at_all<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
        handled: u64,
    ) -> Result<Step, RunError> {
        let found = self.look(on, self.receiver.budget())?;
        let sent = self.transmit(on)?;
        self.worked = found as u64 + sent + handled;
        if self.worked > 0 {
            self.phase = Phase::Decide { found };
            return Ok(Step::Again);
        }
        // With nothing found, the time has hardly changed.
        let next = self.receiver.next(now, found);
        Ok(self.follow(next))
    }

    /// How many passes, each `takes` long and the first at `now`, would find nothing and be followed by another
    /// that does, if nothing came before `until`. They count as done.
    pub fn skip_idle(&mut self, now: Time, takes: Span, until: Time) -> u64 {
        if self.worked > 0 || !matches!(self.phase, Phase::Pass { first: false }) {
            return 0;
        }
        // Two passes are left to whatever comes, or is to be decided, then.
        let passes = |end: Time| (end.since(now).as_ps() / takes.as_ps().max(1)).saturating_sub(2);
        let mut skipped = passes(until.min(self.receiver.polls_until()));
        let next = self.passes.next_multiple_of(HOUSEKEEP_EVERY) - self.passes;
        let due = passes(self.housekeeping_due());
        skipped = skipped.min(if due > next { due } else { next });
        self.passes += skipped;
        self.counts.polls += skipped;
        self.counts.empty_polls += skipped;
        self.passed = self.passed.map(|passed| passed + takes * skipped);
        skipped
    }
}

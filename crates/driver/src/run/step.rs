//! The loop as a machine of steps.
//!
//! Each step does one bounded thing and says what comes next; whoever runs the machine gives it the time, and
//! waits for it. Where another process can be killed, or something else can happen, one step ends and the
//! next begins.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaMemory;
use warikomi_pci::attach::layout::{report, state};
use warikomi_shared::Woken;

use super::RunError;
use super::attachment::Attachment;
use super::look::{Counts, HOUSEKEEP_EVERY, ordered};
use super::pass::Up;
use super::rest::Rest;
use super::succession::{Opening, Succession};
use crate::device::SupportGone;
use crate::state::Held;
use crate::strategy::{Next, Receiver};
use crate::{NicDriver, Transmit, Upper};

/// What a step works on.
pub struct Parts<'a, A, U> {
    /// The device, with the driver's window.
    pub device: &'a mut A,
    /// The memory that the device reaches by DMA.
    pub memory: &'a dyn DmaMemory,
    /// The driver.
    pub driver: &'a mut dyn NicDriver,
    /// Whoever the frames are for.
    pub upper: &'a mut U,
}

impl<A: Attachment, U> Parts<'_, A, U> {
    #[inline]
    pub(super) fn order(&self, word: usize) -> u64 {
        self.device.window().order(word)
    }

    #[inline]
    pub(super) fn report(&self, word: usize, value: u64) {
        self.device.window().report(word, value);
    }

    /// Stamps a step of a change of hands.
    pub(super) fn stamp(&self, step: usize) {
        self.device.window().stamp(step, self.device.ticks());
    }
}

/// The device for one call of the driver.
macro_rules! hardware {
    ($parts:ident) => {
        &mut Hardware { mmio: $parts.device.registers(), memory: $parts.memory }
    };
}
pub(super) use hardware;

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next step.
    Again,
    /// Others are to run, and then the next step.
    Yield,
    /// The driver sleeps until its window's bell rings or its upper's [`wakeup`](Upper::wakeup) comes, or for
    /// so long. [`DriverLoop::woke`] says which, and then comes the next step.
    Sleep {
        /// The longest time.
        longest: Span,
    },
    /// The driver waits while the baton is this generation's, or until it is woken; for
    /// [`HEARTBEAT`](super::HEARTBEAT) at most. Then comes the next step.
    AwaitBaton {
        /// Who has the device.
        generation: u32,
    },
    /// There is no next step.
    Ended {
        /// The driver was told to stop when it had not, or no more, the device.
        waiting: bool,
    },
}

/// What the machine does next.
pub(super) enum Phase {
    /// It waits for its turn.
    Waiting,
    /// It takes the device.
    Opening(Opening),
    /// It has found what a predecessor left, and accepts it.
    Accepting(Held),
    /// One look at everything. The first of a turn is reported.
    Pass {
        first: bool,
    },
    /// The rest of a pass that has handled interrupts.
    Look {
        handled: u64,
    },
    /// The strategy is asked about a look that has found so much.
    Decide {
        found: usize,
    },
    /// It arms the interrupt, because it is going to sleep.
    Arm {
        budget: usize,
    },
    /// It looks once more.
    LastLook {
        budget: usize,
    },
    Asleep,
    /// It does not sleep after all.
    Awake,
    /// Its record is written: it gives the device to this generation.
    Giving(u32),
    /// The orders say stop.
    Stopping,
    /// It has failed, and nobody goes on with its device.
    Failing(RunError),
    Ended,
}

/// A driver's loop over time and calls: the machine that a driver process runs against a clock and real bells,
/// and virtual time on a calendar.
pub struct DriverLoop {
    pub(super) phase: Phase,
    pub(super) receiver: Receiver,
    pub(super) counts: Counts,
    pub(super) received: Up,
    /// A frame that is not on the ring yet: there is no room, or it cannot be sent and others are before it.
    pub(super) waiting: Option<Transmit>,
    /// Frames that are on the ring.
    pub(super) unsent: u64,
    pub(super) link_changed: bool,
    pub(super) passes: u64,
    /// When the last pass began, and what it had to do; `None` if something came between that takes long.
    pub(super) passed: Option<Time>,
    pub(super) worked: u64,
    pub(super) active: Time,
    pub(super) reported: Time,
    pub(super) looked: Time,
    pub(super) rest: Rest,
    pub(super) woken: Result<Woken, SupportGone>,
    /// Others drive the device before and after; `None` if nobody else does.
    pub(super) succession: Option<Succession>,
    /// The last order to hand over that was looked at, and the last to be awake.
    pub(super) answered: u64,
    pub(super) alert: u64,
    /// Until then it does not sleep, because of that.
    pub(super) awake_until: Time,
}

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
            _ => self.seldom(on, now),
        }
    }

    /// The steps that are not part of a pass.
    #[cold]
    fn seldom<A: Attachment, U: Upper>(
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
                self.arm(on, now)?;
                self.phase = Phase::LastLook { budget };
            }
            Phase::LastLook { budget } => {
                self.phase = Phase::LastLook { budget };
                let sleep = self.last_look(on, now, budget)?;
                self.phase = if sleep.is_some() { Phase::Asleep } else { Phase::Awake };
                return Ok(sleep.unwrap_or(Step::Again));
            }
            Phase::Asleep => {
                self.phase = Phase::Asleep;
                if let Some(sleep) = self.sleep_on(on, now)? {
                    return Ok(sleep);
                }
                self.go_on(on, now)?;
            }
            Phase::Awake => {
                self.phase = Phase::Awake;
                self.go_on(on, now)?;
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

    fn go_on<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<(), RunError> {
        let stop = self.wake_up(on, now)?;
        self.phase = if stop { Phase::Stopping } else { Phase::Pass { first: false } };
        Ok(())
    }

    /// After an error: whatever happened, the device is stopped, unless somebody goes on where this driver
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

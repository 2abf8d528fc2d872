//! The supervisor: what it is asked for, and its steps while a driver runs.

use warikomi_clock::{Span, Time};
use warikomi_process::{How, Program, Seat, Wanted, Way};
use warikomi_target::TargetError;

use crate::phase::{Attempt, Cleanup, Driver, Phase, Restart};
use crate::{Backoff, Drivers, Event, Kind, Policy, Refused, Service, Status, Verdict, Watch};

/// How often a driver is looked at that does its work: each look takes two system calls, and cache lines
/// from the driver's core.
const LOOK_EVERY: Span = Span::from_us(100);
/// How often while something is going on.
const LOOK_OFTEN: Span = Span::from_us(20);
/// The same, if whatever changes of the drivers is told.
const LOOK_ANYWAY: Span = Span::from_ms(10);
/// How long after a replacement a spare is started: its start takes the target's core.
const SPARE_AFTER: Span = Span::from_ms(5);
/// How long a spare's start is put last on its core: where the core is always busy, it would never end.
const SPARE_LAST_FOR: Span = Span::from_ms(100);
/// How long a driver that was told to end may take to do so.
const LEAVE_WITHIN: Span = Span::from_ms(1_000);

/// What a phase has come to.
pub(crate) type Turn = (Phase, Option<Event>);

/// A driver that has been told to end.
#[derive(Debug)]
struct EndingDriver {
    generation: u32,
    until: Time,
}

/// Watches and replaces the drivers of a target.
#[derive(Debug)]
pub struct Supervisor {
    pub(crate) policy: Policy,
    phase: Phase,
    /// The driver that serves the device, or was the last to.
    pub(crate) current: Driver,
    since: Time,
    before: Option<Program>,
    /// The program has come by a planned replacement, and has not run for long yet.
    on_trial: bool,
    spare: Option<Driver>,
    spare_due: Time,
    /// When the spare must be warm.
    spare_until: Time,
    /// When its start is no longer put last.
    spare_hurries: Time,
    spare_backoff: Backoff,
    watch: Watch,
    next_look: Time,
    leavers: Vec<EndingDriver>,
    pub(crate) backoff: Backoff,
    planned: u64,
    recovered: u64,
    pub(crate) rolled_back: u64,
}

impl Supervisor {
    /// Takes over a target that runs the driver `program`.
    pub fn new(policy: Policy, program: Program, target: &mut dyn Drivers) -> Supervisor {
        let now = target.now();
        let mut backoff = policy.backoff;
        backoff.started(now);
        Supervisor {
            phase: Phase::Running,
            current: Driver { generation: target.served(), program },
            since: now,
            before: None,
            on_trial: false,
            spare: None,
            spare_due: now,
            spare_until: Time::NEVER,
            spare_hurries: Time::NEVER,
            spare_backoff: policy.backoff,
            watch: Watch::new(policy.silent_for, policy.stuck_for),
            next_look: now,
            leavers: Vec::new(),
            backoff,
            planned: 0,
            recovered: 0,
            rolled_back: 0,
            policy,
        }
    }

    /// Looks at what has changed and does what is due, without waiting. Costs a few loads while nothing
    /// happens; to be called beside each poll of the target.
    pub fn step(&mut self, target: &mut dyn Drivers) -> Result<Option<Event>, TargetError> {
        let now = target.now();
        // From here to the turn of the port no driver serves the device: this does not wait for a look.
        if let Phase::HandingOver(attempt) = &self.phase
            && target.baton().generation == attempt.to.generation
        {
            target.serve_seat(attempt.to.generation);
            let until = now + self.policy.accept_within;
            self.phase = Phase::Accepting(Attempt { until, ..attempt.clone() });
        }
        if now < self.next_look {
            return Ok(None);
        }
        self.remove_ended_seats(now, target);
        let phase = std::mem::replace(&mut self.phase, Phase::Running);
        let before = std::mem::discriminant(&phase);
        let (phase, event) = self.turn(phase, now, target);
        self.next_look = match phase {
            _ if std::mem::discriminant(&phase) != before => now,
            Phase::Running | Phase::GivenUp(_) => now + LOOK_EVERY,
            _ => now + LOOK_OFTEN,
        };
        self.phase = phase;
        Ok(event)
    }

    fn turn(&mut self, phase: Phase, now: Time, target: &mut dyn Drivers) -> Turn {
        match phase {
            Phase::Running => self.running(now, target),
            Phase::Warming(attempt) => self.warming(attempt, now, target),
            Phase::Rehearsing(attempt) => self.rehearsing(attempt, now, target),
            Phase::Waking(attempt) => self.waking(attempt, now, target),
            Phase::HandingOver(attempt) => self.handing_over(attempt, now, target),
            Phase::Withdrawing { attempt, why, heartbeat, beats } => {
                self.withdrawing(attempt, why, (heartbeat, beats), now, target)
            }
            Phase::Stopping { program, begun, until } => {
                self.stopping(program, begun, until, now, target)
            }
            Phase::Accepting(attempt) => self.accepting(attempt, now, target),
            Phase::Settling(attempt) => self.settling(attempt, now, target),
            Phase::TakingBack { attempt, why } => self.taking_back(attempt, why, now, target),
            Phase::CleaningUp(cleanup) => self.cleaning_up(cleanup, now, target),
            Phase::Waiting(restart) => self.waiting(restart, now, target),
            Phase::GivenUp(why) => (Phase::GivenUp(why), None),
        }
    }

    /// Begins to replace the running driver by `program`; says of which generation that will be. A driver
    /// that runs already as `program` and is kept warm is taken. Where the old one has to be gone before
    /// the new one is started, the generation is that of the next driver.
    pub fn replace(
        &mut self,
        program: &Program,
        target: &mut dyn Drivers,
    ) -> Result<Result<u32, Refused>, TargetError> {
        let now = target.now();
        self.next_look = now;
        let attempt = match &self.phase {
            Phase::Running if self.policy.way == Way::Reload => {
                target.order_stop(self.current.generation);
                let program = program.clone();
                self.phase = Phase::Stopping { program, begun: now, until: now + LEAVE_WITHIN };
                return Ok(Ok(target.next_generation()));
            }
            Phase::Running => {
                let to = self.take_or_prepare(program, Wanted::Soon, target)?;
                let until = now + self.policy.warm_within;
                let (kind, how) = (Kind::Planned, How::HandedOver);
                let from_lives = true;
                Attempt { from_lives, until, ..Attempt::new(kind, to, how, now) }
            }
            // The dead driver has given the device to one that goes on in the next step.
            Phase::Waiting(restart) if restart.is_given(target.baton()) => {
                return Ok(Err(Refused::Busy));
            }
            Phase::Waiting(_) | Phase::GivenUp(_) => {
                self.backoff.reset();
                let mut how = How::Start;
                if let Phase::Waiting(Restart { candidate, how: found, .. }) = &mut self.phase {
                    how = *found;
                    if let Some(candidate) = candidate.take() {
                        self.order_to_end(candidate.generation, now, target);
                    }
                }
                let to = self.take_or_prepare(program, Wanted::AtOnce, target)?;
                let until = now + self.policy.warm_within;
                let (kind, gone) = (Kind::Planned, Some(now));
                Attempt { gone, until, ..Attempt::new(kind, to, how, now) }
            }
            _ => return Ok(Err(Refused::Busy)),
        };
        let generation = attempt.to.generation;
        self.phase = Phase::Warming(attempt);
        Ok(Ok(generation))
    }

    /// Begins to replace the running driver by the program that ran before it.
    pub fn roll_back(
        &mut self,
        target: &mut dyn Drivers,
    ) -> Result<Result<u32, Refused>, TargetError> {
        match self.before.clone() {
            Some(program) => self.replace(&program, target),
            None => Ok(Err(Refused::NothingBefore)),
        }
    }

    /// Something has changed of the drivers: the next step is a look.
    pub fn notice(&mut self) {
        self.next_look = Time::ZERO;
    }

    /// When the next step must come at the latest, if [`notice`](Self::notice) tells of each change in between. For one
    /// that does not spin, because it shares its core.
    pub fn rests_until(&self, now: Time) -> Time {
        if self.next_look <= now {
            return now;
        }
        match &self.phase {
            Phase::Warming(attempt)
            | Phase::Rehearsing(attempt)
            | Phase::Waking(attempt)
            | Phase::HandingOver(attempt)
            | Phase::Accepting(attempt)
            | Phase::Settling(attempt) => attempt.until.min(now + LOOK_ANYWAY),
            Phase::Stopping { until, .. } => (*until).min(now + LOOK_ANYWAY),
            Phase::Waiting(restart) => restart.at.min(now + LOOK_ANYWAY),
            // How often an old loop goes round, and whether a process that was killed is gone, are no changes.
            _ => self.next_look,
        }
    }

    /// Whether it waits for the driver that serves to be awake.
    pub fn awaits_waking(&self) -> bool {
        matches!(self.phase, Phase::Waking(_))
    }

    /// Whether nothing is going on: a driver runs, or none will.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::GivenUp(_))
    }

    /// Whether the next order to replace would find a warm driver.
    pub fn is_ready(&self, target: &mut dyn Drivers) -> bool {
        let warm =
            |spare: &Driver| target.seat(spare.generation).is_some_and(|seat| seat.is_warm());
        let spare = !self.policy.spare || self.spare.as_ref().is_some_and(warm);
        matches!(self.phase, Phase::Running) && spare
    }

    /// The state of it all.
    pub fn status(&self, target: &mut dyn Drivers) -> Status {
        let service = match &self.phase {
            Phase::Running => Service::Running,
            Phase::Warming(attempt)
            | Phase::Rehearsing(attempt)
            | Phase::Waking(attempt)
            | Phase::HandingOver(attempt)
            | Phase::Accepting(attempt)
            | Phase::Settling(attempt)
            | Phase::Withdrawing { attempt, .. }
            | Phase::TakingBack { attempt, .. } => Service::Replacing(attempt.to.generation),
            Phase::Stopping { .. } => Service::Replacing(target.next_generation()),
            Phase::CleaningUp(cleanup) => Service::Waiting(cleanup.begun),
            Phase::Waiting(restart) => Service::Waiting(restart.at),
            Phase::GivenUp(why) => Service::GivenUp(why.clone()),
        };
        Status {
            service,
            generation: self.current.generation,
            program: self.current.program.clone(),
            process_id: target.process_id(),
            since: self.since,
            before: self.before.clone(),
            spare: self.spare.as_ref().map(|spare| spare.generation),
            planned: self.planned,
            recovered: self.recovered,
            rolled_back: self.rolled_back,
            failures: self.backoff.failures(),
            fenced_accesses: target.fenced_accesses(),
        }
    }

    fn running(&mut self, now: Time, target: &mut dyn Drivers) -> Turn {
        if let Some(cleanup) = self.look_at_current(now, target) {
            return (Phase::CleaningUp(cleanup), None);
        }
        if self.on_trial && self.backoff.has_succeeded(now) {
            self.on_trial = false;
        }
        (Phase::Running, self.keep_spare(now, target))
    }

    /// What is wrong with the driver that serves the device, if anything is.
    pub(crate) fn look_at_current(
        &mut self,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Option<Cleanup> {
        let generation = self.current.generation;
        let work_waits = target.work_waits();
        let why = match target.seat(generation) {
            None => "its seat is gone".to_owned(),
            Some(seat) => match self.watch.look(now, &seat, work_waits) {
                Verdict::Well => return None,
                Verdict::Over => why_over(&seat),
                Verdict::Silent => {
                    format!("its loop has stood still for {}", self.policy.silent_for)
                }
                Verdict::Stuck => {
                    format!("it has taken up no work for {}", self.policy.stuck_for)
                }
            },
        };
        let had_just_taken_over = false;
        Some(Cleanup { generation, why, begun: now, candidate: None, had_just_taken_over })
    }

    fn keep_spare(&mut self, now: Time, target: &mut dyn Drivers) -> Option<Event> {
        if !self.policy.spare {
            return None;
        }
        let Some(generation) = self.spare.as_ref().map(|spare| spare.generation) else {
            return if now >= self.spare_due { self.start_spare(now, target) } else { None };
        };
        if let Some(why) = self.why_no_spare(generation, now, target) {
            self.drop_spare(now, target);
            return Some(self.spare_failed(why, now));
        }
        if now >= self.spare_hurries {
            target.hasten(generation, Wanted::Soon);
            self.spare_hurries = Time::NEVER;
        }
        None
    }

    fn start_spare(&mut self, now: Time, target: &mut dyn Drivers) -> Option<Event> {
        let program = self.current.program.clone();
        match target.prepare(&program, Wanted::Later) {
            Ok(generation) => {
                self.spare = Some(Driver { generation, program });
                self.spare_backoff.started(now);
                self.spare_until = now + self.policy.warm_within;
                self.spare_hurries = now + SPARE_LAST_FOR;
                None
            }
            Err(error) => Some(self.spare_failed(error.to_string(), now)),
        }
    }

    /// Why a spare is none: it has ended, or hangs before it is warm.
    fn why_no_spare(&self, generation: u32, now: Time, target: &mut dyn Drivers) -> Option<String> {
        match target.seat(generation) {
            None => Some("its seat is gone".to_owned()),
            Some(seat) if seat.is_over() => Some(why_over(&seat)),
            Some(seat) if now >= self.spare_until && !seat.is_warm() => {
                Some("it was not warm in time".to_owned())
            }
            Some(_) => None,
        }
    }

    /// A spare is tried again later; if it keeps failing, after the next replacement.
    fn spare_failed(&mut self, why: String, now: Time) -> Event {
        let next_after = self.spare_backoff.failed(now).map(|delay| SPARE_AFTER + delay);
        self.spare_due = next_after.map_or(Time::NEVER, |delay| now + delay);
        Event::SpareFailed { why, next_after }
    }

    pub(crate) fn drop_spare(&mut self, now: Time, target: &mut dyn Drivers) {
        if let Some(spare) = self.spare.take() {
            self.order_to_end(spare.generation, now, target);
        }
    }

    /// The spare, if it runs this program.
    pub(crate) fn take_spare(&mut self, program: &Program) -> Option<Driver> {
        self.spare.take_if(|spare| spare.program == *program)
    }

    fn take_or_prepare(
        &mut self,
        program: &Program,
        wanted: Wanted,
        target: &mut dyn Drivers,
    ) -> Result<Driver, TargetError> {
        if let Some(spare) = self.take_spare(program) {
            target.hasten(spare.generation, Wanted::AtOnce);
            return Ok(spare);
        }
        Ok(Driver { generation: target.prepare(program, wanted)?, program: program.clone() })
    }

    /// Tells a driver to end, which does not have the device.
    pub(crate) fn order_to_end(&mut self, generation: u32, now: Time, target: &mut dyn Drivers) {
        target.order_stop(generation);
        self.leavers.push(EndingDriver { generation, until: now + LEAVE_WITHIN });
    }

    /// Takes the seats of those away that were told to end and have, or will not.
    fn remove_ended_seats(&mut self, now: Time, target: &mut dyn Drivers) {
        self.leavers.retain(|leaver| {
            let seat = target.seat(leaver.generation);
            let has_ended = seat.is_none_or(|seat| seat.ended.is_some());
            !((has_ended || now >= leaver.until) && target.end_seat(leaver.generation))
        });
    }

    /// From now on this driver serves the device.
    pub(crate) fn has_begun(&mut self, attempt: &Attempt, now: Time, target: &mut dyn Drivers) {
        let old = std::mem::replace(&mut self.current, attempt.to.clone());
        if attempt.from_lives {
            self.order_to_end(old.generation, now, target);
        }
        match attempt.kind {
            Kind::Planned => self.planned += 1,
            Kind::Recovery => self.recovered += 1,
        }
        if old.program != self.current.program {
            let fell_back = attempt.kind == Kind::Recovery
                && self.before.as_ref() == Some(&self.current.program);
            self.on_trial = !fell_back;
            self.before = self.on_trial.then_some(old.program);
            self.drop_spare(now, target);
        }
        self.spare_backoff.reset();
        self.spare_due = now + SPARE_AFTER;
        self.backoff.started(now);
        self.restart_watch(now);
    }

    /// The watch begins anew.
    pub(crate) fn restart_watch(&mut self, now: Time) {
        self.since = now;
        self.watch = Watch::new(self.policy.silent_for, self.policy.stuck_for);
    }

    /// What is to run after a failure: the program before, if that of the present driver is on trial.
    pub(crate) fn next_program(&self) -> Program {
        let before = self.before.as_ref().filter(|_| self.on_trial);
        before.unwrap_or(&self.current.program).clone()
    }

    /// What comes after the driver that had the device, or was to have it, is gone.
    pub(crate) fn restart(
        &mut self,
        restart: Restart,
        why: String,
        generation: u32,
        target: &mut dyn Drivers,
    ) -> Turn {
        let now = restart.at;
        let Some(next_after) = self.backoff.failed(now) else {
            let candidate = restart.candidate.or_else(|| self.spare.take());
            if let Some(candidate) = candidate {
                self.order_to_end(candidate.generation, now, target);
            }
            return (Phase::GivenUp(why.clone()), Some(Event::GivenUp { why }));
        };
        // A driver that has been given the device is not kept from it.
        let next_after = if restart.is_given(target.baton()) { Span::ZERO } else { next_after };
        let event = Event::Failed { generation, why, next_after };
        (Phase::Waiting(Restart { at: now + next_after, ..restart }), Some(event))
    }
}

/// Why a driver is over, in words.
pub(crate) fn why_over(seat: &Seat) -> String {
    match (&seat.last_words, &seat.ended) {
        (Some(words), _) => format!("it failed: {words}"),
        (None, Some(ended)) => format!("its process ended ({ended})"),
        (None, None) => "it says that it has stopped".to_owned(),
    }
}

//! The loop: what is due next happens, and then the next.
//!
//! Four things can be due: an event on the queue, the device by itself, a frame, and the end
//! of what the core is doing. At the same instant they come in this order. Nothing else makes time
//! pass, and nothing here knows what time it is outside.

use warikomi_clock::{Span, Time};
use warikomi_inject::Injection;

use super::arrivals::START;
use super::bed::Replacement;
use super::cpu::Due;
use super::stage::Stage;
use super::trace::{Event, Part};
use super::world::{QueuedEvent, World};
use super::{Outcome, Trigger, VirtualError};

/// A part that dies more often than this has a device that does not recover.
const MOST_RESTARTS: u32 = 1_000;

impl World<'_> {
    /// Everybody is started, and what is to go wrong is planned.
    fn begin(&mut self) -> Result<(), VirtualError> {
        let disturbances = &self.options.disturbances;
        let start = Time::ZERO + START;
        if self.faults_on {
            self.device.faults(Some(start));
            self.queue.schedule(start + disturbances.until, QueuedEvent::FaultsStop);
        }
        for (at, held) in &disturbances.stalls {
            self.queue.schedule(start + *at, QueuedEvent::Stall(*held));
        }
        for (at, taken) in &disturbances.core_taken {
            self.queue.schedule(start + *at, QueuedEvent::TakeCore(*taken));
        }
        for (number, (at, _)) in disturbances.orders.iter().enumerate() {
            self.queue.schedule(start + *at, QueuedEvent::Order(number));
        }
        self.post_free_buffers();
        self.next_driver()?;
        for stage in self.stages.iter().filter(|stage| stage.part != Part::Driver) {
            self.recorder.emit(&Event::Started(stage.part));
            self.cpu.wake(self.now, stage.id);
        }
        if let Some(job) = self.compute {
            self.cpu.wake(self.now, job);
        }
        (0..self.options.sends.map_or(0, |sends| sends.at_once)).for_each(|_| self.send());
        self.pass_rings(Span::ZERO);
        Ok(())
    }

    /// Until everything is delivered, or ought to be.
    pub(super) fn run(mut self) -> Result<Outcome, VirtualError> {
        self.begin()?;
        loop {
            let core = self.cpu.due();
            let (queue, device) = (self.queue.next_due(), self.device.next_due());
            let arrival = self.injector.next_due();
            let next = core.at().min(queue).min(device).min(arrival);
            if self.is_over(next)? || next == Time::NEVER {
                break;
            }
            self.deadline.happens(self.now, next)?;
            self.now = self.now.max(next);
            self.recorder.now = self.now;
            if queue <= next {
                self.handle_event()?;
            } else if device <= next {
                self.device.poll(self.now);
                self.pass_news();
            } else if arrival <= next {
                self.arrive();
            } else {
                self.core(core)?;
            }
            self.kill_if_it_is_time();
        }
        self.end()
    }

    fn core(&mut self, due: Due) -> Result<(), VirtualError> {
        match due {
            Due::Idle => {}
            Due::SliceEnd(_) => self.cpu.slice_over(self.now),
            Due::StepEnd(_, task) if Some(task) == self.compute => self.cpu.begin(self.now, None),
            Due::StepEnd(_, task) => match self.process_of(task) {
                Some(at) => self.driver_step(at)?,
                None => self.stage_step(task),
            },
        }
        Ok(())
    }

    fn handle_event(&mut self) -> Result<(), VirtualError> {
        let Some(happening) = self.queue.pop_due(self.now) else { return Ok(()) };
        match happening {
            QueuedEvent::Interrupt(vector) => self.interrupt(vector),
            QueuedEvent::Wake(task) => match self.process_of(task) {
                Some(at) => self.driver_called(at),
                None => self.cpu.wake(self.now, task),
            },
            QueuedEvent::WakeWaiting(task) => self.waiting_called(task),
            QueuedEvent::SleepOver(sleep) => self.sleep_over(sleep),
            QueuedEvent::FaultsStop => {
                self.faults_on = false;
                self.device.faults(None);
            }
            QueuedEvent::Stall(held) => self.stall(held),
            QueuedEvent::TakeCore(taken) => {
                self.cpu.take_away(self.now);
                self.queue.schedule(self.now + taken, QueuedEvent::GiveCoreBack);
            }
            QueuedEvent::GiveCoreBack => self.cpu.give_back(self.now),
            QueuedEvent::GoOn(task) => self.resume_task(task),
            QueuedEvent::Restart(part) => self.restart(part)?,
            QueuedEvent::Order(number) => self.order(self.options.disturbances.orders[number].1)?,
            QueuedEvent::Bed => self.look_at_replacement(),
        }
        Ok(())
    }

    fn arrive(&mut self) {
        let struck_before = self.device.struck();
        let mut arrival = None;
        let (now, injector) = (self.now, &mut self.injector);
        self.device.with(now, |nic, host| {
            injector
                .step(host, nic, || now, &mut |injection: &Injection| arrival = Some(*injection));
        });
        let struck = self.device.struck() != struck_before;
        if let Some(Injection { sequence, outcome, .. }) = arrival {
            self.arrived.push(now);
            self.counts.arrived(outcome);
            self.in_nic += u64::from(outcome.is_on_ring());
            self.recorder.emit(&Event::Arrived { sequence, outcome, struck });
        }
        self.pass_news();
    }

    /// Whether there is no point in going on to `next`.
    fn is_over(&mut self, next: Time) -> Result<bool, VirtualError> {
        let Some(until) = self.settle_until else {
            if self.is_quiet() {
                let rounds = self.in_nic.div_ceil(self.options.buffers.max(1) as u64).max(1);
                self.settle_until = Some(self.now + self.options.disturbances.bound * rounds);
                self.recorder.emit(&Event::DisturbancesOver { rounds });
            } else if self.injector.done() {
                self.wait_for_rest()?;
            }
            return Ok(false);
        };
        Ok(next > until || self.is_settled())
    }

    /// No frame comes any more, and the target is not at rest: an error if that has been so for too long.
    fn wait_for_rest(&mut self) -> Result<(), VirtualError> {
        match self.deadline.overdue(self.now) {
            Some(waited) => Err(VirtualError::NoRest { waited, what: self.awaited() }),
            None => Ok(()),
        }
    }

    /// What keeps the target from being at rest.
    fn awaited(&self) -> String {
        if let Some(Replacement { old, new, phase }) = self.bed.replacement {
            return format!("driver {new} to take the device of driver {old} ({phase:?})");
        }
        if self.away > 0 {
            return format!("{} parts that are held, or to be started again", self.away);
        }
        if !self.kills.is_empty() {
            return format!("the deaths of {} parts", self.kills.len());
        }
        let what = if self.is_served() { "an end of a fault" } else { "a driver that is ready" };
        what.to_owned()
    }

    fn is_quiet(&mut self) -> bool {
        self.injector.done()
            && !self.faults_on
            && self.away == 0
            && self.kills.is_empty()
            && self.orders_left == 0
            && self.bed.is_idle()
            && self.is_served()
            && !self.device.fault_is_active()
    }

    fn is_settled(&mut self) -> bool {
        let session = self.dma_layout.session.as_mut();
        if session.is_some_and(|session| session.user.ready().unwrap_or(false)) {
            return false;
        }
        self.in_nic == 0
            && self.pool.has_on_ring()
            && self.given.is_empty()
            && self.stages.iter().all(Stage::is_settled)
            && self.dma_layout.session.as_ref().is_none_or(|session| session.rising == 0)
            && self.dma_layout.outgoing.as_ref().is_none_or(|it| it.outstanding().next().is_none())
            && self.is_served()
    }

    /// Whether the device has a driver that is ready.
    fn is_served(&self) -> bool {
        self.current().is_some_and(|at| self.drivers[at].is_ready())
    }

    fn kill_if_it_is_time(&mut self) {
        let due = |moment: &Trigger| match *moment {
            Trigger::Event(number) => self.recorder.digest.events() >= number,
            Trigger::After(span) => self.now >= Time::ZERO + START + span,
            Trigger::HandOver(steps) => self.bed.made_step(steps).is_some(),
        };
        // A moment that never comes must not hold the end up.
        let over = self.injector.done()
            && !self.faults_on
            && self.away == 0
            && self.orders_left == 0
            && self.bed.is_idle();
        if self.kills.front().is_some_and(|(moment, _)| due(moment) || over)
            && let Some((moment, part)) = self.kills.pop_front()
        {
            let by = match moment {
                Trigger::HandOver(steps) => self.bed.made_step(steps),
                _ => None,
            };
            match by.map(|generation| self.alive(generation)) {
                Some(Some(at)) => self.driver_dies(at),
                Some(None) => {}
                None => self.kill(part),
            }
        }
    }

    /// A part dies, and is started again some time later.
    fn kill(&mut self, part: Part) {
        if part == Part::Driver {
            if let Some(at) = self.current() {
                self.driver_dies(at);
            }
            return;
        }
        let Some(at) = self.stage_of(part).filter(|&at| !self.stages[at].dead) else { return };
        if at > 0 && self.stages[0].dead {
            return;
        }
        self.recorder.emit(&Event::Killed(part));
        self.stage_dies(part);
        self.restart_later(part);
    }

    fn restart(&mut self, part: Part) -> Result<(), VirtualError> {
        if self.counts.restarts > MOST_RESTARTS {
            return Err(VirtualError::Restarts(MOST_RESTARTS));
        }
        self.away -= 1;
        match part {
            Part::Driver => return self.next_driver(),
            Part::First => self.renew_session()?,
            Part::Second => {}
        }
        self.recorder.emit(&Event::Started(part));
        self.stage_starts(part);
        Ok(())
    }

    fn end(mut self) -> Result<Outcome, VirtualError> {
        if let Some(until) = self.settle_until
            && !self.is_settled()
        {
            // Nothing more has happened, and the time for it is over.
            self.now = self.now.max(until);
            self.recorder.now = self.now;
        }
        self.recorder.emit(&Event::Stopping);
        self.ending = true;
        let ended = self.now;
        self.stop_device();
        self.recorder.emit(&Event::End);
        self.now = ended;
        let elapsed = self.now.since(Time::ZERO + START);
        let busy = |task| self.cpu.busy(self.now, task);
        let receiving: Span = self
            .stages
            .iter()
            .map(|stage| stage.id)
            .chain(self.receivers.iter().copied())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .fold(Span::ZERO, |sum, task| sum + busy(task));
        // What something else takes of the core is taken from all parts.
        let taken = self.cpu.taken_by(self.now).as_secs();
        let all = (self.now.since(Time::ZERO).as_secs() - taken).max(1e-12);
        // What a competing job does not get is what receiving costs, switches included.
        let cpu_share = match self.compute {
            Some(job) => 1.0 - busy(job).as_secs() / all,
            None => receiving.as_secs() / all,
        };
        let cpu_share = cpu_share.clamp(0.0, 1.0);
        Ok(Outcome {
            events: self.recorder.digest.events(),
            digest: self.recorder.digest.finish(),
            elapsed,
            cpu_share,
            switches: self.cpu.switches(),
            counts: self.counts,
            delays: self.delays,
        })
    }
}

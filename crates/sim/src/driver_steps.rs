//! A driver's process: the very loop of a driver, one step at a time on the calendar.
//!
//! A step takes place at one instant, its beginning, and then keeps the core for as long as what it did takes.

use std::cell::Cell;

use warikomi_clock::{Span, Time};
use warikomi_driver::run::{DriverLoop, HEARTBEAT, Parts, RunError, Step};
use warikomi_pci::attach::layout::orders;
use warikomi_shared::Woken;

use super::VirtualError;
use super::above::{Above, Attached, Moved};
use super::cpu::TaskId;
use super::device::Registers;
use super::process::State;
use super::trace::{Event, Part, Parting};
use super::world::{QueuedEvent, World};

impl World<'_> {
    /// The place of a driver's process that runs as this task.
    pub(super) fn process_of(&self, task: TaskId) -> Option<usize> {
        self.drivers.iter().position(|process| process.id == task && !process.over)
    }

    /// The next step of a driver's process.
    pub(super) fn driver_step(&mut self, at: usize) -> Result<(), VirtualError> {
        match self.drivers[at].state {
            State::Start => return self.set_out(at),
            State::GoingToSleep(longest) => {
                self.go_to_sleep(at, longest);
                return Ok(());
            }
            State::GoingToAwaitBaton(generation) => {
                self.await_baton(at, generation);
                return Ok(());
            }
            State::Asleep => self.wake_up(at),
            State::AwaitsBaton => {}
            State::Step => {
                if let Some(takes) = self.work_in_process(at) {
                    self.cpu.begin(self.now, Some(takes));
                    return Ok(());
                }
            }
        }
        self.drivers[at].state = State::Step;
        self.step(at);
        Ok(())
    }

    /// The application in the driver's process works on the next packet.
    fn work_in_process(&mut self, at: usize) -> Option<Span> {
        if self.stages[0].id != self.drivers[at].id {
            return None;
        }
        let given = std::mem::take(&mut self.given);
        self.give(0, given);
        let finished = self.finish_work(0);
        Some(finished + self.work_in_driver()?)
    }

    /// Calls the loop; what the call took for registers, and what was done.
    fn call<R>(
        &mut self,
        at: usize,
        call: impl FnOnce(
            &mut Option<DriverLoop>,
            &mut Parts<'_, Attached<'_>, Above<'_, '_>>,
            Time,
        ) -> R,
    ) -> (R, Span, Moved, bool) {
        let costs = &self.options.costs;
        let process = &mut self.drivers[at];
        let dma_layout = &mut self.dma_layout;
        let sleep = costs.sleep_ns + 2 * costs.context_switch_ns + costs.handler_ns;
        let passed_on = Cell::new(false);
        let mut device = Attached {
            registers: Registers::new(&mut self.device, costs, self.now),
            window: &mut process.window,
            lineage: process.lineage.as_ref(),
            store: self.bed.store(),
            ring_bytes: self.ring_bytes,
            processor_time: Span::from_ns(sleep) * process.sleeps,
            passed_on: &passed_on,
        };
        let mut upper = Above {
            channel: process.channel.as_mut().zip(dma_layout.session.as_mut()),
            pool: &mut self.pool,
            outgoing: dma_layout.outgoing.as_mut(),
            tap: &self.tap,
            given: &mut self.given,
            memory: &dma_layout.memory,
            known_frames: &mut self.known_frames,
            recorder: &mut self.recorder,
            moved: Moved::default(),
            channel_bug: self.pair.channel_bug,
        };
        let mut parts = Parts {
            device: &mut device,
            memory: &dma_layout.memory,
            driver: &mut *process.driver,
            upper: &mut upper,
        };
        let value = call(&mut process.driving, &mut parts, self.now);
        (value, device.registers.spent, upper.moved, passed_on.get())
    }

    /// Everything is mapped, and it begins.
    fn set_out(&mut self, at: usize) -> Result<(), VirtualError> {
        let made = self.call(at, |driving, parts, now| -> Result<(), RunError> {
            *driving = Some(DriverLoop::new(parts, now)?);
            Ok(())
        });
        made.0?;
        let process = &mut self.drivers[at];
        process.state = State::Step;
        if process.is_driving() {
            let generation = process.generation;
            self.recorder.emit(&Event::Took { generation });
        }
        self.cpu.begin(self.now, Some(Span::ZERO));
        Ok(())
    }

    fn step(&mut self, at: usize) {
        let (looked, handled) = self.done(at);
        self.tell_if_stopping(at);
        let was_driving = self.drivers[at].is_driving();
        let (step, registers, moved, passed_on) =
            self.call(at, |driving, parts, now| match driving {
                Some(driving) => driving.step(parts, now),
                None => Ok(Step::Ended { waiting: true }),
            });
        let (looks, interrupts) = self.done(at);
        let (looks, handled) = (looks - looked, interrupts - handled);
        self.tell(at, was_driving.then(|| self.parting(at, &step)), handled, moved);
        let spent = registers + self.costs_of(at, looks, handled, moved);
        self.pass_news();
        if passed_on {
            self.wake_waiting(spent);
        }
        let spent = spent + self.pass_rings(spent);
        self.bed.stepped(self.drivers[at].generation);
        match step {
            Ok(step) => self.follow(at, step, spent),
            Err(error) => self.driver_fails(at, &error),
        }
    }

    fn tell_if_stopping(&mut self, at: usize) {
        if self.drivers[at].driving.as_ref().is_some_and(DriverLoop::is_stopping) {
            self.recorder.emit(&Event::Quiescing);
        }
    }

    /// Looks at the ring, and interrupts taken, by a process so far.
    fn done(&self, at: usize) -> (u64, u64) {
        let process = &self.drivers[at];
        let looks = process.driving.as_ref().map_or(0, DriverLoop::looks);
        (looks, process.window.interrupts_taken())
    }

    /// How a driver has left its device, if it has, in a step that ended so.
    fn parting(&self, at: usize, step: &Result<Step, RunError>) -> Parting {
        match step {
            Err(_) if self.has_accepted(at) => Parting::Failed,
            Err(_) => Parting::Unaccepted,
            Ok(Step::Ended { .. }) => Parting::Stopped,
            Ok(_) => Parting::GaveAway,
        }
    }

    /// Reports what happened in a step; of a driver that had the device before it, how it has left it, if it has.
    fn tell(&mut self, at: usize, parting: Option<Parting>, handled: u64, moved: Moved) {
        self.counts.handled += handled;
        (0..handled).for_each(|_| self.recorder.emit(&Event::Handled));
        self.counts.polls_with_frames += u64::from(moved.received > 0);
        let process = &self.drivers[at];
        let generation = process.generation;
        match parting {
            None if process.is_driving() => self.recorder.emit(&Event::Took { generation }),
            Some(how) if !process.is_driving() && process.driving.is_some() => {
                self.recorder.emit(&Event::Left { generation, how });
            }
            _ => {}
        }
        self.in_nic = self.in_nic.saturating_sub(moved.received + moved.returned);
        if moved.forgotten {
            self.counts.lost_by_kill += std::mem::take(&mut self.in_nic);
        }
    }

    fn costs_of(&self, at: usize, looks: u64, handled: u64, moved: Moved) -> Span {
        let costs = &self.options.costs;
        let channel = if self.drivers[at].channel.is_some() { costs.channel_packet_ns } else { 0 };
        let frames = moved.received + moved.returned;
        Span::from_ns(
            costs.poll_empty_ns * looks
                + costs.driver_packet_ns * (frames + moved.transmits)
                + channel * (moved.received + moved.transmits)
                + costs.handler_ns * handled,
        )
    }

    /// What comes after a step that took so long.
    fn follow(&mut self, at: usize, step: Step, spent: Span) {
        let sleep = Span::from_ns(self.options.costs.sleep_ns);
        match step {
            Step::Again => {
                let skipped = self.skip(at, spent);
                self.cpu.begin(self.now, Some(spent + spent * skipped));
            }
            Step::Yield => {
                self.cpu.begin(self.now, Some(spent));
                self.cpu.slice_over(self.now);
            }
            Step::Sleep { longest } => {
                self.drivers[at].state = State::GoingToSleep(longest);
                self.cpu.begin(self.now, Some(spent + sleep));
            }
            Step::AwaitBaton { generation } => {
                self.drivers[at].state = State::GoingToAwaitBaton(generation);
                self.cpu.begin(self.now, Some(spent + sleep));
            }
            Step::Ended { waiting } => {
                if !waiting {
                    self.in_nic = 0;
                    self.recorder.emit(&Event::Quiesced);
                }
                self.driver_ends(at, waiting);
            }
        }
    }

    /// A pass has found nothing. Until something else is due each pass after it finds nothing either, and
    /// those are left out: how many.
    fn skip(&mut self, at: usize, spent: Span) -> u64 {
        let until = self.nothing_before();
        let process = &mut self.drivers[at];
        let Some(driving) = &mut process.driving else { return 0 };
        // Only passes that take the same are all the same.
        if std::mem::replace(&mut process.idle_pass, spent) != spent {
            return 0;
        }
        driving.skip_idle(self.now + spent, spent, until)
    }

    /// It sleeps, unless somebody has called.
    fn go_to_sleep(&mut self, at: usize, longest: Span) {
        let provider = self
            .dma_layout
            .session
            .as_ref()
            .is_some_and(|session| session.for_provider.is_called());
        let gone = self.dma_layout.session.as_ref().is_some_and(|session| session.gone);
        let process = &mut self.drivers[at];
        let called = process.call.clear() || provider || gone;
        if called || longest == Span::ZERO {
            let how = if called { Woken::Called } else { Woken::TimedOut };
            return self.wake_driver(at, how);
        }
        process.state = State::Asleep;
        process.sleeps += 1;
        self.counts.sleeps += 1;
        let number = (process.id, process.sleeps);
        self.recorder.emit(&Event::Slept(Part::Driver));
        self.cpu.sleep(self.now);
        let longest = self.options.sleep_timeout.map_or(longest, |timeout| timeout.min(longest));
        self.queue.schedule(self.now + longest, QueuedEvent::SleepOver(number));
    }

    fn wake_driver(&mut self, at: usize, how: Woken) {
        let process = &mut self.drivers[at];
        if let Some(driving) = &mut process.driving {
            driving.woke(Ok(how));
        }
        process.state = State::Step;
        self.cpu.begin(self.now, Some(Span::ZERO));
    }

    /// It was asleep, and runs again.
    fn wake_up(&mut self, at: usize) {
        let timeout = self.options.sleep_timeout.is_some();
        let session = self.dma_layout.session.as_ref();
        let above = session.is_some_and(|session| session.for_provider.is_called() || session.gone);
        let process = &mut self.drivers[at];
        // One that survives lost interrupts takes the end of the time for a call.
        let called = process.call.clear() || above || timeout;
        if let Some(driving) = &mut process.driving {
            driving.woke(Ok(if called { Woken::Called } else { Woken::TimedOut }));
        }
        self.recorder.emit(&Event::Woke(Part::Driver));
    }

    pub(super) fn sleep_over(&mut self, (task, number): (TaskId, u64)) {
        let Some(at) = self.process_of(task) else { return };
        let process = &self.drivers[at];
        if process.sleeps == number && matches!(process.state, State::Asleep | State::AwaitsBaton) {
            self.cpu.wake(self.now, task);
        }
    }

    /// Somebody has called a driver's process.
    pub(super) fn driver_called(&mut self, at: usize) {
        let process = &self.drivers[at];
        let session = self.dma_layout.session.as_ref();
        let above = session.is_some_and(|session| session.for_provider.is_called() || session.gone);
        if process.state == State::Asleep && (process.call.is_called() || above) {
            self.cpu.wake(self.now, process.id);
        }
    }

    /// It waits for the baton, unless that is another's already.
    fn await_baton(&mut self, at: usize, generation: u32) {
        let process = &mut self.drivers[at];
        if self.bed.turn().generation != generation {
            process.state = State::Step;
            return self.cpu.begin(self.now, Some(Span::ZERO));
        }
        process.state = State::AwaitsBaton;
        process.sleeps += 1;
        let over = QueuedEvent::SleepOver((process.id, process.sleeps));
        self.cpu.sleep(self.now);
        let heartbeat = Span::from_us(HEARTBEAT.as_micros() as u64);
        self.queue.schedule(self.now + heartbeat, over);
    }

    /// The driver that waits for the baton is woken, by something `after` from now.
    pub(super) fn wake_waiting(&mut self, after: Span) {
        let runs = self.now + after + Span::from_ns(self.options.costs.wake_up_ns);
        for process in self.drivers.iter().filter(|process| !process.over) {
            if matches!(process.state, State::AwaitsBaton) {
                self.queue.schedule(runs, QueuedEvent::WakeWaiting(process.id));
            }
        }
    }

    pub(super) fn waiting_called(&mut self, task: TaskId) {
        if let Some(at) = self.process_of(task)
            && self.drivers[at].state == State::AwaitsBaton
        {
            self.cpu.wake(self.now, task);
        }
    }

    /// Whoever has the device can see an interrupt.
    pub(super) fn interrupt(&mut self, vector: u16) {
        let Some(at) = self.current() else { return };
        let process = &mut self.drivers[at];
        process.interrupts.send(vector);
        process.bell.ring();
        self.pass_rings(Span::ZERO);
    }

    /// Those who were called while this instant lasted run some time later; what calling took.
    pub(super) fn pass_rings(&mut self, after: Span) -> Span {
        let wake_up = Span::from_ns(self.options.costs.wake_up_ns);
        let bell = Span::from_ns(self.options.costs.bell_ns);
        let mut spent = Span::ZERO;
        for process in &self.drivers {
            if process.call.take_rings() > 0 {
                self.queue.schedule(self.now + wake_up, QueuedEvent::Wake(process.id));
            }
        }
        let Some(session) = &self.dma_layout.session else { return spent };
        let rings = session.for_provider.take_rings();
        if rings > 0 {
            spent += bell * u64::from(rings);
            for process in self.drivers.iter().filter(|process| process.is_driving()) {
                self.queue
                    .schedule(self.now + after + spent + wake_up, QueuedEvent::Wake(process.id));
            }
        }
        let rings = session.for_user.take_rings();
        if rings > 0 {
            spent += bell * u64::from(rings);
            let task = self.stages[0].id;
            self.queue.schedule(self.now + after + spent + wake_up, QueuedEvent::Wake(task));
        }
        spent
    }

    /// The driver's process is held.
    pub(super) fn stall(&mut self, held: Span) {
        let Some(at) = self.current().filter(|&at| !self.drivers[at].held) else { return };
        self.recorder.emit(&Event::Stalled(Part::Driver));
        let process = &mut self.drivers[at];
        process.held = true;
        self.away += 1;
        self.cpu.remove(self.now, process.id);
        self.queue.schedule(self.now + held, QueuedEvent::GoOn(process.id));
    }

    /// It goes on, unless it has died meanwhile.
    pub(super) fn resume_task(&mut self, task: TaskId) {
        self.away -= 1;
        if let Some(at) = self.process_of(task)
            && std::mem::take(&mut self.drivers[at].held)
        {
            self.cpu.put_back(task, false);
            self.cpu.wake(self.now, task);
        }
    }

    /// The driver is told to stop its device and give all back; nothing else happens until it has.
    pub(super) fn stop_device(&mut self) {
        /// Steps until a driver that is told to stop has ended, and how long each is.
        const MOST_STEPS: usize = 1_000;
        const STEP: Span = Span::from_us(1);
        let Some(at) = self.current() else { return };
        self.drivers[at].order(orders::STOP, 1);
        for _ in 0..MOST_STEPS {
            self.now += STEP;
            self.recorder.now = self.now;
            self.tell_if_stopping(at);
            let (step, ..) = self.call(at, |driving, parts, now| match driving {
                Some(driving) => {
                    driving.woke(Ok(Woken::Called));
                    driving.step(parts, now)
                }
                None => Ok(Step::Ended { waiting: true }),
            });
            self.pass_news();
            match step {
                Ok(Step::Ended { waiting: false }) => return self.recorder.emit(&Event::Quiesced),
                Ok(Step::Ended { waiting: true }) => return,
                // The device is at fault even now: it is stopped from outside.
                Err(_) => {
                    self.counts.failures += 1;
                    self.recorder.emit(&Event::DriverFailed);
                    return self.card_resets();
                }
                Ok(_) => {}
            }
        }
    }
}

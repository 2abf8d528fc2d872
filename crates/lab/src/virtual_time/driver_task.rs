//! The driver's process: the real driver and the real strategy, one step at a time.
//!
//! The loop is that of a driver process in real time (`warikomi_driver::run`): handle interrupts one
//! by one, look at the ring, work, ask the strategy; and to sleep: arm, look once more, say so, sleep.

use warikomi_clock::{Span, Time};
use warikomi_driver::strategy::{Next, Receiver, Strategy};
use warikomi_driver::{DriverError, Hardware, NicDriver};

use super::Options;
use super::cpu::TaskId;
use super::device::Registers;
use super::pool::Sink;
use super::trace::{Event, Part};
use super::world::{Happening, RINGS, RUN_ID, World};

/// What the driver's process comes to next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It sets its device up.
    Start,
    Look {
        budget: usize,
    },
    /// What it has found goes up; if the application is in this process, packet by packet.
    Work {
        found: usize,
    },
    Arm {
        budget: usize,
    },
    LastLook {
        budget: usize,
    },
    /// It has said that it sleeps, and is on its way to.
    Fall,
    Asleep,
}

/// The driver's process.
pub(super) struct DriverTask {
    pub(super) id: TaskId,
    /// `None` while there is none.
    driver: Option<Box<dyn NicDriver>>,
    receiver: Receiver,
    doing: Doing,
    /// Interrupts that it can see and has not handled.
    tally: u32,
    /// There are buffers again for which its ring has room.
    kicked: bool,
    says_sleeping: bool,
    slept_at: Time,
    held: bool,
}

impl DriverTask {
    pub(super) fn new(
        id: TaskId,
        driver: Box<dyn NicDriver>,
        options: &Options,
        now: Time,
    ) -> DriverTask {
        DriverTask {
            id,
            driver: Some(driver),
            receiver: Receiver::new(options.strategy, now),
            doing: Doing::Start,
            tally: 0,
            kicked: false,
            says_sleeping: false,
            slept_at: Time::ZERO,
            held: false,
        }
    }

    /// Whether interrupts come while it is awake.
    pub(super) fn stays_armed(&self) -> bool {
        self.receiver.stays_armed()
    }

    /// Whether its device is not set up, or not yet.
    pub(super) fn is_starting(&self) -> bool {
        self.driver.is_none() || self.doing == Doing::Start
    }

    pub(super) fn has_interrupts(&self) -> bool {
        self.tally > 0
    }

    pub(super) fn is_dead(&self) -> bool {
        self.driver.is_none()
    }
}

impl World<'_> {
    /// The next step of the driver's process.
    pub(super) fn driver_step(&mut self) {
        if self.driver.doing == Doing::Asleep && !self.wakes_up() {
            return;
        }
        let doing = self.driver.doing;
        let interruptible = !matches!(doing, Doing::Start | Doing::Work { .. });
        if interruptible && self.driver.tally > 0 {
            return self.handle_interrupt();
        }
        match doing {
            Doing::Start => self.set_up(),
            Doing::Look { budget } => self.look(budget),
            Doing::Work { found } => self.work(found),
            Doing::Arm { budget } => self.arm(budget),
            Doing::LastLook { budget } => self.last_look(budget),
            Doing::Fall => self.fall(),
            Doing::Asleep => {}
        }
    }

    /// Calls the driver; what the call took for registers, and what it says. `None`: it has given up,
    /// and is dead.
    fn call<R>(
        &mut self,
        call: impl FnOnce(
            &mut dyn NicDriver,
            &mut Hardware<'_>,
            &mut Sink<'_, '_>,
        ) -> Result<R, DriverError>,
    ) -> Option<(Span, R)> {
        let driver = self.driver.driver.as_mut()?;
        let mut mmio = Registers::new(&mut self.device, &self.options.costs, self.now);
        let mut sink = Sink {
            pool: &mut self.pool,
            memory: &self.memory,
            recorder: &mut self.recorder,
            run_id: RUN_ID,
            given: &mut self.given,
        };
        let mut hardware = Hardware { mmio: &mut mmio, memory: &self.memory };
        let done = call(&mut **driver, &mut hardware, &mut sink);
        let spent = mmio.spent;
        self.pass_interrupts();
        match done {
            Ok(value) => Some((spent, value)),
            Err(_) => {
                self.driver_fails();
                None
            }
        }
    }

    fn goes_on(&mut self, doing: Doing, takes: Span) {
        self.driver.doing = doing;
        self.cpu.begin(self.now, Some(takes));
    }

    fn set_up(&mut self) {
        let buffers = self.options.buffers;
        let called = self.call(|driver, hw, sink| {
            let buffers = buffers.min(driver.info().rx_descriptors);
            driver.init(hw, RINGS, buffers, sink)
        });
        let Some((spent, ())) = called else { return };
        self.looks_next(spent);
    }

    fn looks_next(&mut self, takes: Span) {
        let budget = self.driver.receiver.budget();
        self.goes_on(Doing::Look { budget }, takes);
    }

    fn handle_interrupt(&mut self) {
        self.driver.tally -= 1;
        self.driver.says_sleeping = false;
        self.counts.handled += 1;
        self.recorder.emit(&Event::Handled);
        let stays_armed = self.driver.receiver.stays_armed();
        let called = self.call(|driver, hw, _| match stays_armed {
            true => driver.acknowledge(hw, 0),
            false => driver.on_interrupt(hw, 0),
        });
        let Some((spent, _)) = called else { return };
        self.looks_next(spent + Span::from_ns(self.options.costs.handler_ns));
    }

    /// Takes what is on the ring; how many, and what it took.
    fn take(&mut self, budget: usize) -> Option<(usize, Span)> {
        let (spent, found) = self.call(|driver, hw, sink| driver.poll(hw, budget, sink))?;
        self.in_nic = self.in_nic.saturating_sub(found as u64);
        let costs = &self.options.costs;
        let takes = costs.poll_empty_ns + costs.driver_packet_ns * found as u64;
        Some((found, spent + Span::from_ns(takes)))
    }

    fn look(&mut self, budget: usize) {
        let Some((found, takes)) = self.take(budget) else { return };
        if found == 0 {
            return self.idle(takes);
        }
        self.counts.polls_with_frames += 1;
        self.goes_on(Doing::Work { found }, takes);
    }

    /// A look has found nothing. Until something else is due, each look after it finds nothing either,
    /// so only the strategy is asked, with the times at which it would be.
    fn idle(&mut self, takes: Span) {
        let until = self.nothing_before();
        // The strategy says how long such looks change nothing; all but the last two are left out.
        let same = until.min(self.driver.receiver.polls_until()).since(self.now);
        let left_out = (same.as_ps() / takes.as_ps().max(1)).saturating_sub(2);
        self.now += takes * left_out;
        loop {
            let over = self.now + takes;
            if over >= until || takes == Span::ZERO {
                return self.goes_on(Doing::Work { found: 0 }, takes);
            }
            self.now = over;
            match self.driver.receiver.next(over, 0) {
                Next::Poll { .. } => {}
                Next::Yield { budget } => return self.yields(budget, Span::ZERO),
                Next::Arm { budget } => {
                    self.recorder.now = over;
                    return self.arm(budget);
                }
            }
        }
    }

    /// Others run, and then it looks.
    fn yields(&mut self, budget: usize, takes: Span) {
        self.goes_on(Doing::Look { budget }, takes);
        self.cpu.slice_over(self.now);
    }

    fn work(&mut self, found: usize) {
        let mut spent = self.show();
        if !self.is_split() {
            spent = spent + self.finish_work(0);
            if let Some(takes) = self.work_in_driver() {
                return self.goes_on(Doing::Work { found }, spent + takes);
            }
        }
        match self.driver.receiver.next(self.now, found) {
            Next::Poll { budget } => self.goes_on(Doing::Look { budget }, spent),
            Next::Yield { budget } => self.yields(budget, spent),
            Next::Arm { budget } => self.goes_on(Doing::Arm { budget }, spent),
        }
    }

    fn is_split(&self) -> bool {
        self.stages[0].id != self.driver.id
    }

    /// Gives up what has been found since the last time; what that took.
    fn show(&mut self) -> Span {
        if self.given.is_empty() {
            return Span::ZERO;
        }
        let given = std::mem::take(&mut self.given);
        let channel = if self.is_split() { self.options.costs.channel_packet_ns } else { 0 };
        let passing = Span::from_ns(channel) * given.len() as u64;
        passing + self.give(0, given)
    }

    fn arm(&mut self, budget: usize) {
        let Some((spent, ())) = self.call(|driver, hw, _| driver.arm(hw)) else { return };
        self.driver.receiver.armed();
        self.recorder.emit(&Event::Armed);
        self.goes_on(Doing::LastLook { budget }, spent);
    }

    fn last_look(&mut self, budget: usize) {
        let Some((found, takes)) = self.take(budget) else { return };
        if found == 0 {
            self.driver.says_sleeping = true;
            let sleep = Span::from_ns(self.options.costs.sleep_ns);
            return self.goes_on(Doing::Fall, takes + sleep);
        }
        if self.driver.receiver.stays_armed() {
            return self.goes_on(Doing::Work { found }, takes);
        }
        let Some((spent, ())) = self.call(|driver, hw, _| driver.disarm(hw)) else { return };
        self.goes_on(Doing::Work { found }, takes + spent);
    }

    fn fall(&mut self) {
        let awake = self.driver.receiver.strategy() == Strategy::Awake;
        if std::mem::take(&mut self.driver.kicked) || awake {
            return self.awake();
        }
        self.driver.doing = Doing::Asleep;
        self.driver.slept_at = self.now;
        self.counts.sleeps += 1;
        self.recorder.emit(&Event::Slept(Part::Driver));
        self.cpu.sleep(self.now);
        if let Some(longest) = self.options.sleep_timeout {
            let over = Happening::SleepOver(self.counts.sleeps);
            self.queue.schedule(self.now + longest, over);
        }
    }

    /// Whether an interrupt is to be handled next; if not, it has masked and looks.
    fn wakes_up(&mut self) -> bool {
        let costs = &self.options.costs;
        let cost = costs.sleep_ns + 2 * costs.context_switch_ns + costs.handler_ns;
        let driver = &mut self.driver;
        driver.receiver.slept(driver.slept_at, self.now);
        driver.receiver.sleep_cost(Span::from_ns(cost));
        driver.kicked = false;
        self.recorder.emit(&Event::Woke(Part::Driver));
        self.awake();
        self.driver.tally > 0
    }

    /// It does not sleep after all, or no more. A handler masks; without an interrupt, nobody else does.
    fn awake(&mut self) {
        self.driver.says_sleeping = false;
        let budget = self.driver.receiver.budget();
        if self.driver.tally > 0 || self.driver.receiver.stays_armed() {
            return self.goes_on(Doing::Look { budget }, Span::ZERO);
        }
        let Some((spent, ())) = self.call(|driver, hw, _| driver.disarm(hw)) else { return };
        self.goes_on(Doing::Look { budget }, spent);
    }

    /// The driver can see an interrupt.
    pub(super) fn interrupt(&mut self) {
        if self.driver.is_dead() {
            return;
        }
        self.driver.tally += 1;
        if std::mem::take(&mut self.driver.says_sleeping) {
            self.ring(self.driver.id);
        }
    }

    pub(super) fn sleep_over(&mut self, number: u64) {
        if self.driver.doing == Doing::Asleep && number == self.counts.sleeps {
            self.cpu.wake(self.now, self.driver.id);
        }
    }

    /// A buffer is free; a driver that sleeps and lacks one is told. What that takes.
    pub(super) fn tell_starving_driver(&mut self) -> Span {
        if !self.pool.starved || !std::mem::take(&mut self.driver.says_sleeping) {
            return Span::ZERO;
        }
        self.driver.kicked = true;
        self.ring(self.driver.id);
        Span::from_ns(self.options.costs.bell_ns)
    }

    fn driver_fails(&mut self) {
        self.counts.failures += 1;
        self.recorder.emit(&Event::DriverFailed);
        self.kill(Part::Driver);
    }

    /// What the support side does when a driver is gone: it resets the device first, so that nothing
    /// reaches the buffers, and then takes them back.
    pub(super) fn driver_dies(&mut self) {
        self.cpu.remove(self.now, self.driver.id);
        let fresh = DriverTask { driver: None, ..self.fresh_driver() };
        self.driver = fresh;
        self.device.power_on(self.now);
        self.device.take_interrupts();
        self.counts.lost_by_kill += std::mem::take(&mut self.in_nic);
        for packet in std::mem::take(&mut self.given) {
            self.counts.lost_by_kill += 1;
            self.free(packet.buffer.token);
        }
        for token in self.pool.reclaim_ring() {
            self.recorder.emit(&Event::BufferFreed { token });
        }
        if !self.is_split() {
            self.lose_packets_of(0);
        }
    }

    pub(super) fn driver_starts(&mut self) {
        self.driver = self.fresh_driver();
        self.cpu.put_back(self.driver.id, true);
        self.cpu.wake(self.now, self.driver.id);
    }

    fn fresh_driver(&self) -> DriverTask {
        DriverTask::new(self.driver.id, (self.make_driver)(), self.options, self.now)
    }

    /// The driver's process is held.
    pub(super) fn stall(&mut self, held: Span) {
        if self.driver.is_dead() || self.driver.held {
            return;
        }
        self.recorder.emit(&Event::Stalled(Part::Driver));
        self.driver.held = true;
        self.away += 1;
        self.cpu.remove(self.now, self.driver.id);
        self.queue.schedule(self.now + held, Happening::GoOn);
    }

    /// It goes on, unless it has died meanwhile.
    pub(super) fn go_on(&mut self) {
        self.away -= 1;
        if std::mem::take(&mut self.driver.held) {
            self.cpu.put_back(self.driver.id, false);
            self.cpu.wake(self.now, self.driver.id);
        }
    }

    /// The driver stops its device and gives all back.
    pub(super) fn quiesce(&mut self) {
        let called = self.call(|driver, hw, sink| driver.quiesce(hw, sink, &mut |_| ()));
        if called.is_some() {
            self.recorder.emit(&Event::Quiesced);
        }
    }
}

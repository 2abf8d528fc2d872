//! The loop: what is due next happens, and then the next.
//!
//! Four things can be due: a happening on the event queue, the device by itself, a frame, and the end
//! of what the core is doing. At the same instant they come in this order. Nothing else makes time
//! pass, and nothing here knows what time it is outside.

use std::collections::VecDeque;

use warikomi_clock::{EventQueue, Span, Time};
use warikomi_inject::{Injection, Injector, Source};
use warikomi_measure::Samples;

use super::bed::Bed;
use super::cpu::{Cpu, Due, TaskId};
use super::device::Device;
use super::pool::Pool;
use super::process::Process;
use super::session::{Ground, Tap};
use super::stage::Stage;
use super::trace::{Digest, Event, Observer, Part};
use super::traffic::Bursts;
use super::{Counts, Moment, Options, Outcome, Pair, Topology, VirtualError};

/// Where the driver's rings are on the bus, and the buffers behind them.
pub(super) const RINGS: u64 = 0x10_0000;
const PAGE_BYTES: u64 = 4096;
/// Frames of a run carry this, so that what an earlier one left in a buffer is not taken for its own.
pub(super) const RUN_ID: u32 = 1;
/// The first frame comes when the driver has had time to set its device up.
const START: Span = Span::from_ms(1);
/// A part that dies more often than this has a device that does not recover.
const MOST_RESTARTS: u32 = 1_000;

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// The driver can see an interrupt of this vector.
    Interrupt(u16),
    /// A task that sleeps is called.
    Wake(TaskId),
    /// A driver that waits for the baton is called.
    WakeWaiting(TaskId),
    /// A driver has slept long enough; the number says which sleep.
    SleepOver((TaskId, u64)),
    /// Faults strike no more.
    FaultsStop,
    /// A part is held.
    Stall(Span),
    /// It goes on.
    GoOn(TaskId),
    /// A part is started again.
    Restart(Part),
    /// Something is ordered: this one of the orders.
    Order(usize),
    /// The support side looks at a replacement.
    Bed,
}

/// Tells the digest and an observer what happens.
pub(super) struct Recorder<'o> {
    pub(super) now: Time,
    pub(super) digest: Digest,
    observer: &'o mut dyn Observer,
}

impl Recorder<'_> {
    #[inline]
    pub(super) fn emit(&mut self, event: &Event) {
        self.digest.event(self.now, event);
        self.observer.event(self.now, event);
    }
}

/// The target, the card, and what is to come.
pub(super) struct World<'o> {
    pub(super) options: &'o Options,
    pub(super) pair: &'o Pair,
    pub(super) now: Time,
    pub(super) queue: EventQueue<Happening>,
    pub(super) cpu: Cpu,
    pub(super) device: Device,
    tap: Tap,
    pub(super) ground: Ground,
    pub(super) ring_bytes: u64,
    pub(super) pool: Pool,
    /// Drivers' processes, living and dead.
    pub(super) drivers: Vec<Process>,
    pub(super) bed: Bed,
    /// Packets that the driver in the application's process has found in this pass.
    pub(super) given: VecDeque<super::pool::Packet>,
    pub(super) stages: Vec<Stage>,
    /// Tasks of drivers that there have been.
    pub(super) receivers: Vec<TaskId>,
    compute: Option<TaskId>,
    injector: Injector<Arrivals>,
    pub(super) recorder: Recorder<'o>,
    pub(super) counts: Counts,
    /// Frames on the ring that the driver has not taken.
    pub(super) in_nic: u64,
    /// When each frame arrived.
    pub(super) arrived: Vec<Time>,
    pub(super) delays: Samples,
    kills: VecDeque<(Moment, Part)>,
    /// Orders that have not been given.
    pub(super) orders_left: usize,
    /// Parts that are not running at present.
    pub(super) away: u32,
    faults_on: bool,
    calm: Option<Time>,
    /// The driver is told to stop for good.
    pub(super) ending: bool,
}

/// The traffic, and what the device takes for the frame that is next.
struct Arrivals {
    bursts: Bursts,
    dma: [Span; 2],
    sizes: [usize; 2],
}

impl Source for Arrivals {
    fn count(&self) -> u64 {
        self.bursts.count()
    }
    fn packets_per_deadline(&self) -> u32 {
        1
    }
    #[inline]
    fn due(&self) -> Time {
        let dma = if self.bursts.next_bytes() == self.sizes[0] { self.dma[0] } else { self.dma[1] };
        self.bursts.due() + dma
    }
    fn advance(&mut self) {
        self.bursts.advance();
    }
    fn frame(&mut self, sequence: u64) -> warikomi_nic::Frame<'_> {
        self.bursts.frame(sequence)
    }
    fn paced(&self) -> bool {
        true
    }
}

impl Arrivals {
    fn new(options: &Options, station: [u8; 6]) -> Result<Arrivals, VirtualError> {
        let traffic = &options.traffic;
        let bursts = Bursts::new(traffic, station, RUN_ID, options.seed, Time::ZERO + START)?;
        let sizes = bursts.sizes_bytes();
        let dma = sizes.map(|bytes| options.costs.dma(bytes));
        Ok(Arrivals { bursts, dma, sizes })
    }
}

impl<'o> World<'o> {
    pub(super) fn new(
        options: &'o Options,
        pair: &'o Pair,
        observer: &'o mut dyn Observer,
    ) -> Result<World<'o>, VirtualError> {
        let rings = (pair.driver().info().ring_bytes as u64).next_multiple_of(PAGE_BYTES);
        let trouble = &options.trouble;
        let tap = Tap::default();
        let nic = pair.card(Box::new(tap.clone()));
        let station = nic.mac_address();
        let mut cpu = Cpu::new(&options.scheduler, options.costs.context_switch_ns);
        let stages = Stage::chain(options.topology, &mut cpu);
        let split = options.topology != Topology::Direct;
        let ground = Ground::new(options, rings, split, station)?;
        let device = Device::with_faults(nic, ground.memory.clone(), &trouble.faults, options.seed);
        let compute = options.compute.then(|| cpu.add());
        let arrivals = Arrivals::new(options, station)?;
        let count = arrivals.count();
        // Buffers of a channel are the channel's; of those only where they are is noted.
        let bytes = if split { 0 } else { options.buffer_bytes };
        let mut world = World {
            options,
            pair,
            now: Time::ZERO,
            queue: EventQueue::new(),
            cpu,
            pool: Pool::new(ground.buffers, options.buffers, bytes),
            drivers: Vec::new(),
            bed: Bed::new(options.way, options.strategy.to_orders()),
            given: VecDeque::new(),
            stages,
            receivers: Vec::new(),
            compute,
            injector: Injector::of(arrivals).with_slack(Span::from_ms(1_000)),
            recorder: Recorder { now: Time::ZERO, digest: Digest::new(), observer },
            counts: Counts { planned: count, ..Counts::default() },
            in_nic: 0,
            arrived: Vec::with_capacity(count as usize),
            delays: Samples::new(),
            kills: trouble.kills.iter().copied().collect(),
            orders_left: trouble.orders.len(),
            away: 0,
            faults_on: !trouble.faults.is_empty(),
            calm: None,
            ending: false,
            device,
            tap,
            ground,
            ring_bytes: rings,
        };
        world.begin()?;
        Ok(world)
    }

    /// Everybody is started, and what is to go wrong is planned.
    fn begin(&mut self) -> Result<(), VirtualError> {
        let trouble = &self.options.trouble;
        let start = Time::ZERO + START;
        if self.faults_on {
            self.device.faults(Some(start));
            self.queue.schedule(start + trouble.until, Happening::FaultsStop);
        }
        for (at, held) in &trouble.stalls {
            self.queue.schedule(start + *at, Happening::Stall(*held));
        }
        for (number, (at, _)) in trouble.orders.iter().enumerate() {
            self.queue.schedule(start + *at, Happening::Order(number));
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
        loop {
            let core = self.cpu.due();
            let (queue, device) = (self.queue.next_due(), self.device.next_due());
            let arrival = self.injector.next_due();
            let next = core.at().min(queue).min(device).min(arrival);
            if self.is_over(next) || next == Time::NEVER {
                break;
            }
            self.now = self.now.max(next);
            self.recorder.now = self.now;
            if queue <= next {
                self.happen()?;
            } else if device <= next {
                self.device.poll(self.now);
                self.pass_interrupts();
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

    fn happen(&mut self) -> Result<(), VirtualError> {
        let Some(happening) = self.queue.pop_due(self.now) else { return Ok(()) };
        match happening {
            Happening::Interrupt(vector) => self.interrupt(vector),
            Happening::Wake(task) => match self.process_of(task) {
                Some(at) => self.driver_called(at),
                None => self.cpu.wake(self.now, task),
            },
            Happening::WakeWaiting(task) => self.waiting_called(task),
            Happening::SleepOver(sleep) => self.sleep_over(sleep),
            Happening::FaultsStop => {
                self.faults_on = false;
                self.device.faults(None);
            }
            Happening::Stall(held) => self.stall(held),
            Happening::GoOn(task) => self.go_on(task),
            Happening::Restart(part) => self.restart(part)?,
            Happening::Order(number) => self.order(self.options.trouble.orders[number].1)?,
            Happening::Bed => self.look_at_replacement(),
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
        self.pass_interrupts();
    }

    /// Nothing but the running task does anything before this time.
    pub(super) fn nothing_before(&self) -> Time {
        if self.options.every_idle_look || self.calm.is_some() {
            return Time::ZERO;
        }
        let killed = match self.kills.front() {
            Some((Moment::After(span), _)) => Time::ZERO + START + *span,
            Some((Moment::Event(_) | Moment::HandOver(_), _)) | None => Time::NEVER,
        };
        let others = self.queue.next_due().min(self.device.next_due()).min(killed);
        let until = others.min(self.injector.next_due()).min(self.cpu.slice_end());
        // With nothing to wait for there would be no end to it.
        if until == Time::NEVER { Time::ZERO } else { until }
    }

    /// Interrupts that the NIC has just sent are on their way.
    #[inline]
    pub(super) fn pass_interrupts(&mut self) {
        while let Some(vector) = self.device.take_interrupt() {
            self.counts.interrupts += 1;
            self.recorder.emit(&Event::Interrupt);
            let seen = self.now + Span::from_ns(self.options.costs.interrupt_ns);
            self.queue.schedule(seen, Happening::Interrupt(vector));
        }
        if self.ground.outgoing.is_some() {
            self.look_at_wire();
        }
    }

    fn look_at_wire(&mut self) {
        while let Some(frame) = self.tap.take() {
            let outgoing = self.ground.outgoing.as_mut();
            let sequence = outgoing.and_then(|outgoing| outgoing.number_of(&frame));
            self.recorder.emit(&Event::OnWire { sequence });
        }
    }

    /// Somebody rings the bell of a task that sleeps.
    pub(super) fn ring(&mut self, task: TaskId) {
        let runs = self.now + Span::from_ns(self.options.costs.wake_up_ns);
        self.queue.schedule(runs, Happening::Wake(task));
    }

    /// Whether there is no point in going on to `next`.
    fn is_over(&mut self, next: Time) -> bool {
        let Some(calm) = self.calm else {
            if self.is_calm() {
                self.calm = Some(self.now);
                self.recorder.emit(&Event::Calm);
            }
            return false;
        };
        next > calm + self.options.trouble.bound || self.is_settled()
    }

    fn is_calm(&mut self) -> bool {
        self.injector.done()
            && !self.faults_on
            && self.away == 0
            && self.kills.is_empty()
            && self.orders_left == 0
            && self.bed.is_idle()
            && self.is_served()
            && !self.device.fault_goes_on()
    }

    fn is_settled(&mut self) -> bool {
        let session = self.ground.session.as_mut();
        if session.is_some_and(|session| session.user.ready().unwrap_or(false)) {
            return false;
        }
        self.in_nic == 0
            && self.given.is_empty()
            && self.stages.iter().all(Stage::is_settled)
            && self.ground.session.as_ref().is_none_or(|session| session.rising == 0)
            && self.ground.outgoing.as_ref().is_none_or(|it| it.outstanding().next().is_none())
            && self.is_served()
    }

    /// Whether the device has a driver that is ready.
    fn is_served(&self) -> bool {
        self.current().is_some_and(|at| self.drivers[at].is_ready())
    }

    fn kill_if_it_is_time(&mut self) {
        let due = |moment: &Moment| match *moment {
            Moment::Event(number) => self.recorder.digest.events() >= number,
            Moment::After(span) => self.now >= Time::ZERO + START + span,
            Moment::HandOver(steps) => self.bed.made_step(steps).is_some(),
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
                Moment::HandOver(steps) => self.bed.made_step(steps),
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

    /// A part is started again some time later.
    pub(super) fn restart_later(&mut self, part: Part) {
        self.away += 1;
        self.counts.restarts += 1;
        let restart = self.now + self.options.trouble.restart;
        self.queue.schedule(restart, Happening::Restart(part));
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

    /// The place of the stage that is this part.
    pub(super) fn stage_of(&self, part: Part) -> Option<usize> {
        self.stages.iter().position(|stage| stage.part == part)
    }

    fn end(mut self) -> Result<Outcome, VirtualError> {
        if let Some(calm) = self.calm
            && !self.is_settled()
        {
            // Nothing more has happened, and the time for it is over.
            self.now = self.now.max(calm + self.options.trouble.bound);
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
        let all = self.now.since(Time::ZERO).as_secs().max(1e-12);
        // What a competing job does not get is what receiving costs, switches included.
        let cpu_share = match self.compute {
            Some(job) => 1.0 - busy(job).as_secs() / all,
            None => receiving.as_secs() / all,
        };
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

//! The state of a run, and what every part of it does: bells, interrupts on their way, restarts.

use std::collections::VecDeque;

use warikomi_clock::{EventQueue, Span, Time};
use warikomi_inject::{Injector, Source};
use warikomi_measure::Samples;

use super::arrivals::{Arrivals, START};
use super::bed::Bed;
use super::cpu::{Cpu, TaskId};
use super::deadline::Deadline;
use super::device::Device;
use super::known_frames::KnownFrames;
use super::pool::{Packet, Pool};
use super::process::Process;
use super::session::{DmaLayout, Tap};
use super::stage::Stage;
use super::trace::{Digest, Event, Observer, Part};
use super::{Counts, Options, Pair, Topology, Trigger, VirtualError};
use crate::recorder::Recorder;

const PAGE_BYTES: u64 = 4096;

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuedEvent {
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
    /// Something takes the core away, for so long.
    TakeCore(Span),
    /// It gives the core back.
    GiveCoreBack,
    /// A part that was held continues.
    GoOn(TaskId),
    /// A part is started again.
    Restart(Part),
    /// Something is ordered: this one of the orders.
    Order(usize),
    /// The support side looks at a replacement.
    Bed,
}

/// The target, the card, and what is to come.
pub(super) struct World<'o> {
    pub(super) options: &'o Options,
    pub(super) pair: &'o Pair,
    pub(super) now: Time,
    pub(super) queue: EventQueue<QueuedEvent>,
    pub(super) cpu: Cpu,
    pub(super) device: Device,
    pub(super) tap: Tap,
    pub(super) dma_layout: DmaLayout,
    pub(super) ring_bytes: u64,
    pub(super) pool: Pool,
    /// Drivers' processes, living and dead.
    pub(super) drivers: Vec<Process>,
    pub(super) bed: Bed,
    /// Packets that the driver in the application's process has found in this pass.
    pub(super) given: VecDeque<Packet>,
    pub(super) stages: Vec<Stage>,
    /// Tasks of drivers that there have been.
    pub(super) receivers: Vec<TaskId>,
    pub(super) compute: Option<TaskId>,
    pub(super) injector: Injector<Arrivals>,
    pub(super) known_frames: KnownFrames,
    pub(super) recorder: Recorder<'o>,
    pub(super) counts: Counts,
    /// Frames on the ring that the driver has not taken.
    pub(super) in_nic: u64,
    /// When each frame arrived.
    pub(super) arrived: Vec<Time>,
    pub(super) delays: Samples,
    pub(super) kills: VecDeque<(Trigger, Part)>,
    /// Orders that have not been given.
    pub(super) orders_left: usize,
    /// Parts that are not running at present.
    pub(super) away: u32,
    pub(super) faults_on: bool,
    /// What was last told of the NIC's link.
    pub(super) had_link: bool,
    pub(super) settle_until: Option<Time>,
    pub(super) deadline: Deadline,
    /// The driver is told to stop for good.
    pub(super) ending: bool,
}

impl<'o> World<'o> {
    pub(super) fn new(
        options: &'o Options,
        pair: &'o Pair,
        observer: &'o mut dyn Observer,
    ) -> Result<World<'o>, VirtualError> {
        let rings = (pair.driver().info().ring_bytes as u64).next_multiple_of(PAGE_BYTES);
        let disturbances = &options.disturbances;
        let tap = Tap::default();
        let nic = pair.card(Box::new(tap.clone()));
        let station = nic.mac_address();
        let mut cpu = Cpu::new(&options.scheduler, options.costs.context_switch_ns);
        let stages = Stage::chain(options.topology, options.real_time, &mut cpu);
        let split = options.topology != Topology::Direct;
        let dma_layout = DmaLayout::new(options, rings, split, station)?;
        let device =
            Device::with_faults(nic, dma_layout.memory.clone(), &disturbances.faults, options.seed);
        let compute = options.compute.then(|| cpu.add(false));
        let arrivals = Arrivals::new(options, station)?;
        let count = arrivals.count();
        // Buffers of a channel are the channel's; of those only where they are is noted.
        let bytes = if split { 0 } else { options.buffer_bytes };
        Ok(World {
            options,
            pair,
            now: Time::ZERO,
            queue: EventQueue::new(),
            cpu,
            pool: Pool::new(dma_layout.buffers, options.buffers, bytes),
            drivers: Vec::new(),
            bed: Bed::new(options.way, options.strategy.to_orders()),
            given: VecDeque::new(),
            stages,
            receivers: Vec::new(),
            compute,
            known_frames: KnownFrames::new(arrivals.frames().clone()),
            injector: Injector::of(arrivals).with_slack(Span::from_ms(1_000)),
            recorder: Recorder { now: Time::ZERO, digest: Digest::new(), observer },
            counts: Counts { planned: count, ..Counts::default() },
            in_nic: 0,
            arrived: Vec::with_capacity(count as usize),
            delays: Samples::new(),
            kills: disturbances.kills.iter().copied().collect(),
            orders_left: disturbances.orders.len(),
            away: 0,
            had_link: true,
            faults_on: !disturbances.faults.is_empty(),
            settle_until: None,
            deadline: Deadline::new(disturbances),
            ending: false,
            device,
            tap,
            dma_layout,
            ring_bytes: rings,
        })
    }

    /// Nothing but the running task does anything before this time.
    pub(super) fn nothing_before(&self) -> Time {
        if self.options.every_idle_look || self.settle_until.is_some() {
            return Time::ZERO;
        }
        let killed = match self.kills.front() {
            Some((Trigger::After(span), _)) => Time::ZERO + START + *span,
            Some((Trigger::Event(_) | Trigger::HandOver(_), _)) | None => Time::NEVER,
        };
        let others = self.queue.next_due().min(self.device.next_due()).min(killed);
        let until = others.min(self.injector.next_due()).min(self.cpu.slice_end());
        // With nothing to wait for there would be no end to it.
        if until == Time::NEVER { Time::ZERO } else { until }
    }

    /// Interrupts that the NIC has just sent are on their way. Tells also whether it has a link, and what it has put on
    /// the wire.
    #[inline]
    pub(super) fn pass_news(&mut self) {
        while let Some(vector) = self.device.take_interrupt() {
            self.counts.interrupts += 1;
            self.recorder.emit(&Event::Interrupt);
            let seen = self.now + Span::from_ns(self.options.costs.interrupt_ns);
            self.queue.schedule(seen, QueuedEvent::Interrupt(vector));
        }
        let up = self.device.has_link();
        if std::mem::replace(&mut self.had_link, up) != up {
            self.recorder.emit(&Event::Link { up });
        }
        if let Some(outgoing) = &mut self.dma_layout.outgoing {
            self.tap.tell(outgoing, &mut self.recorder);
        }
    }

    /// Somebody rings the bell of a task that sleeps.
    pub(super) fn ring(&mut self, task: TaskId) {
        let runs = self.now + Span::from_ns(self.options.costs.wake_up_ns);
        self.queue.schedule(runs, QueuedEvent::Wake(task));
    }

    /// A part is started again some time later.
    pub(super) fn restart_later(&mut self, part: Part) {
        self.away += 1;
        self.counts.restarts += 1;
        let restart = self.now + self.options.disturbances.restart;
        self.queue.schedule(restart, QueuedEvent::Restart(part));
    }

    /// The place of the stage that is this part.
    pub(super) fn stage_of(&self, part: Part) -> Option<usize> {
        self.stages.iter().position(|stage| stage.part == part)
    }
}

//! A PCI function made of a model.

use std::any::Any;
use std::ops::Add;

use warikomi_clock::Time;
use warikomi_pci::{
    Bar, BarKind, ConfigSpace, Host, InterruptState, MsiMessage, PciFunction, Vector, Vectors,
    Width,
};

use crate::context::Lent;
use crate::counters::FunctionCounters;
use crate::register::{Register, Role};
use crate::strict::{Strict, check_read, check_write, nothing_there};
use crate::{
    Frame, Link, ModelInfo, NicContext, NicModel, Probe, Reception, ResetKind, RxCounters, RxFault,
    RxOutcome,
};
use warikomi_wire::Wire;

/// A NIC as the experiments see it: a PCI function that takes frames.
///
/// One that wraps another is recognised by its type ([`Any`]) when it is taken away again.
pub trait Nic: PciFunction + Any {
    /// The model's description.
    fn info(&self) -> &'static ModelInfo;

    /// A frame arrives from the wire.
    fn receive(&mut self, host: &mut Host<'_>, frame: Frame<'_>) -> Reception;

    /// The frames that come now are a [`Burst`](crate::Burst), which is what calls this, and for which it looks ahead.
    /// A NIC that does no more here reads the descriptor for each, and gives each to the driver at once.
    fn begin_burst(&mut self, host: &mut Host<'_>, frames: usize, bytes: usize) -> usize {
        self.look_ahead(host, frames, bytes)
    }

    /// They have all come.
    fn end_burst(&mut self, host: &mut Host<'_>) {
        let _ = host;
    }

    /// A frame arrives that was damaged on the way; see [`NicModel::frame_rx_faulty`].
    fn receive_faulty(
        &mut self,
        host: &mut Host<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception;

    /// Plugs or pulls the cable.
    fn set_link(&mut self, host: &mut Host<'_>, link: Link);

    /// What another card would find at the other end of its cable, if this one were there.
    fn offered_link(&self) -> Link;

    /// Whether it has a link: while it has none, nothing that it is to send comes to the wire. A cable that is plugged
    /// in again is none yet where the card negotiates.
    fn has_link(&self) -> bool;

    /// How many frames of a queue the driver has taken; see [`NicModel::rx_progress`].
    fn rx_queue_progress(&mut self, host: &mut Host<'_>, queue: u16, limit: usize) -> RxCounters;

    /// Free receive descriptors of a queue in a row; see [`NicModel::rx_free`].
    fn rx_queue_free(&mut self, host: &mut Host<'_>, queue: u16, limit: usize) -> usize;

    /// `frames` frames of `bytes` bytes are due soon: looks at where each queue's next ones will go, so that it is in
    /// the cache then. How many of them find a descriptor, whichever queue they are for.
    fn look_ahead(&mut self, host: &mut Host<'_>, frames: usize, bytes: usize) -> usize;

    /// How many frames the driver has taken from all queues; `limit` is for each.
    fn rx_progress(&mut self, host: &mut Host<'_>, limit: usize) -> RxCounters {
        (0..self.info().rx_queues)
            .map(|queue| self.rx_queue_progress(host, queue, limit))
            .fold(RxCounters::default(), RxCounters::add)
    }

    /// Free receive descriptors in a row that every queue has.
    fn rx_free(&mut self, host: &mut Host<'_>, limit: usize) -> usize {
        let queues = 0..self.info().rx_queues;
        queues.map(|queue| self.rx_queue_free(host, queue, limit)).min().unwrap_or(0)
    }

    /// Whether the driver has set the NIC up to receive.
    fn receiving(&self) -> bool;

    /// The address that the receive filter takes for its own.
    fn mac_address(&self) -> [u8; 6];

    /// What the register that begins at this place of a BAR holds, read by no driver: nothing is counted, noted or
    /// judged. `None` of one that is not there, or whose read is more than that.
    fn register(&mut self, host: &mut Host<'_>, bar: u8, offset: u64) -> Option<u64>;

    /// The interrupt log.
    fn probe(&mut self) -> &mut Probe;

    /// Counts since power-on.
    fn counters(&self) -> FunctionCounters;

    /// Power-on reset: the target is starting again.
    fn power_on(&mut self, host: &mut Host<'_>);

    /// What it knows of steps that a driver must not take; `None` if the card is not strict.
    fn strict(&mut self) -> Option<&mut Strict> {
        None
    }

    /// The wire.
    fn wire(&mut self) -> &mut dyn Wire;

    /// When [`PciFunction::poll`] has something to do next; [`Time::NEVER`] if nothing is to come by
    /// itself. Whoever runs in virtual time goes there at once.
    fn next_due(&self) -> Time;
}

/// Configuration space, interrupt state, timers and a wire around a [`NicModel`].
pub struct NicFunction<M> {
    model: M,
    info: &'static ModelInfo,
    config: ConfigSpace,
    /// For each BAR, what it decodes and how many bytes.
    decoded: [Option<(BarKind, u64)>; 6],
    lent: Lent,
}

/// Received master abort, in the status register (PCI 3.0, 6.2.3).
const STATUS_MASTER_ABORT: u16 = 0x2000;

/// Frames that the wire may deliver in one poll: enough to keep up, few enough to come back soon.
const WIRE_FRAMES_PER_POLL: usize = 16;

/// What a read gives when nothing answers: the bus floats high (PCI 3.0, 3.7.4.1).
const ALL_ONES: u64 = u64::MAX;

impl<M: NicModel> NicFunction<M> {
    /// A function at power-on.
    pub fn new(model: M, wire: Box<dyn Wire>) -> Self {
        let (info, config) = (model.info(), model.config_space());
        NicFunction {
            model,
            info,
            decoded: decoded(config.bars()),
            lent: Lent::new(&config, wire),
            config,
        }
    }

    /// The function, which names the steps that a driver must not take if `strict` is set.
    pub fn made_strict(mut self, strict: bool) -> Self {
        self.lent.strict = strict.then(|| Box::new(Strict::new(self.info.registers)));
        self
    }

    #[inline]
    fn with_model<R>(
        &mut self,
        host: &mut Host<'_>,
        call: impl FnOnce(&mut M, &mut NicContext<'_>) -> R,
    ) -> R {
        call(&mut self.model, &mut NicContext::new(host, &mut self.lent))
    }

    /// Whether the function answers to this access.
    #[inline]
    fn decodes(&mut self, bar: u8, offset: u64, width: Width) -> bool {
        let decoded = match self.decoded.get(usize::from(bar)) {
            Some(&Some((kind, bytes))) => {
                let end = offset.checked_add(width.bytes() as u64);
                let on = if kind == BarKind::Io {
                    self.lent.command.io
                } else {
                    self.lent.command.memory
                };
                on && end.is_some_and(|end| end <= bytes)
            }
            _ => false,
        };
        self.lent.counters.stray += u64::from(!decoded);
        decoded
    }

    /// A transfer that met nothing is told in the status register (PCI 3.0, 6.2.3, received master abort).
    fn take_master_abort(&mut self) {
        if std::mem::take(&mut self.lent.master_abort) {
            self.config.set_status(STATUS_MASTER_ABORT);
        }
    }

    /// An access that nothing answers.
    #[cold]
    fn stray(&mut self, host: &mut Host<'_>, at: (u8, u64, Width)) {
        let decoding = self.lent.command.memory;
        self.with_model(host, |_, cx| nothing_there(cx, at, decoding));
    }

    /// Strict: what stands against a read of registers that gave `value`.
    #[cold]
    fn judge_read(&mut self, host: &mut Host<'_>, at: (u8, u64, Width), value: u64) {
        let registers = self.info.registers;
        self.with_model(host, |_, cx| check_read(cx, registers, at, value));
    }

    /// Strict: what stands against a write to registers, and against the descriptors at this moment.
    #[cold]
    fn judge_write(&mut self, host: &mut Host<'_>, at: (u8, u64, Width), value: u64) {
        let registers = self.info.registers;
        self.with_model(host, |model, cx| {
            model.inspect(cx);
            check_write(cx, registers, at, value, |cx, row| {
                let width = Width::from_bytes(row.width.into());
                width.map_or(0, |width| model.reg_read(cx, row.bar, row.offset.into(), width))
            });
        });
    }

    /// Strict: what stands against the descriptors before a frame comes or a timer is run.
    #[cold]
    fn inspect(&mut self, host: &mut Host<'_>) {
        self.with_model(host, |model, cx| model.inspect(cx));
    }

    /// When the next frame comes, from outside or by the PHY's loopback.
    #[inline]
    fn next_arrival(&self) -> Time {
        if self.lent.loopback.has_frame() { Time::ZERO } else { self.lent.wire.next_arrival() }
    }

    /// The next one that has come. What comes from outside is lost in loopback.
    #[inline]
    fn arrived(&mut self, now: Time) -> Option<Vec<u8>> {
        let from_outside = self.lent.wire.receive(now);
        if self.lent.loopback.is_on() { self.lent.loopback.next() } else { from_outside }
    }

    /// A frame comes to the model: one place for all, so that the model's whole way of a frame is inlined here.
    #[inline(never)]
    fn take(&mut self, host: &mut Host<'_>, frame: Frame<'_>) -> Reception {
        if self.lent.strict.is_some() {
            self.inspect(host);
        }
        self.with_model(host, |model, cx| model.frame_rx(cx, frame))
    }

    /// Strict: time passes.
    #[cold]
    fn judge_time(&mut self, now: Time) {
        if let Some(strict) = &mut self.lent.strict {
            strict.pass(now, |vector| self.lent.interrupts.is_high(vector));
        }
    }
}

/// What each BAR decodes, by its number.
fn decoded(bars: &[Bar]) -> [Option<(BarKind, u64)>; 6] {
    let of = |index| bars.iter().find(|bar| bar.index == index).map(|bar| (bar.kind, bar.bytes));
    [0, 1, 2, 3, 4, 5].map(of)
}

impl<M: NicModel + 'static> PciFunction for NicFunction<M> {
    fn bars(&self) -> &[Bar] {
        self.config.bars()
    }

    fn vectors(&self) -> Vectors {
        self.config.vectors()
    }

    fn message(&self, vector: Vector) -> Option<MsiMessage> {
        self.lent.interrupts.message(vector)
    }

    fn config_read(&mut self, offset: u16, width: Width) -> u64 {
        self.take_master_abort();
        self.config.set_interrupt_status(self.lent.interrupts.wants_wire());
        self.config.set_msi_pending(self.lent.interrupts.pending());
        self.config.read(offset, width)
    }

    fn config_write(&mut self, host: &mut Host<'_>, offset: u16, width: Width, value: u64) {
        // What is cleared is what has been until now.
        self.take_master_abort();
        self.config.write(offset, width, value);
        self.lent.command = self.config.command();
        self.lent.interrupts.configure(&self.config, host.interrupts);
        self.with_model(host, |model, cx| model.interrupts_configured(cx));
    }

    #[inline]
    fn bar_read(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width) -> u64 {
        if !self.decodes(bar, offset, width) {
            self.stray(host, (bar, offset, width));
            return ALL_ONES & width.mask();
        }
        self.lent.counters.reads += 1;
        if let Some(value) = self.lent.interrupts.msix_read(bar, offset, width) {
            return value;
        }
        for role in self.info.roles(bar, offset, width) {
            if let Role::Status(vector) = role {
                self.lent.probe.status_read(vector, host.now);
            }
        }
        let value = self.with_model(host, |model, cx| model.reg_read(cx, bar, offset, width));
        let value = value & width.mask();
        if self.lent.strict.is_some() {
            self.judge_read(host, (bar, offset, width), value);
        }
        value
    }

    #[inline]
    fn bar_write(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width, value: u64) {
        if !self.decodes(bar, offset, width) {
            return self.stray(host, (bar, offset, width));
        }
        self.lent.counters.writes += 1;
        let value = value & width.mask();
        if self.lent.interrupts.msix_write((bar, offset), width, value, &mut *host.interrupts) {
            return self.with_model(host, |model, cx| model.interrupts_configured(cx));
        }
        if self.lent.strict.is_some() {
            self.judge_write(host, (bar, offset, width), value);
        }
        let mut roles = self.info.roles(bar, offset, width);
        let rings = roles.any(|role| matches!(role, Role::Doorbell(_)));
        self.lent.counters.doorbells += u64::from(rings);
        self.with_model(host, |model, cx| model.reg_write(cx, bar, offset, width, value));
    }

    #[inline]
    fn poll(&mut self, host: &mut Host<'_>) {
        if self.lent.strict.is_some() {
            self.judge_time(host.now);
        }
        while let Some(tag) = self.lent.timers.pop_due(host.now) {
            if self.lent.strict.is_some() {
                self.inspect(host);
            }
            self.with_model(host, |model, cx| model.timer(cx, tag));
        }
        if self.next_arrival() > host.now {
            return;
        }
        for _ in 0..WIRE_FRAMES_PER_POLL {
            let Some(bytes) = self.arrived(host.now) else { return };
            let Reception { outcome, .. } = self.take(host, Frame::new(&bytes));
            // To find no room may take a look at the whole ring, which is enough for one poll.
            if outcome == RxOutcome::NoDescriptor {
                return;
            }
        }
    }
}

impl<M: NicModel + 'static> Nic for NicFunction<M> {
    fn info(&self) -> &'static ModelInfo {
        self.info
    }

    #[inline]
    fn receive(&mut self, host: &mut Host<'_>, frame: Frame<'_>) -> Reception {
        if self.lent.loopback.is_on() {
            return Reception::first(RxOutcome::NotReceiving);
        }
        self.take(host, frame)
    }

    fn begin_burst(&mut self, host: &mut Host<'_>, frames: usize, bytes: usize) -> usize {
        // A strict card compares what each frame finds with what the frame before it has left.
        if self.lent.strict.is_none() {
            self.lent.held.open();
        }
        self.look_ahead(host, frames, bytes)
    }

    fn end_burst(&mut self, host: &mut Host<'_>) {
        self.lent.held.close();
        self.with_model(host, |_, cx| cx.write_held());
        // What was read for it is forgotten.
        self.look_ahead(host, 0, 0);
    }

    fn receive_faulty(
        &mut self,
        host: &mut Host<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception {
        if self.lent.loopback.is_on() {
            return Reception::first(RxOutcome::NotReceiving);
        }
        if self.lent.strict.is_some() {
            self.inspect(host);
        }
        self.with_model(host, |model, cx| model.frame_rx_faulty(cx, frame, fault))
    }

    fn set_link(&mut self, host: &mut Host<'_>, link: Link) {
        host.interrupts.work_ahead();
        self.with_model(host, |model, cx| model.set_link(cx, link));
    }

    fn offered_link(&self) -> Link {
        self.model.offered_link()
    }

    fn has_link(&self) -> bool {
        self.model.has_link()
    }

    fn rx_queue_progress(&mut self, host: &mut Host<'_>, queue: u16, limit: usize) -> RxCounters {
        self.with_model(host, |model, cx| model.rx_progress(cx, queue, limit))
    }

    fn rx_queue_free(&mut self, host: &mut Host<'_>, queue: u16, limit: usize) -> usize {
        self.with_model(host, |model, cx| model.rx_free(cx, queue, limit))
    }

    fn look_ahead(&mut self, host: &mut Host<'_>, frames: usize, bytes: usize) -> usize {
        let queues = 0..self.info.rx_queues;
        self.with_model(host, |model, cx| {
            queues.map(|queue| model.rx_look_ahead(cx, queue, frames, bytes)).min().unwrap_or(0)
        })
    }

    fn receiving(&self) -> bool {
        self.model.receiving()
    }

    fn mac_address(&self) -> [u8; 6] {
        self.model.mac_address()
    }

    fn register(&mut self, host: &mut Host<'_>, bar: u8, offset: u64) -> Option<u64> {
        let is_it = |row: &&Register| row.bar == bar && u64::from(row.offset) == offset;
        let row = self.info.registers.iter().find(is_it)?;
        if row.is_empty() || !row.access.is_looked_at() {
            return None;
        }
        // Of a width that no access has, the next one.
        let bytes = usize::from(row.width);
        let width = Width::from_bytes(bytes.next_power_of_two())?;
        let value = self.with_model(host, |model, cx| model.reg_read(cx, bar, offset, width));
        Some(value & (u64::MAX >> (64 - 8 * bytes)))
    }

    fn probe(&mut self) -> &mut Probe {
        &mut self.lent.probe
    }

    fn counters(&self) -> FunctionCounters {
        FunctionCounters { interrupts: self.lent.interrupts.raised(), ..self.lent.counters }
    }

    fn strict(&mut self) -> Option<&mut Strict> {
        self.lent.strict.as_deref_mut()
    }

    fn power_on(&mut self, host: &mut Host<'_>) {
        self.with_model(host, |model, cx| model.reset(cx, ResetKind::PowerOn));
        for vector in 0..self.config.vectors().count() {
            self.lent.interrupts.set_level(Vector(vector), false, &mut *host.interrupts);
        }
        self.lent.timers.clear();
        self.lent.loopback.set(false);
        self.lent.master_abort = false;
        self.config = self.model.config_space();
        self.lent.command = self.config.command();
        self.lent.interrupts = InterruptState::new(&self.config);
    }

    fn wire(&mut self) -> &mut dyn Wire {
        &mut *self.lent.wire
    }

    fn next_due(&self) -> Time {
        self.lent.timers.next_due().min(self.next_arrival())
    }
}

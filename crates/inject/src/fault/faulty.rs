//! A NIC around a NIC, in which things go wrong.

use std::any::Any;
use std::collections::VecDeque;

use warikomi_clock::{Span, Time};
use warikomi_nic::{Frame, Link, Nic, Reception, RxFault, RxOutcome, forward_nic};
use warikomi_pci::{
    Bar, DmaError, DmaMemory, Host, Interrupt, IntrLine, MsiMessage, PciFunction, Vector, Vectors,
    Width,
};

use super::{FaultKind, FaultSchedule, FaultTrigger};

/// What a read gives when nothing answers.
const ALL_ONES: u64 = u64::MAX;

/// The partner at the other end of a cable that is plugged in again.
const PARTNER: Link = Link::Up { mbps: 1_000 };

/// A NIC with faults. It behaves as the NIC in it until its schedule starts.
pub struct Faulty {
    nic: Box<dyn Nic>,
    schedule: FaultSchedule,
    /// Interrupts that are held back, and until when.
    delayed: VecDeque<(Time, Interrupt)>,
    storms: Vec<Storm>,
    /// When the cable is plugged in again.
    link_back: Option<Time>,
    gone: bool,
    /// When the card is plugged in again.
    plugged_in: Option<Time>,
    /// How often it was.
    replugs: u64,
}

#[derive(Clone, Copy)]
struct Storm {
    vector: Vector,
    next: Time,
    left: u32,
    every: Span,
}

impl Faulty {
    /// Puts the schedule around a NIC.
    pub fn new(nic: Box<dyn Nic>, schedule: FaultSchedule) -> Faulty {
        Faulty {
            nic,
            schedule,
            delayed: VecDeque::new(),
            storms: Vec::new(),
            link_back: None,
            gone: false,
            plugged_in: None,
            replugs: 0,
        }
    }

    /// The faulty NIC that this one is, if it is one.
    pub fn of(nic: &mut dyn Nic) -> Option<&mut Faulty> {
        (nic as &mut dyn Any).downcast_mut()
    }

    /// The schedule, to be started, stopped, counted or replaced.
    pub fn schedule(&mut self) -> &mut FaultSchedule {
        &mut self.schedule
    }

    /// Whether something that has begun is not over: an interrupt held back, a storm, a cable or a card
    /// that is out.
    pub fn is_busy(&self) -> bool {
        let is_out = self.link_back.is_some() || self.plugged_in.is_some();
        is_out || !self.delayed.is_empty() || !self.storms.is_empty()
    }

    /// How often the card was pulled out and plugged in again.
    pub fn replugs(&self) -> u64 {
        self.replugs
    }

    /// Whether the device has vanished.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Calls the NIC with interrupts that may go wrong.
    fn with<R>(
        &mut self,
        host: &mut Host<'_>,
        call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R,
    ) -> R {
        let Faulty { nic, schedule, delayed, .. } = self;
        let mut line = FaultyLine { line: &mut *host.interrupts, now: host.now, schedule, delayed };
        call(&mut **nic, &mut Host { interrupts: &mut line, ..*host })
    }

    /// What begins by itself. Whether it did.
    fn begin(&mut self, host: &mut Host<'_>, kind: FaultKind) -> bool {
        match kind {
            FaultKind::InterruptSpurious { vector } => return self.interrupt(host, Vector(vector)),
            FaultKind::InterruptStorm { vector, count, every } => {
                let vector = Vector(vector);
                self.storms.push(Storm { vector, next: host.now, left: count, every });
            }
            FaultKind::LinkFlap { down_for } => {
                self.link_back = Some(host.now + down_for);
                self.with(host, |nic, host| nic.set_link(host, Link::Down));
            }
            FaultKind::DeviceGone => {
                if std::mem::replace(&mut self.gone, true) {
                    return false;
                }
                self.delayed.clear();
                self.storms.clear();
            }
            FaultKind::DeviceUnplugged { out_for } => {
                if self.gone || !host.interrupts.has_hotplug() {
                    return false;
                }
                // Without power it asserts no interrupt and does nothing that it had in hand.
                self.power_on(host);
                self.gone = true;
                self.plugged_in = Some(host.now + out_for);
                host.interrupts.set_present(false);
            }
            _ => return false,
        }
        true
    }

    /// Plugs the card in again when it is time.
    fn continue_absence(&mut self, host: &mut Host<'_>) {
        if self.plugged_in.is_some_and(|due| due <= host.now) {
            self.plugged_in = None;
            self.gone = false;
            self.replugs += 1;
            self.power_on(host);
            host.interrupts.set_present(true);
        }
    }

    /// Sends an interrupt without a reason; `false` while the driver has not asked for messages.
    fn interrupt(&mut self, host: &mut Host<'_>, vector: Vector) -> bool {
        let message = self.nic.message(vector);
        if let Some(message) = message {
            host.interrupts.signal_any_time(Interrupt::Msi(message));
        }
        message.is_some()
    }

    /// Goes on with what has begun.
    fn continue_faults(&mut self, host: &mut Host<'_>) {
        while self.delayed.front().is_some_and(|(due, _)| *due <= host.now) {
            if let Some((_, interrupt)) = self.delayed.pop_front() {
                host.interrupts.signal_any_time(interrupt);
            }
        }
        if self.link_back.is_some_and(|due| due <= host.now) {
            self.link_back = None;
            self.with(host, |nic, host| nic.set_link(host, PARTNER));
        }
        // One of each storm in a call, so that the target is served in between.
        for at in 0..self.storms.len() {
            if self.storms[at].next <= host.now {
                self.interrupt(host, self.storms[at].vector);
                let storm = &mut self.storms[at];
                (storm.next, storm.left) = (storm.next + storm.every, storm.left - 1);
            }
        }
        self.storms.retain(|storm| storm.left > 0);
    }

    /// A frame on which a fault strikes. The fault counts if it made a difference.
    fn receive_with_frame_fault(
        &mut self,
        host: &mut Host<'_>,
        frame: Frame<'_>,
        (place, kind): (usize, FaultKind),
    ) -> Reception {
        let rx_fault = match kind {
            FaultKind::DescriptorNeverCompleted => RxFault::NeverCompleted,
            FaultKind::DescriptorCompletedLate { by } => RxFault::CompletedLate(by),
            FaultKind::DescriptorError(error) => RxFault::Reported(error),
            FaultKind::DescriptorLength { bytes } => RxFault::Length(bytes),
            FaultKind::DmaError => {
                let mut unreachable =
                    Host { memory: &Unreachable, interrupts: &mut *host.interrupts, ..*host };
                let reception = self.with(&mut unreachable, |nic, host| nic.receive(host, frame));
                if reception == RxOutcome::DmaError {
                    self.schedule.record_strike(place, host.now);
                }
                return reception;
            }
            other => {
                if self.begin(host, other) {
                    self.schedule.record_strike(place, host.now);
                }
                return self.receive_sound(host, frame);
            }
        };
        let reception = self.with(host, |nic, host| nic.receive_faulty(host, frame, rx_fault));
        if reception.outcome.is_on_ring() || reception == RxOutcome::NotCompleted {
            self.schedule.record_strike(place, host.now);
        }
        reception
    }

    fn receive_sound(&mut self, host: &mut Host<'_>, frame: Frame<'_>) -> Reception {
        if self.gone {
            return Reception::first(RxOutcome::NotReceiving);
        }
        self.with(host, |nic, host| nic.receive(host, frame))
    }
}

impl PciFunction for Faulty {
    fn bars(&self) -> &[Bar] {
        self.nic.bars()
    }

    fn vectors(&self) -> Vectors {
        self.nic.vectors()
    }

    fn message(&self, vector: Vector) -> Option<MsiMessage> {
        self.nic.message(vector)
    }

    fn config_read(&mut self, offset: u16, width: Width) -> u64 {
        if self.gone { ALL_ONES & width.mask() } else { self.nic.config_read(offset, width) }
    }

    fn config_write(&mut self, host: &mut Host<'_>, offset: u16, width: Width, value: u64) {
        if !self.gone {
            self.with(host, |nic, host| nic.config_write(host, offset, width, value));
        }
    }

    fn bar_read(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width) -> u64 {
        if self.gone {
            return ALL_ONES & width.mask();
        }
        self.with(host, |nic, host| nic.bar_read(host, bar, offset, width))
    }

    fn bar_write(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width, value: u64) {
        if !self.gone {
            self.with(host, |nic, host| nic.bar_write(host, bar, offset, width, value));
        }
    }

    fn poll(&mut self, host: &mut Host<'_>) {
        if self.gone {
            return self.continue_absence(host);
        }
        if let Some((place, kind)) = self.schedule.strikes(FaultTrigger::Time, host.now)
            && self.begin(host, kind)
        {
            self.schedule.record_strike(place, host.now);
        }
        self.continue_faults(host);
        if !self.gone {
            self.with(host, |nic, host| nic.poll(host));
        }
    }
}

impl Nic for Faulty {
    forward_nic! {
        info, rx_queue_progress, rx_queue_free, look_ahead, mac_address, register, probe,
        counters, strict, wire, offered_link, has_link
    }

    fn receive(&mut self, host: &mut Host<'_>, frame: Frame<'_>) -> Reception {
        if self.gone {
            return Reception::first(RxOutcome::NotReceiving);
        }
        match self.schedule.strikes(FaultTrigger::Frame, host.now) {
            None => self.receive_sound(host, frame),
            Some(struck) => self.receive_with_frame_fault(host, frame, struck),
        }
    }

    /// Damaged by somebody else, and not by us, too.
    fn receive_faulty(
        &mut self,
        host: &mut Host<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception {
        if self.gone {
            return Reception::first(RxOutcome::NotReceiving);
        }
        self.with(host, |nic, host| nic.receive_faulty(host, frame, fault))
    }

    fn set_link(&mut self, host: &mut Host<'_>, link: Link) {
        self.with(host, |nic, host| nic.set_link(host, link));
    }

    fn receiving(&self) -> bool {
        !self.gone && self.nic.receiving()
    }

    fn power_on(&mut self, host: &mut Host<'_>) {
        self.delayed.clear();
        self.storms.clear();
        self.nic.power_on(host);
    }

    fn next_due(&self) -> Time {
        if self.gone {
            return self.plugged_in.unwrap_or(Time::NEVER);
        }
        let delayed = self.delayed.front().map_or(Time::NEVER, |(due, _)| *due);
        let storms = self.storms.iter().map(|storm| storm.next).min().unwrap_or(Time::NEVER);
        let link = self.link_back.unwrap_or(Time::NEVER);
        let begins = self.schedule.next_due();
        delayed.min(storms).min(link).min(begins).min(self.nic.next_due())
    }
}

/// Interrupts on their way to the target.
struct FaultyLine<'a> {
    line: &'a mut dyn IntrLine,
    now: Time,
    schedule: &'a mut FaultSchedule,
    delayed: &'a mut VecDeque<(Time, Interrupt)>,
}

impl IntrLine for FaultyLine<'_> {
    fn signal(&mut self, interrupt: Interrupt) {
        let struck = match interrupt {
            Interrupt::Msi(_) => self.schedule.strikes(FaultTrigger::Interrupt, self.now),
            Interrupt::Intx(_) => None,
        };
        let Some((place, kind)) = struck else { return self.line.signal(interrupt) };
        self.schedule.record_strike(place, self.now);
        match kind {
            FaultKind::InterruptDropped => {}
            FaultKind::InterruptDelayed { by } => {
                let due = self.now + by;
                let behind = self.delayed.partition_point(|(other, _)| *other <= due);
                self.delayed.insert(behind, (due, interrupt));
            }
            _ => {
                self.line.signal(interrupt);
                self.line.signal_any_time(interrupt);
            }
        }
    }

    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.line.signal_any_time(interrupt);
    }

    fn work_ahead(&mut self) {
        self.line.work_ahead();
    }

    fn interrupt_now(&mut self) {
        self.line.interrupt_now();
    }

    fn has_hotplug(&self) -> bool {
        self.line.has_hotplug()
    }

    fn set_present(&mut self, present: bool) {
        self.line.set_present(present);
    }
}

/// Memory that answers nobody.
struct Unreachable;

impl DmaMemory for Unreachable {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        Err(DmaError::NotShared { address, len: into.len() })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        Err(DmaError::NotShared { address, len: from.len() })
    }

    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        Err(DmaError::NotShared { address, len: 4 })
    }

    fn store_u32(&self, address: u64, _: u32) -> Result<(), DmaError> {
        Err(DmaError::NotShared { address, len: 4 })
    }
}

#[cfg(test)]
mod tests;

//! The device and the one clock of what drives it: register accesses and work make time pass, and what
//! the device does by then is done.

use std::cell::RefCell;
use std::collections::VecDeque;

use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::{CostClock, Work};
use warikomi_nic::Nic;
use warikomi_pci::{Mmio, MmioError, SharedMemory, Width};
use warikomi_stack::buffers::BufferKind;

use super::SendCosts;
use crate::device::Device;
use crate::trace::Digest;

/// What goes into the digest of a history, with two numbers each.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum DigestEntry {
    /// A register was read: its offset, the value.
    Read = 0,
    /// A register write set out: its offset, the value.
    Write = 1,
    /// The device sent an interrupt.
    Interrupt = 2,
    /// The sender was told of interrupts.
    Notified = 3,
    /// The sender sleeps.
    Slept = 4,
    /// The sender is awake.
    Woke = 5,
    /// Frames are on the wire: how many so far, their bytes.
    Sent = 6,
    /// It is held: until when, in picoseconds.
    Held = 7,
}

/// The device, the time, and what has happened.
pub(super) struct Machine {
    now: Time,
    device: Device,
    costs: SendCosts,
    buffers: BufferKind,
    /// When interrupts that are on their way can be seen.
    coming: VecDeque<Time>,
    /// The device does nothing by itself before this time.
    device_held: Time,
    frames: u64,
    pub(super) digest: Digest,
}

impl Machine {
    pub(super) fn new(
        nic: Box<dyn Nic>,
        memory: SharedMemory,
        costs: SendCosts,
        buffers: BufferKind,
    ) -> Machine {
        Machine {
            now: Time::ZERO,
            device: Device::with_nic(nic, memory),
            costs,
            buffers,
            coming: VecDeque::new(),
            device_held: Time::ZERO,
            frames: 0,
            digest: Digest::new(),
        }
    }

    #[inline]
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Lets the device do nothing by itself before `until`.
    pub(super) fn hold_device(&mut self, until: Time) {
        self.device_held = self.device_held.max(until);
        self.note(DigestEntry::Held, until.as_ps(), 1);
    }

    /// Something keeps the sender's core until `until`.
    pub(super) fn hold_sender(&mut self, until: Time) {
        self.note(DigestEntry::Held, until.as_ps(), 0);
        self.advance(until);
    }

    /// Whether an interrupt can be seen. All that can be are taken: it is one level.
    #[inline]
    pub(super) fn take_interrupt(&mut self) -> bool {
        let mut seen = false;
        while self.coming.front().is_some_and(|&at| at <= self.now) {
            self.coming.pop_front();
            seen = true;
        }
        if seen {
            self.note(DigestEntry::Notified, 0, 0);
        }
        seen
    }

    /// Lets time pass until an interrupt can be seen, but not beyond `until`; `false` if nothing will ever
    /// happen.
    pub(super) fn wait(&mut self, until: Time) -> bool {
        loop {
            let seen = self.coming.front().copied().unwrap_or(Time::NEVER);
            let device = self.device_due();
            let next = seen.min(device).min(until);
            if next == Time::NEVER {
                return false;
            }
            self.advance(next.max(self.now));
            if next == until || next == seen {
                return true;
            }
        }
    }

    /// Sleeps until an interrupt can be seen; `false` if none ever will.
    pub(super) fn sleep(&mut self) -> bool {
        self.note(DigestEntry::Slept, 0, 0);
        let woken = self.wait(Time::NEVER);
        self.pass(Span::from_ns(self.costs.wake_up_ns));
        self.note(DigestEntry::Woke, 0, 0);
        woken
    }

    fn device_due(&self) -> Time {
        self.device.next_due().max(self.device_held)
    }

    #[inline]
    fn pass(&mut self, span: Span) {
        self.advance(self.now + span);
    }

    /// Time passes, and what the device does until then is done.
    #[inline]
    fn advance(&mut self, to: Time) {
        loop {
            let due = self.device_due();
            if due > to {
                break;
            }
            self.now = self.now.max(due);
            self.device.poll(self.now);
            self.look_at_device();
        }
        self.now = self.now.max(to);
    }

    /// Interrupts that the device has sent are on their way, and frames are on the wire.
    fn look_at_device(&mut self) {
        let latency = Span::from_ns(self.costs.interrupt_ns);
        while self.device.take_interrupt().is_some() {
            self.coming.push_back(self.now + latency);
            self.note(DigestEntry::Interrupt, 0, 0);
        }
        let counters = self.device.wire_counters();
        if counters.tx_frames != self.frames {
            self.frames = counters.tx_frames;
            self.note(DigestEntry::Sent, counters.tx_frames, counters.tx_bytes);
        }
    }

    #[inline]
    fn note(&mut self, what: DigestEntry, first: u64, second: u64) {
        self.digest.add(self.now, (what as u8, first, second));
    }
}

/// The clock of a run in virtual time.
pub(super) struct VirtualCostClock<'m>(pub(super) &'m RefCell<Machine>);

impl CostClock for VirtualCostClock<'_> {
    #[inline]
    fn now(&mut self) -> Time {
        self.0.borrow().now
    }

    #[inline]
    fn spend(&mut self, work: Work) {
        let mut machine = self.0.borrow_mut();
        let span = machine.costs.of(work, machine.buffers);
        machine.pass(span);
    }
}

/// The registers.
pub(super) struct Registers<'m>(pub(super) &'m RefCell<Machine>);

impl Mmio for Registers<'_> {
    fn register_bar(&self) -> u8 {
        self.0.borrow().device.bar()
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        let mut machine = self.0.borrow_mut();
        let takes = Span::from_ns(machine.costs.register_read_ns);
        machine.pass(takes);
        let now = machine.now;
        let value = machine.device.read(now, (bar, offset), width);
        machine.note(DigestEntry::Read, offset, value);
        machine.look_at_device();
        Ok(value)
    }

    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        let mut machine = self.0.borrow_mut();
        let takes = Span::from_ns(machine.costs.register_write_ns);
        machine.pass(takes);
        machine.note(DigestEntry::Write, offset, value);
        let takes_effect = machine.now + Span::from_ns(machine.costs.register_posted_ns);
        machine.device.post(takes_effect, (bar, offset), width, value);
        Ok(())
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        let mut machine = self.0.borrow_mut();
        let now = machine.now;
        Ok(machine.device.with(now, |nic, _| nic.config_read(offset, width)))
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        let mut machine = self.0.borrow_mut();
        let now = machine.now;
        machine.device.with(now, |nic, host| nic.config_write(host, offset, width, value));
        Ok(())
    }
}

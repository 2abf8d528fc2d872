//! A NIC around a NIC that puts on a tape what passes. It is there from the first packet until the driver has
//! taken the last, so runs that are not recorded pay nothing.

use std::any::Any;
use std::rc::Rc;

use warikomi_clock::Time;
use warikomi_nic::{Frame, Link, Nic, Reception, RxFault, forward_nic};
use warikomi_pci::{
    Bar, DmaError, DmaMemory, Host, Interrupt, IntrLine, MsiMessage, PciFunction, Vector, Vectors,
    Width,
};

use super::event::{Access, Kind, fault_numbers, link_number, message_number};
use super::tape::Tape;

/// Records what passes between a NIC and its target, and changes nothing of it.
///
/// What we look up for our own account ([`Nic::rx_progress`], [`Nic::rx_free`]) is not recorded, nor
/// are reads of configuration space, which come without a time.
/// What a wire delivers to the NIC, or takes from it, passes behind this: its transfers and interrupts
/// are recorded, the frames themselves not.
pub struct Recorded {
    nic: Box<dyn Nic>,
    tape: Rc<Tape>,
    /// The message of each vector, as it was when the vector last had one.
    messages: Vec<Option<MsiMessage>>,
}

impl Recorded {
    /// Puts a recorder around `nic`.
    pub fn around(nic: Box<dyn Nic>, tape: Rc<Tape>) -> Box<dyn Nic> {
        let messages = vec![None; nic.vectors().count().into()];
        let mut recorded = Recorded { nic, tape, messages };
        recorded.look_up_messages();
        Box::new(recorded)
    }

    /// To be called when the driver's system may have set messages up.
    fn look_up_messages(&mut self) {
        for (vector, known) in (0..).map(Vector).zip(&mut self.messages) {
            *known = self.nic.message(vector).or(*known);
        }
    }

    /// Whether this is a recorder around a NIC.
    pub fn is(nic: &dyn Nic) -> bool {
        let nic: &dyn Any = nic;
        nic.is::<Recorded>()
    }

    /// Takes a recorder away again; any other NIC stays as it is.
    pub fn removed(nic: Box<dyn Nic>) -> Box<dyn Nic> {
        if !Recorded::is(&*nic) {
            return nic;
        }
        let any: Box<dyn Any> = nic;
        match any.downcast::<Recorded>() {
            Ok(recorded) => recorded.nic,
            Err(_) => unreachable!("its type has just been looked at"),
        }
    }

    /// Carries out one call, with recorders around what the host offers.
    #[inline]
    fn watched<R>(
        &mut self,
        host: &mut Host<'_>,
        call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R,
    ) -> R {
        let (tape, now, messages) = (&*self.tape, host.now, &*self.messages);
        let memory = WatchedMemory { memory: host.memory, tape, now };
        let mut interrupts = WatchedLine { line: &mut *host.interrupts, tape, now, messages };
        let mut host = Host { now, memory: &memory, interrupts: &mut interrupts, looks: None };
        call(&mut *self.nic, &mut host)
    }
}

struct WatchedMemory<'a> {
    memory: &'a dyn DmaMemory,
    tape: &'a Tape,
    now: Time,
}

impl WatchedMemory<'_> {
    #[inline]
    fn note<T>(
        &self,
        kind: Kind,
        address: u64,
        len: u64,
        done: Result<T, DmaError>,
        number: impl FnOnce(&T) -> u64,
    ) -> Result<T, DmaError> {
        match &done {
            Ok(value) => self.tape.put(kind, self.now, address, number(value)),
            Err(_) => self.tape.put(Kind::DmaFailed, self.now, address, len),
        }
        done
    }
}

impl DmaMemory for WatchedMemory<'_> {
    #[inline]
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        let len = into.len() as u64;
        self.note(Kind::DmaRead, address, len, self.memory.read(address, into), |_| len)
    }

    #[inline]
    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        let len = from.len() as u64;
        self.note(Kind::DmaWrite, address, len, self.memory.write(address, from), |_| len)
    }

    #[inline]
    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        self.note(Kind::DmaLoad, address, 4, self.memory.load_u32(address), |&word| word.into())
    }

    #[inline]
    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        let done = self.memory.store_u32(address, value);
        self.note(Kind::DmaStore, address, 4, done, |()| value.into())
    }
}

struct WatchedLine<'a> {
    line: &'a mut dyn IntrLine,
    tape: &'a Tape,
    now: Time,
    messages: &'a [Option<MsiMessage>],
}

impl WatchedLine<'_> {
    fn note(&self, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Msi(message) => {
                let vector = self.messages.iter().position(|known| *known == Some(message));
                let vector = vector.map(|vector| Vector(vector as u16));
                let number = message_number(message.data, vector);
                self.tape.put(Kind::Message, self.now, message.address, number);
            }
            Interrupt::Intx(level) => self.tape.put(Kind::Wire, self.now, level.into(), 0),
        }
    }
}

impl IntrLine for WatchedLine<'_> {
    fn signal(&mut self, interrupt: Interrupt) {
        self.note(interrupt);
        self.line.signal(interrupt);
    }

    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.note(interrupt);
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

impl PciFunction for Recorded {
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
        self.nic.config_read(offset, width)
    }

    fn config_write(&mut self, host: &mut Host<'_>, offset: u16, width: Width, value: u64) {
        let access = Access::new(None, offset.into(), width);
        self.tape.put(Kind::Write, host.now, access.to_number(), value);
        self.watched(host, |nic, host| nic.config_write(host, offset, width, value));
        self.look_up_messages();
    }

    #[inline]
    fn bar_read(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width) -> u64 {
        let now = host.now;
        let value = self.watched(host, |nic, host| nic.bar_read(host, bar, offset, width));
        let access = Access::new(Some(bar), offset, width);
        self.tape.put(Kind::Read, now, access.to_number(), value);
        value
    }

    #[inline]
    fn bar_write(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width, value: u64) {
        let access = Access::new(Some(bar), offset, width);
        self.tape.put(Kind::Write, host.now, access.to_number(), value);
        self.watched(host, |nic, host| nic.bar_write(host, bar, offset, width, value));
        // What is no register may be the MSI-X table.
        if self.nic.info().roles(bar, offset, width).next().is_none() {
            self.look_up_messages();
        }
    }

    #[inline]
    fn poll(&mut self, host: &mut Host<'_>) {
        self.watched(host, |nic, host| nic.poll(host));
    }
}

impl Nic for Recorded {
    forward_nic! {
        info, rx_queue_progress, rx_queue_free, look_ahead, receiving, mac_address, register,
        probe, counters, strict, wire, next_due, offered_link, has_link
    }

    #[inline]
    fn receive(&mut self, host: &mut Host<'_>, frame: Frame<'_>) -> Reception {
        let now = host.now;
        self.tape.put_frame(now, &frame);
        let reception = self.watched(host, |nic, host| nic.receive(host, frame));
        self.tape.put(Kind::Placed, now, reception.outcome.number(), reception.queue.into());
        reception
    }

    fn receive_faulty(
        &mut self,
        host: &mut Host<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception {
        let now = host.now;
        let (which, parameter) = fault_numbers(fault);
        self.tape.put(Kind::Damaged, now, which, parameter);
        self.tape.put_frame(now, &frame);
        let reception = self.watched(host, |nic, host| nic.receive_faulty(host, frame, fault));
        self.tape.put(Kind::Placed, now, reception.outcome.number(), reception.queue.into());
        reception
    }

    fn set_link(&mut self, host: &mut Host<'_>, link: Link) {
        self.tape.put(Kind::Link, host.now, link_number(link), 0);
        self.watched(host, |nic, host| nic.set_link(host, link));
    }

    fn power_on(&mut self, host: &mut Host<'_>) {
        self.tape.put(Kind::PowerOn, host.now, 0, 0);
        self.watched(host, |nic, host| nic.power_on(host));
    }
}

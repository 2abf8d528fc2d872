//! The NIC, and the way to its registers: writes that take effect later, reads that wait for them.

use std::collections::VecDeque;

use warikomi_clock::{Seed, Span, Time};
use warikomi_inject::{Fault, FaultSchedule, Faulty};
use warikomi_nic::Nic;
use warikomi_pci::{Host, Interrupt, IntrLine, Mmio, MmioError, SharedMemory, Width};
use warikomi_wire::WireCounters;

use super::CostModel;

/// Interrupts that the NIC has sent and nobody has taken yet: the vector of each.
#[derive(Default)]
struct Line {
    sent: VecDeque<u16>,
}

/// Interrupts that are kept at most: a card that sends more between two looks is wrong.
const MOST_SENT: usize = 4_096;

impl IntrLine for Line {
    fn signal(&mut self, interrupt: Interrupt) {
        // A message's data is its vector; that the pin is asserted is told like the only message.
        let vector = match interrupt {
            Interrupt::Msi(message) => message.data as u16,
            Interrupt::Intx(true) => 0,
            Interrupt::Intx(false) => return,
        };
        if self.sent.len() < MOST_SENT {
            self.sent.push_back(vector);
        }
    }
}

/// A register write on its way.
struct Posted {
    takes_effect: Time,
    bar: u8,
    offset: u64,
    width: Width,
    value: u64,
}

/// The NIC with its memory.
pub(super) struct Device {
    nic: Box<dyn Nic>,
    memory: SharedMemory,
    posted: VecDeque<Posted>,
    line: Line,
    bar: u8,
    /// When the NIC was last polled.
    polled: Time,
}

/// What was due and could not take place (an interrupt while the driver is dead, say) is tried again
/// after this time.
const RETRY: Span = Span::from_us(1);

impl Device {
    /// This NIC, at power-on, with these faults around it, that reaches `memory`.
    pub(super) fn with_faults(
        sound: Box<dyn Nic>,
        memory: SharedMemory,
        faults: &[Fault],
        seed: Seed,
    ) -> Device {
        if faults.is_empty() {
            return Device::with_nic(sound, memory);
        }
        let schedule = FaultSchedule::new(faults, seed);
        Device::with_nic(Box::new(Faulty::new(sound, schedule)), memory)
    }

    /// This NIC, at power-on, that reaches `memory`.
    pub(super) fn with_nic(nic: Box<dyn Nic>, memory: SharedMemory) -> Device {
        let bar = nic.info().register_bar;
        let (posted, line) = (VecDeque::new(), Line::default());
        Device { nic, memory, posted, line, bar, polled: Time::ZERO }
    }

    /// When something happens in here by itself.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        let posted = self.posted.front().map_or(Time::NEVER, |write| write.takes_effect);
        let due = self.nic.next_due();
        posted.min(if due > self.polled { due } else { self.polled + RETRY })
    }

    /// Lets it happen.
    pub(super) fn poll(&mut self, now: Time) {
        while self.posted.front().is_some_and(|write| write.takes_effect <= now) {
            self.take_posted(now);
        }
        self.with(now, |nic, host| nic.poll(host));
        self.polled = now;
    }

    /// The next interrupt that was sent and not taken: its vector.
    #[inline]
    pub(super) fn take_interrupt(&mut self) -> Option<u16> {
        self.line.sent.pop_front()
    }

    /// What has passed on the wire.
    pub(super) fn wire_counters(&mut self) -> WireCounters {
        self.nic.wire().counters()
    }

    /// Faults strike from now on, or no more.
    pub(super) fn faults(&mut self, start: Option<Time>) {
        let Some(faulty) = Faulty::of(&mut *self.nic) else { return };
        match start {
            Some(at) => faulty.schedule().start(at),
            None => faulty.schedule().stop(),
        }
    }

    /// How often faults have struck.
    pub(super) fn struck(&mut self) -> u64 {
        Faulty::of(&mut *self.nic)
            .map_or(0, |faulty| faulty.schedule().counts().map(|(_, count)| count.injected).sum())
    }

    /// Whether a fault that has begun goes on.
    pub(super) fn fault_is_active(&mut self) -> bool {
        Faulty::of(&mut *self.nic).is_some_and(|faulty| faulty.is_busy())
    }

    /// Whether the NIC has a link.
    #[inline]
    pub(super) fn has_link(&self) -> bool {
        self.nic.has_link()
    }

    /// Power-on reset: whoever drove it is gone, and what it had posted with it.
    pub(super) fn power_on(&mut self, now: Time) {
        self.posted.clear();
        self.with(now, |nic, host| nic.power_on(host));
        self.line.sent.clear();
    }

    /// Calls the NIC.
    #[inline]
    pub(super) fn with<R>(
        &mut self,
        now: Time,
        call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R,
    ) -> R {
        let mut host = Host { now, memory: &self.memory, interrupts: &mut self.line, looks: None };
        call(&mut *self.nic, &mut host)
    }

    /// A register write sets out, and takes effect at `takes_effect`.
    pub(super) fn post(
        &mut self,
        takes_effect: Time,
        (bar, offset): (u8, u64),
        width: Width,
        value: u64,
    ) {
        self.posted.push_back(Posted { takes_effect, bar, offset, width, value });
    }

    /// The BAR with the registers that a driver uses.
    #[inline]
    pub(super) fn bar(&self) -> u8 {
        self.bar
    }

    /// All that is on its way takes effect: a read comes behind it.
    pub(super) fn flush(&mut self, now: Time) {
        while !self.posted.is_empty() {
            self.take_posted(now);
        }
    }

    /// Reads a register; what is on its way comes first.
    pub(super) fn read(&mut self, now: Time, (bar, offset): (u8, u64), width: Width) -> u64 {
        self.flush(now);
        self.with(now, |nic, host| nic.bar_read(host, bar, offset, width))
    }

    fn take_posted(&mut self, now: Time) {
        if let Some(Posted { bar, offset, width, value, .. }) = self.posted.pop_front() {
            self.with(now, |nic, host| nic.bar_write(host, bar, offset, width, value));
        }
    }
}

/// The registers during one call of the driver. All of the call takes place at its beginning, but for
/// posted writes; what it takes is added up.
pub(super) struct Registers<'a> {
    device: &'a mut Device,
    costs: &'a CostModel,
    now: Time,
    /// What the accesses have taken so far.
    pub(super) spent: Span,
}

impl<'a> Registers<'a> {
    pub(super) fn new(device: &'a mut Device, costs: &'a CostModel, now: Time) -> Registers<'a> {
        Registers { device, costs, now, spent: Span::ZERO }
    }

    /// A read comes behind all writes before it.
    fn wait_for_writes(&mut self) {
        self.spent += Span::from_ns(self.costs.register_read_ns);
        self.device.flush(self.now);
    }
}

impl Mmio for Registers<'_> {
    fn register_bar(&self) -> u8 {
        self.device.bar()
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.wait_for_writes();
        Ok(self.device.read(self.now, (bar, offset), width))
    }

    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        self.spent += Span::from_ns(self.costs.register_write_ns);
        let takes_effect = self.now + self.spent + Span::from_ns(self.costs.register_posted_ns);
        self.device.post(takes_effect, (bar, offset), width, value);
        Ok(())
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        self.wait_for_writes();
        Ok(self.device.with(self.now, |nic, _| nic.config_read(offset, width)))
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.wait_for_writes();
        self.device.with(self.now, |nic, host| nic.config_write(host, offset, width, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_nic::NicOptions;
    use warikomi_wire::CountedSink;

    const INTR_MASK: u64 = 0x3c;

    #[test]
    fn a_write_takes_effect_later_and_a_read_waits_for_it() {
        let costs = CostModel::default();
        let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
        let sink = Box::new(CountedSink::new());
        let nic = warikomi_nic::build(&NicOptions::of("rtl8168"), sink).unwrap();
        let mut device = Device::with_nic(nic, memory);
        let now = Time::from_ps(1_000_000);
        device.with(now, |nic, host| nic.config_write(host, 4, Width::B2, 6));
        let mut registers = Registers::new(&mut device, &costs, now);
        registers.write(INTR_MASK, Width::B2, 0x21).unwrap();
        assert_eq!(registers.spent, Span::from_ns(costs.register_write_ns));
        let due = now + Span::from_ns(costs.register_write_ns + costs.register_posted_ns);
        assert_eq!(device.next_due(), due);
        let peek = |device: &mut Device| {
            device.with(now, |nic, host| nic.bar_read(host, 2, INTR_MASK, Width::B2))
        };
        assert_eq!(peek(&mut device), 0, "not yet");
        let mut registers = Registers::new(&mut device, &costs, now);
        assert_eq!(registers.read(INTR_MASK, Width::B2), Ok(0x21));
        assert_eq!(device.next_due(), Time::NEVER);
        let mut registers = Registers::new(&mut device, &costs, now);
        registers.write(INTR_MASK, Width::B2, 1).unwrap();
        device.poll(due);
        assert_eq!(peek(&mut device), 1, "by itself");
    }
}

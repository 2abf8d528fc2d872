//! A card on the bench.

use warikomi_clock::{Span, Time};
use warikomi_nic::{
    Frame, Link, Nic, NicOptions, Reception, RxCounters, RxFault, RxOutcome, build,
};
use warikomi_pci::{DmaMemory, Host, MsiMessage, SharedMemory, Width};
use warikomi_wire::{CountedSink, Wire};

use crate::line::Line;
use crate::wire::JudgingWire;

/// Bytes of memory that a bench has unless it is told otherwise, from bus address 0 on.
pub const MEMORY: usize = 1 << 20;

/// Command register: memory decoding and bus mastering on, INTx off (PCI 3.0, 6.2.2).
pub const MEMORY_AND_MASTER: u64 = 0x0406;

/// The first message that benches give out.
pub const MESSAGE: MsiMessage = MsiMessage { address: 0xfee0_0000, data: 0x41 };

/// Registers of configuration space (PCI 3.0, 6.1, 6.7 and 6.8).
mod config {
    pub(super) const COMMAND: u16 = 0x04;
    pub(super) const STATUS: u16 = 0x06;
    pub(super) const HAS_CAPABILITIES: u64 = 0x10;
    pub(super) const CAPABILITIES: u16 = 0x34;
    pub(super) const MOST_CAPABILITIES: usize = 48;
    pub(super) const MSI: u64 = 0x05;
    pub(super) const MSIX: u64 = 0x11;
    pub(super) const MSIX_ENABLE: u64 = 0x8000;
    pub(super) const MSI_ENABLE: u64 = 0x01;
    pub(super) const MSI_64BIT: u64 = 0x80;
}

/// Steps after which a card that still has something to do turns in circles.
const MOST_STEPS: usize = 1_000_000;

/// A card with memory, an interrupt line, and a clock that the test moves.
///
/// The card is a model by its type (`Bench<NicFunction<Rtl8168>>`) or any (`Bench`). At first nothing is
/// done to it: memory decoding, bus mastering and messages are off.
pub struct Bench<N: Nic + ?Sized = dyn Nic> {
    /// The card.
    pub nic: Box<N>,
    /// The memory that it reaches.
    pub memory: SharedMemory,
    /// Takes the card's interrupts.
    pub line: Line,
    /// The time of the next call.
    pub now: Time,
    /// See [`Host::looks`].
    pub looks: Option<u64>,
    /// What it is cabled to, unless it was put here with a wire of its own.
    pub wire: JudgingWire,
}

impl<N: Nic + ?Sized> Bench<N> {
    /// This card, cabled to whatever it is.
    pub fn around(nic: Box<N>) -> Bench<N> {
        Bench::with_wire(nic, JudgingWire::keeping())
    }

    /// The card that `make` makes, cabled to a wire that keeps what is sent.
    pub fn cabled(make: impl FnOnce(Box<dyn Wire>) -> Box<N>) -> Bench<N> {
        Bench::cabled_to(JudgingWire::keeping(), make)
    }

    /// The card that `make` makes, cabled to `wire`.
    pub fn cabled_to(wire: JudgingWire, make: impl FnOnce(Box<dyn Wire>) -> Box<N>) -> Bench<N> {
        Bench::with_wire(make(Box::new(wire.clone())), wire)
    }

    fn with_wire(nic: Box<N>, wire: JudgingWire) -> Bench<N> {
        let memory = SharedMemory::anonymous(0, MEMORY).expect("memory");
        let now = Time::ZERO + Span::from_ms(5);
        Bench { nic, memory, line: Line::default(), now, wire, looks: None }
    }

    /// With `bytes` bytes of memory from bus address `base` on.
    pub fn with_memory(self, base: u64, bytes: usize) -> Bench<N> {
        self.sharing(SharedMemory::anonymous(base, bytes).expect("memory"))
    }

    /// With memory that somebody else has, too.
    pub fn sharing(self, memory: SharedMemory) -> Bench<N> {
        Bench { memory, ..self }
    }

    /// With a clock that shows `now`.
    pub fn at(self, now: Time) -> Bench<N> {
        Bench { now, ..self }
    }

    /// With interrupts that go to `line`.
    pub fn signalling(self, line: Line) -> Bench<N> {
        Bench { line, ..self }
    }

    /// With this in the command register.
    pub fn commanded(mut self, command: u64) -> Bench<N> {
        self.config(config::COMMAND, Width::B2, command);
        self
    }

    /// As a driver's system leaves a card for its driver: memory decoding and bus mastering on, and
    /// messages from [`MESSAGE`] on, by MSI-X if the card has that.
    pub fn enabled(self) -> Bench<N> {
        let mut bench = self.commanded(MEMORY_AND_MASTER);
        if bench.capability(config::MSIX).is_some() {
            bench.enable_msix(MESSAGE);
        } else {
            bench.enable_msi(MESSAGE);
        }
        bench
    }

    /// Calls the card, with everything around it.
    pub fn host<R>(&mut self, call: impl FnOnce(&mut N, &mut Host<'_>) -> R) -> R {
        let Bench { nic, memory, line, now, looks, .. } = self;
        call(nic, &mut Host { now: *now, memory, interrupts: line, looks: *looks })
    }

    /// The BAR with the registers that a driver uses.
    pub fn register_bar(&self) -> u8 {
        self.nic.info().register_bar
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u64, width: Width) -> u64 {
        self.bar_read(self.register_bar(), offset, width)
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u64, width: Width, value: u64) {
        self.bar_write(self.register_bar(), offset, width, value);
    }

    /// Reads from any BAR.
    pub fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> u64 {
        self.host(|nic, host| nic.bar_read(host, bar, offset, width))
    }

    /// Writes to any BAR.
    pub fn bar_write(&mut self, bar: u8, offset: u64, width: Width, value: u64) {
        self.host(|nic, host| nic.bar_write(host, bar, offset, width, value));
    }

    /// Reads configuration space.
    pub fn config_read(&mut self, offset: u16, width: Width) -> u64 {
        self.nic.config_read(offset, width)
    }

    /// Writes configuration space.
    pub fn config(&mut self, offset: u16, width: Width, value: u64) {
        self.host(|nic, host| nic.config_write(host, offset, width, value));
    }

    /// Where in configuration space the capability with this number is.
    pub fn capability(&mut self, id: u64) -> Option<u16> {
        if self.config_read(config::STATUS, Width::B2) & config::HAS_CAPABILITIES == 0 {
            return None;
        }
        let mut at = self.config_read(config::CAPABILITIES, Width::B1) as u16;
        for _ in 0..config::MOST_CAPABILITIES {
            if at == 0 || self.config_read(at, Width::B1) == id {
                break;
            }
            at = self.config_read(at + 1, Width::B1) as u16;
        }
        (at != 0 && self.config_read(at, Width::B1) == id).then_some(at)
    }

    /// Switches MSI on with as many messages as the card asks for; how many. The data of the first is a
    /// multiple of that number, or only one is given.
    pub fn enable_msi(&mut self, first: MsiMessage) -> u32 {
        let at = self.capability(config::MSI).expect("a card with MSI");
        let control = self.config_read(at + 2, Width::B2);
        let asked = control >> 1 & 7;
        let granted = if u64::from(first.data).is_multiple_of(1 << asked) { asked } else { 0 };
        self.config(at + 4, Width::B4, first.address & 0xffff_ffff);
        let wide = control & config::MSI_64BIT != 0;
        if wide {
            self.config(at + 8, Width::B4, first.address >> 32);
        }
        self.config(at + if wide { 12 } else { 8 }, Width::B2, first.data.into());
        self.config(at + 2, Width::B2, granted << 4 | config::MSI_ENABLE);
        1 << granted
    }

    /// Switches messages on from [`MESSAGE`] on, by MSI if the card has that, otherwise by MSI-X. Memory
    /// decoding is on.
    pub fn enable_messages(&mut self) {
        if self.capability(config::MSI).is_some() {
            self.enable_msi(MESSAGE);
        } else {
            self.enable_msix(MESSAGE);
        }
    }

    /// Switches MSI-X on, with every vector unmasked; how many there are. The data of their messages
    /// counts up. Memory decoding is on.
    pub fn enable_msix(&mut self, first: MsiMessage) -> u32 {
        let at = self.capability(config::MSIX).expect("a card with MSI-X");
        let vectors = (self.config_read(at + 2, Width::B2) & 0x7ff) as u32 + 1;
        let table = self.config_read(at + 4, Width::B4);
        let (bar, begin) = ((table & 7) as u8, table & !7);
        for (entry, data) in (begin..).step_by(16).zip(first.data..first.data + vectors) {
            self.bar_write(bar, entry, Width::B4, first.address & 0xffff_ffff);
            self.bar_write(bar, entry + 4, Width::B4, first.address >> 32);
            self.bar_write(bar, entry + 8, Width::B4, data.into());
            self.bar_write(bar, entry + 12, Width::B4, 0);
        }
        self.config(at + 2, Width::B2, config::MSIX_ENABLE);
        vectors
    }

    /// Does what is due.
    pub fn poll(&mut self) {
        self.host(|nic, host| nic.poll(host));
    }

    /// Lets time pass, with one look at the card at its end.
    pub fn wait(&mut self, span: Span) {
        self.now += span;
        self.poll();
    }

    /// Lets the next thing happen that is to come by itself; whether there was one.
    pub fn step(&mut self) -> bool {
        let due = self.nic.next_due();
        if due != Time::NEVER {
            self.now = self.now.max(due);
            self.poll();
        }
        due != Time::NEVER
    }

    /// Lets everything happen that is to come by itself.
    pub fn settle(&mut self) {
        let steps = (0..MOST_STEPS).take_while(|_| self.step()).count();
        assert!(steps < MOST_STEPS, "the card does not come to rest");
    }

    /// A frame arrives; what became of it.
    pub fn receive(&mut self, bytes: &[u8]) -> RxOutcome {
        self.steer(bytes).outcome
    }

    /// A frame arrives; what became of it, and on which queue.
    pub fn steer(&mut self, bytes: &[u8]) -> Reception {
        self.host(|nic, host| nic.receive(host, Frame::new(bytes)))
    }

    /// A frame arrives that was damaged.
    pub fn receive_faulty(&mut self, bytes: &[u8], fault: RxFault) -> RxOutcome {
        self.host(|nic, host| nic.receive_faulty(host, Frame::new(bytes), fault)).outcome
    }

    /// How far frames have come, after a look at every descriptor.
    pub fn progress(&mut self) -> RxCounters {
        self.host(|nic, host| nic.rx_progress(host, usize::MAX))
    }

    /// Plugs or pulls the cable.
    pub fn plug(&mut self, link: Link) {
        self.host(|nic, host| nic.set_link(host, link));
    }

    /// The frames that the card has sent since the last time.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.wire.sent()
    }

    /// Times that interrupts were raised, by the card's own count.
    pub fn raised(&self) -> u64 {
        self.nic.counters().interrupts
    }

    /// Bytes of memory at a bus address.
    pub fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(address, &mut bytes).expect("an address in memory");
        bytes
    }

    /// The 32-bit word of memory at a bus address.
    pub fn word(&self, address: u64) -> u32 {
        self.memory.load_u32(address).expect("an address in memory")
    }

    /// Writes bytes to memory.
    pub fn put_bytes(&self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes).expect("an address in memory");
    }

    /// Writes words to memory, one after the other.
    pub fn put(&self, address: u64, words: &[u32]) {
        for (at, word) in (address..).step_by(4).zip(words) {
            self.memory.store_u32(at, *word).expect("an address in memory");
        }
    }
}

/// The model of this name as it is, for whoever needs a card and not what it sends.
pub fn card(model: &str) -> Box<dyn Nic> {
    build(&NicOptions::of(model), Box::new(CountedSink::new())).expect("a model")
}

impl Bench {
    /// The model of this name as it is, cabled to a wire that keeps what is sent.
    pub fn of(model: &str) -> Bench {
        Bench::cabled(|wire| build(&NicOptions::of(model), wire).expect("a model"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::{OC48, RTL8168, Subject};

    #[test]
    fn a_driver_s_system_finds_msi_in_every_card() {
        for card in [RTL8168, OC48] {
            let mut bench = Subject::of(card).bench();
            let at = bench.capability(config::MSI).expect("MSI");
            assert_eq!(bench.enable_msi(MESSAGE), 1);
            assert_eq!(bench.config_read(at + 4, Width::B8), MESSAGE.address);
            assert_eq!(bench.config_read(at + 12, Width::B2), u64::from(MESSAGE.data));
            assert_eq!(bench.config_read(at + 2, Width::B2) & 0x71, config::MSI_ENABLE);
            assert_eq!(bench.capability(0xee), None);
        }
    }
}

//! The card from the other side, with constants of its own, so that a wrong constant in the model
//! does not cancel out.

use std::sync::{Arc, Mutex};

use warikomi_clock::{Span, Time};
use warikomi_nic::bus::Bus;
use warikomi_nic::oc48::Oc48;
use warikomi_nic::wire::{Wire, WireCounters};
use warikomi_nic::{Frame, Nic, NicFunction, RxCounters, RxFault, RxOutcome};
use warikomi_pci::{DmaMemory, Host, Interrupt, IntrLine, PciFunction, SharedMemory, Width};

pub(crate) const CONTROL: u64 = 0x04;
pub(crate) const STATUS: u64 = 0x10;
pub(crate) const MASK: u64 = 0x14;
pub(crate) const TX_REMAINING: u64 = 0x40;
pub(crate) const RX_REMAINING: u64 = 0x60;

pub(crate) const RESET: u32 = 1;
pub(crate) const TX_ENABLE: u32 = 2;
pub(crate) const RX_ENABLE: u32 = 4;

pub(crate) const TX_DONE: u32 = 0x01;
pub(crate) const RX_DONE: u32 = 0x02;
pub(crate) const RX_MISSED: u32 = 0x04;
pub(crate) const LINK_CHANGED: u32 = 0x08;
pub(crate) const SYS_ERROR: u32 = 0x10;
pub(crate) const TX_OVERRUN: u32 = 0x20;

pub(crate) const FIRST: u32 = 1 << 31;
pub(crate) const LAST: u32 = 1 << 30;

pub(crate) const RING: u64 = 0x1000;
pub(crate) const BUFFERS: u64 = 0x10_0000;
pub(crate) const MEMORY: usize = 0x200_0000;
pub(crate) const LINE_BPS: u64 = 2_400_000_000;
pub(crate) const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];

/// Frames, and when they were sent.
pub(crate) type Sent = Vec<(Time, Vec<u8>)>;

/// Keeps what is sent.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Sent>>);

impl Wire for Tap {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.0.lock().unwrap().push((now, frame.to_vec()));
    }
    fn next_arrival(&self) -> Time {
        Time::NEVER
    }
    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        None
    }
    fn counters(&self) -> WireCounters {
        WireCounters::default()
    }
}

struct Ignored;

impl IntrLine for Ignored {
    fn signal(&mut self, _interrupt: Interrupt) {}
}

pub(crate) struct Card {
    pub(crate) nic: NicFunction<Oc48>,
    pub(crate) memory: SharedMemory,
    pub(crate) now: Time,
    tap: Tap,
}

impl Card {
    /// A card with its registers on and MSI, RING as its ring, and both engines enabled.
    pub(crate) fn open(bus: Option<Bus>) -> Card {
        Card::with(bus, LINE_BPS, 65_535)
    }

    pub(crate) fn with(bus: Option<Bus>, line_bps: u64, mtu: u32) -> Card {
        let tap = Tap::default();
        let mut card = Card {
            nic: NicFunction::new(Oc48::new(bus, line_bps, mtu), Box::new(tap.clone())),
            memory: SharedMemory::anonymous(0, MEMORY).unwrap(),
            now: Time::ZERO + Span::from_ms(7),
            tap,
        };
        card.config(0x54, Width::B4, 0xfee0_0000);
        card.config(0x52, Width::B2, 1);
        card.config(0x04, Width::B2, 0x0406);
        card.start();
        card
    }

    /// RESET, the ring, both engines, every interrupt.
    pub(crate) fn start(&mut self) {
        self.set(CONTROL, RESET);
        self.memory.write(RING, &[0; 1_024]).unwrap();
        self.write(0x68, Width::B8, RING);
        self.set(CONTROL, TX_ENABLE | RX_ENABLE);
        self.set(MASK, 0x3f);
    }

    pub(crate) fn host<R>(
        &mut self,
        call: impl FnOnce(&mut NicFunction<Oc48>, &mut Host<'_>) -> R,
    ) -> R {
        let mut host = Host { now: self.now, memory: &self.memory, interrupts: &mut Ignored };
        call(&mut self.nic, &mut host)
    }

    pub(crate) fn config(&mut self, offset: u16, width: Width, value: u64) {
        self.host(|nic, host| nic.config_write(host, offset, width, value));
    }

    pub(crate) fn read(&mut self, offset: u64, width: Width) -> u64 {
        self.host(|nic, host| nic.bar_read(host, 0, offset, width))
    }

    pub(crate) fn write(&mut self, offset: u64, width: Width, value: u64) {
        self.host(|nic, host| nic.bar_write(host, 0, offset, width, value));
    }

    pub(crate) fn get(&mut self, offset: u64) -> u32 {
        self.read(offset, Width::B4) as u32
    }

    pub(crate) fn set(&mut self, offset: u64, value: u32) {
        self.write(offset, Width::B4, value.into());
    }

    /// Reads the interrupt status and clears it.
    pub(crate) fn status(&mut self) -> u32 {
        let status = self.get(STATUS);
        self.set(STATUS, status);
        status
    }

    pub(crate) fn poll(&mut self) {
        self.host(|nic, host| nic.poll(host));
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now += span;
        self.poll();
    }

    /// Goes from event to event until there is none.
    pub(crate) fn run(&mut self) {
        while self.nic.next_due() != Time::NEVER {
            self.now = self.now.max(self.nic.next_due());
            self.poll();
        }
    }

    pub(crate) fn push(&mut self, address: u64, command: u32) {
        self.write(0x30, Width::B8, address);
        self.set(0x38, command);
    }

    /// Pushes a packet's pieces, each from where `place` says that it is.
    pub(crate) fn push_packet(&mut self, pieces: &[(u64, usize)]) {
        let last = pieces.len() - 1;
        for (i, &(address, bytes)) in pieces.iter().enumerate() {
            let first = if i == 0 { FIRST } else { 0 };
            self.push(address, bytes as u32 | first | if i == last { LAST } else { 0 });
        }
    }

    /// Puts bytes into memory and sends them as one piece.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.memory.write(BUFFERS, bytes).unwrap();
        self.push_packet(&[(BUFFERS, bytes.len())]);
    }

    pub(crate) fn sent(&self) -> Sent {
        std::mem::take(&mut *self.tap.0.lock().unwrap())
    }

    pub(crate) fn sent_frames(&self) -> Vec<Vec<u8>> {
        self.sent().into_iter().map(|(_, frame)| frame).collect()
    }

    pub(crate) fn push_buffer(&mut self, address: u64, bytes: u32) {
        self.write(0x50, Width::B8, address);
        self.set(0x58, bytes);
    }

    pub(crate) fn inject(&mut self, bytes: &[u8]) -> RxOutcome {
        self.host(|nic, host| nic.receive(host, Frame::new(bytes)).outcome)
    }

    pub(crate) fn inject_faulty(&mut self, bytes: &[u8], fault: RxFault) -> RxOutcome {
        self.host(|nic, host| nic.receive_faulty(host, Frame::new(bytes), fault).outcome)
    }

    /// The completion of the n-th buffer.
    pub(crate) fn entry(&self, n: u64) -> u32 {
        self.memory.load_u32(RING + 4 * (n % 256)).unwrap()
    }

    pub(crate) fn clear_entry(&self, n: u64) {
        self.memory.store_u32(RING + 4 * (n % 256), 0).unwrap();
    }

    pub(crate) fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(address, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn progress(&mut self) -> RxCounters {
        self.host(|nic, host| nic.rx_progress(host, usize::MAX))
    }
}

/// So many bytes that differ, from `seed` on.
pub(crate) fn filler(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| ((i + seed) % 251) as u8).collect()
}

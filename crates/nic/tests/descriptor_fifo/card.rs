//! The card from the other side, with constants of its own, so that a wrong constant in the model
//! does not cancel out.

use std::ops::{Deref, DerefMut};

use warikomi_clock::{Span, Time};
use warikomi_nic::NicFunction;
use warikomi_nic::bus::Bus;
use warikomi_nic::descriptor_fifo::{self, DescriptorFifo, OC48};
use warikomi_pci::Width;
use warikomi_testbench::Bench;

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

/// The card on the bench.
pub(crate) struct Card(Bench<NicFunction<DescriptorFifo>>);

impl Deref for Card {
    type Target = Bench<NicFunction<DescriptorFifo>>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Card {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Card {
    /// A card with its registers on and MSI, RING as its ring, and both engines enabled.
    pub(crate) fn open(bus: Option<Bus>) -> Card {
        Card::with(bus, LINE_BPS, 65_535)
    }

    pub(crate) fn with(bus: Option<Bus>, line_bps: u64, mtu: u32) -> Card {
        Card::of(&OC48, bus, Some(line_bps), Some(mtu))
    }

    /// Another card of the family.
    pub(crate) fn of(
        card: &'static descriptor_fifo::Card,
        bus: Option<Bus>,
        line_bps: Option<u64>,
        mtu: Option<u32>,
    ) -> Card {
        let chip = DescriptorFifo::new(card, bus, line_bps, mtu);
        let bench = Bench::cabled(|wire| Box::new(NicFunction::new(chip, wire)))
            .with_memory(0, MEMORY)
            .at(Time::ZERO + Span::from_ms(7))
            .enabled();
        let mut card = Card(bench);
        card.start();
        card
    }

    /// RESET, the ring, both engines, every interrupt.
    pub(crate) fn start(&mut self) {
        self.set(CONTROL, RESET);
        self.put_bytes(RING, &[0; 1_024]);
        self.write(0x68, Width::B8, RING);
        self.set(CONTROL, TX_ENABLE | RX_ENABLE);
        self.set(MASK, 0x3f);
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
        self.put_bytes(BUFFERS, bytes);
        self.push_packet(&[(BUFFERS, bytes.len())]);
    }

    pub(crate) fn push_buffer(&mut self, address: u64, bytes: u32) {
        self.write(0x50, Width::B8, address);
        self.set(0x58, bytes);
    }

    /// The completion of the n-th buffer.
    pub(crate) fn entry(&self, n: u64) -> u32 {
        self.word(RING + 4 * (n % 256))
    }

    pub(crate) fn clear_entry(&self, n: u64) {
        self.put(RING + 4 * (n % 256), &[0]);
    }
}

/// So many bytes that differ, from `seed` on.
pub(crate) fn filler(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| ((i + seed) % 251) as u8).collect()
}

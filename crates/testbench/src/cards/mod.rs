//! The cards that suites know.

pub mod duo;
mod oc48;
mod rtl8168;
pub mod step;

use proptest::strategy::BoxedStrategy;
use warikomi_driver::NicDriver;
use warikomi_nic::bus::PRESETS;
use warikomi_nic::{Nic, NicOptions, build};
use warikomi_pci::{SharedMemory, Width};
use warikomi_wire::Wire;

use self::step::{Step, TxRequest};
use crate::bench::Bench;

/// A register write: BAR, offset, width and value.
pub type Write = (u8, u64, Width, u64);

/// A card that tests can make, and how it is driven.
///
/// What an orderly driver does stands here a second time, with constants of its own, so that a wrong
/// constant in the model does not cancel out.
pub trait TestCard: Sync {
    /// The model's name.
    fn name(&self) -> &'static str;

    /// Makes the card.
    fn build(&self, options: &NicOptions, wire: Box<dyn Wire>) -> Box<dyn Nic> {
        build(options, wire).expect("a possible NIC")
    }

    /// Its driver in user space.
    fn driver(&self) -> Box<dyn NicDriver> {
        warikomi_driver::by_name(self.name()).expect("a model with a driver")
    }

    /// Its transfers take time also without a bus of their own.
    fn is_paced(&self) -> bool;

    /// The speed that its driver tells, in Mbit/s.
    fn link_mbps(&self) -> u32;

    /// Bytes of check sequence that it writes to the buffer behind a frame.
    fn check_sequence_bytes(&self) -> usize;

    /// Of so many receive buffers, those that its driver gives to the first queue, which frames that are no
    /// IP packets go to: all, where there is one queue.
    fn first_queue_share(&self, buffers: usize) -> usize {
        buffers
    }

    /// Register writes at which something happens; addresses come from `address`.
    fn writes(&self, address: BoxedStrategy<u64>) -> BoxedStrategy<Write>;

    /// Opens the card, with `length` receive buffers of `size` bytes.
    fn open(&self, length: u64, size: u32) -> Vec<Step>;

    /// Gives every receive descriptor back that the card has used.
    fn give_back(&self, memory: &SharedMemory) -> Vec<Step>;

    /// Transmits a frame. `next` is this driver's own, 0 when the card was opened.
    fn transmit(&self, memory: &SharedMemory, next: &mut u64, request: TxRequest) -> Vec<Step>;
}

/// The RTL8168.
pub static RTL8168: &dyn TestCard = &rtl8168::Rtl8168;
/// The test card with two queues and two vectors.
pub static DUO: &dyn TestCard = &duo::DuoCard;
/// The OC-48 card.
pub static OC48: &dyn TestCard = &oc48::Oc48;

/// A card and its options: what a suite is given.
#[derive(Clone)]
pub struct Subject {
    /// The card.
    pub card: &'static dyn TestCard,
    /// What is set about it.
    pub options: NicOptions,
}

impl Subject {
    /// The card as it is.
    pub fn of(card: &'static dyn TestCard) -> Subject {
        Subject { card, options: NicOptions::of(card.name()) }
    }

    /// On the first of the buses.
    pub fn on_a_bus(card: &'static dyn TestCard) -> Subject {
        let options = NicOptions { bus: Some(PRESETS[0].bus), ..NicOptions::of(card.name()) };
        Subject { card, options }
    }

    /// With transfers and a line that take their time.
    pub fn slow(card: &'static dyn TestCard) -> Subject {
        let options = NicOptions {
            bus: Some("pci-64-66,mapping=200ns".parse().expect("a bus")),
            line_rate_bps: Some(100_000_000),
            mtu: Some(9_000),
            ..NicOptions::of(card.name())
        };
        Subject { card, options }
    }

    /// Whether its transfers take time.
    pub fn is_paced(&self) -> bool {
        let NicOptions { bus, line_rate_bps, .. } = &self.options;
        bus.is_some() || line_rate_bps.is_some() || self.card.is_paced()
    }

    /// The card, cabled to `wire`.
    pub fn build(&self, wire: Box<dyn Wire>) -> Box<dyn Nic> {
        self.card.build(&self.options, wire)
    }

    /// The card on a bench, cabled to a wire that keeps what is sent.
    pub fn bench(&self) -> Bench {
        Bench::cabled(|wire| self.build(wire))
    }
}

//! What suites ask of a card.

use proptest::strategy::BoxedStrategy;
use warikomi_driver::NicDriver;
use warikomi_nic::strict::FindingKind;
use warikomi_nic::{Nic, NicOptions, build};
use warikomi_pci::{SharedMemory, Width};
use warikomi_wire::Wire;

use super::step::{Step, TxRequest};

/// A register write: BAR, offset, width and value.
pub type Write = (u8, u64, Width, u64);

/// What a card can do that not all can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// It receives into buffers that its driver gives it one by one; otherwise into memory of the driver's own, from where
    /// frames are copied.
    pub buffers: bool,
    /// It judges the checksums of received packets.
    pub checksums: bool,
    /// It interrupts by messages; otherwise by its pin alone.
    pub messages: bool,
    /// It reaches memory above 4 GB.
    pub wide: bool,
}

impl Abilities {
    /// All of them.
    pub const ALL: Abilities =
        Abilities { buffers: true, checksums: true, messages: true, wide: true };
}

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

    /// What it can do.
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

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

    /// Gives every receive descriptor back that the card has used. `look` looks at the register at an offset.
    fn give_back(
        &self,
        memory: &SharedMemory,
        look: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<Step>;

    /// For each kind of finding that this card can have, besides those of accesses, a driver that takes such a
    /// step, from power-on.
    fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)>;

    /// Transmits a frame. `next` is this driver's own, 0 when the card was opened.
    fn transmit(&self, memory: &SharedMemory, next: &mut u64, request: TxRequest) -> Vec<Step>;
}

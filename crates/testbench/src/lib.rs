//! What tests of all crates share; only dev-dependencies point here.
//!
//! [`Bench`] is a card with memory, an interrupt line, a clock that the test moves, and a wire that keeps
//! or judges what is sent; a driver in the same thread reaches it by [`Mmio`](warikomi_pci::Mmio), and [`Rig`] is both.
//! [`LyingRegisters`] and its neighbours are devices that mean no good. [`VfioClient`] reaches a card over a socket.
//! [`QemuCard`] is a card that others have made, to judge a driver of ours by, and [`Traced`] notes what a driver does to
//! either.
//!
//! A card that tests can make is a [`TestCard`]. The suites take a [`Subject`] (a card and its options), so
//! that a new card is one more line: [`card_conformance!`] and [`card_histories!`] for models,
//! [`driver_conformance!`] for their drivers.
//!
//! Tests within `src` of `pci`, `nic` and `driver` cannot use this crate: it is built with another copy of
//! theirs. Their integration tests can.

mod bench;
pub mod cards;
pub mod conformance;
pub mod drivers;
mod frame;
pub mod history;
mod line;
mod marked;
mod memory;
mod message;
mod mmio;
mod property;
mod qemu;
mod registers;
mod seen;
mod skipped;
pub mod strict;
mod traced;
pub mod vfio;
mod wire;

/// A copy of r8169 that takes two interrupts to go wrong. By it tests of other crates find the kernel that
/// `crates/lab/tests/virtual_time` makes.
pub const LOOKS_ONCE: &str = "r8169_looks_once";

pub use bench::{Bench, MEMORY, MEMORY_AND_MASTER, MESSAGE, card};
pub use cards::{
    DUO, E1000E, GE10, IGB, OC48, OC192, RTL8139, RTL8139CP, RTL8168, Subject, TestCard,
};
pub use drivers::{Partial, PartialDriver, Rig, WatchedSink};
pub use frame::frame;
pub use line::{Line, Nowhere, Signal};
pub use marked::MarkedPart;
pub use memory::CountingMemory;
pub use message::{message, segments};
pub use property::{check, kept_in};
pub use qemu::{Ending, QemuCard, cable_between, qemu};
pub use registers::{AnotherDevice, LyingRegister, LyingRegisters, NoRegisters};
pub use seen::seen_at_last;
pub use skipped::{SKIPPED, skipped};
pub use traced::{Access, Place, Traced};
pub use vfio::VfioClient;
pub use wire::{JudgingWire, Sent};

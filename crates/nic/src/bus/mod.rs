//! What a DMA transfer costs on the bus, beyond its bytes.
//!
//! A transfer waits for its descriptor, if that is in the host's memory, for the bus, and for a
//! mapping; then its bytes move, with a wait after each full burst but the last. The sum is
//! [`Bus::transfer_time`]. A bus is one of the [`PRESETS`], of which each part can be set:
//! `pci-64-66,wait=60ns`.

mod preset;
mod text;

pub use preset::{FITTED, PRESETS, Preset};
pub use text::ParseBusError;

use warikomi_clock::{Span, Time};

use warikomi_wire::bytes_time;

/// What the parts of a transfer take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Bytes that move in a second, once they move: 1 to 1,000,000,000,000.
    pub bytes_per_second: u64,
    /// Fetching a descriptor from the host's memory, for devices whose descriptors are there.
    pub descriptor_fetch: Span,
    /// Getting the bus, before each transfer.
    pub arbitration: Span,
    /// Bytes that move before the device must wait: 8 to 1,048,576.
    pub burst_bytes: u64,
    /// That wait.
    pub wait: Span,
    /// Mapping and unmapping a buffer (IOMMU), for each transfer.
    pub mapping: Span,
}

impl Bus {
    /// What a transfer of so many bytes takes, rounded up to a whole picosecond. A transfer of no
    /// bytes takes what comes before the first byte.
    ///
    /// A rate of 0 takes as long as a [`Span`] can be.
    pub fn transfer_time(&self, bytes: usize, fetches_descriptor: bool) -> Span {
        let fetch = if fetches_descriptor { self.descriptor_fetch } else { Span::ZERO };
        let bytes = bytes as u64;
        let full_bursts = bytes.saturating_sub(1).checked_div(self.burst_bytes).unwrap_or(bytes);
        let moving = bytes_time(bytes, self.bytes_per_second.saturating_mul(8));
        fetch + self.arbitration + self.mapping + moving + self.wait * full_bursts
    }
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

    /// Takes the bus for a transfer of so many bytes, from `from` on or when the bus is free: when
    /// it ends.
    pub fn transfer(&mut self, from: Time, bytes: usize, fetches_descriptor: bool) -> Time {
        let begins = self.free_at.max(from);
        self.free_at = begins + self.bus.transfer_time(bytes, fetches_descriptor);
        self.free_at
    }

    /// Whatever was under way no longer is.
    pub fn reset(&mut self) {
        self.free_at = Time::ZERO;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any bus that is possible.
    pub(crate) fn bus() -> impl Strategy<Value = Bus> {
        let time =
            || prop_oneof![Just(0), 0u64..1_000_000, 0u64..=1_000_000_000].prop_map(Span::from_ps);
        (1u64..=1_000_000_000_000, 8u64..=1_048_576, [time(), time(), time(), time()]).prop_map(
            |(bytes_per_second, burst_bytes, [descriptor_fetch, arbitration, wait, mapping])| Bus {
                bytes_per_second,
                descriptor_fetch,
                arbitration,
                burst_bytes,
                wait,
                mapping,
            },
        )
    }

    proptest! {
        #[test]
        fn more_bytes_never_take_less(bus in bus(), bytes in 0usize..2_000_000, more in 0usize..2_000_000, fetch: bool) {
            let (less, all) = (bus.transfer_time(bytes, fetch), bus.transfer_time(bytes + more, fetch));
            prop_assert!(less <= all, "{less} for {bytes} bytes, {all} for {}", bytes + more);
            prop_assert!(bus.transfer_time(bytes, false) <= bus.transfer_time(bytes, true));
        }

        #[test]
        fn transfers_in_a_row_add_up(bus in bus(), lengths in prop::collection::vec(0usize..100_000, 1..20), fetch: bool) {
            let mut timeline = BusTimeline::new(bus);
            let begin = Time::from_ps(7);
            let ends: Vec<_> = lengths.iter().map(|&bytes| timeline.transfer(begin, bytes, fetch)).collect();
            let mut sum = begin;
            for (bytes, end) in lengths.into_iter().zip(ends) {
                sum += bus.transfer_time(bytes, fetch);
                prop_assert_eq!(sum, end);
            }
        }

        #[test]
        fn nothing_overflows(rate: u64, burst: u64, times: [u64; 4], bytes: usize, from: u64, fetch: bool) {
            let [descriptor_fetch, arbitration, wait, mapping] = times.map(Span::from_ps);
            let bus = Bus { bytes_per_second: rate, descriptor_fetch, arbitration, burst_bytes: burst, wait, mapping };
            let from = Time::from_ps(from);
            prop_assert!(BusTimeline::new(bus).transfer(from, bytes, fetch) >= from);
        }
    }

    #[test]
    fn each_part_is_in_the_sum_once() {
        let bus = Bus {
            bytes_per_second: 1_000_000_000,
            descriptor_fetch: Span::from_us(1),
            arbitration: Span::from_us(10),
            burst_bytes: 100,
            wait: Span::from_us(100),
            mapping: Span::from_ms(1),
        };
        let ns = |bytes, fetch| bus.transfer_time(bytes, fetch).as_ps() / 1_000;
        assert_eq!(ns(0, true), 1_011_000);
        assert_eq!(ns(1, false), 1_010_001);
        assert_eq!(ns(100, false), 1_010_100, "the last burst is full: nothing to wait for");
        assert_eq!(ns(101, false), 1_110_101);
        assert_eq!(ns(300, true), 1_211_300);
    }

    #[test]
    fn a_bus_that_is_taken_makes_the_next_transfer_wait() {
        let bus = Bus { arbitration: Span::from_ns(50), ..PRESETS[0].bus };
        let mut timeline = BusTimeline::new(bus);
        let first = timeline.transfer(Time::from_ps(1_000), 64, false);
        assert_eq!(
            timeline.transfer(Time::from_ps(2_000), 64, false),
            first + bus.transfer_time(64, false)
        );
        let later = first + Span::from_ms(1);
        assert_eq!(timeline.transfer(later, 64, false), later + bus.transfer_time(64, false));
    }
}

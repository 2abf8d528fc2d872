//! The tally counters, and dumping them.
//!
//! The driver names an address and sets CounterDump; the chip writes 64 bytes there and clears the
//! bit (Linux 6.1 r8169_main.c, struct rtl8169_counters and rtl8169_do_counters; 8139cp.c, struct cp_dma_stats).

use super::filter::Destination;

/// What the chip counts by itself. Collisions, aborts and underruns do not happen here and stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) tx_packets: u64,
    pub(crate) rx_packets: u64,
    pub(crate) tx_errors: u64,
    pub(crate) rx_errors: u32,
    pub(crate) rx_missed: u16,
    pub(crate) align_errors: u16,
    pub(crate) rx_unicast: u64,
    pub(crate) rx_broadcast: u64,
    pub(crate) rx_multicast: u32,
    pub(crate) tx_aborted: u16,
}

/// Size of a dump in bytes.
pub(crate) const DUMP_BYTES: usize = 64;

impl Tally {
    /// Counts a good frame by whom it is for.
    #[inline]
    pub(crate) fn received(&mut self, destination: Destination) {
        self.rx_packets += 1;
        match destination {
            Destination::Broadcast => self.rx_broadcast += 1,
            Destination::Multicast => self.rx_multicast = self.rx_multicast.wrapping_add(1),
            Destination::Own | Destination::Other => self.rx_unicast += 1,
        }
    }

    /// The dump's bytes.
    pub(crate) fn dump(&self) -> [u8; DUMP_BYTES] {
        let mut bytes = [0; DUMP_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.tx_packets.to_le_bytes());
        put(8, &self.rx_packets.to_le_bytes());
        put(16, &self.tx_errors.to_le_bytes());
        put(24, &self.rx_errors.to_le_bytes());
        put(28, &self.rx_missed.to_le_bytes());
        put(30, &self.align_errors.to_le_bytes());
        put(40, &self.rx_unicast.to_le_bytes());
        put(48, &self.rx_broadcast.to_le_bytes());
        put(56, &self.rx_multicast.to_le_bytes());
        put(60, &self.tx_aborted.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_driver_looks_for_them() {
        let tally = Tally { rx_missed: 0x1234, rx_multicast: 7, tx_packets: 1, ..Tally::default() };
        let dump = tally.dump();
        assert_eq!((dump[0], &dump[28..30], dump[56]), (1, &[0x34, 0x12][..], 7));
    }
}

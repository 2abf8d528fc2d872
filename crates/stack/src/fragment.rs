//! How IP cuts a datagram that is longer than the link's MTU (RFC 791, 3.2).

use std::ops::Range;

const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// What an offset in a header counts in.
const UNIT_BYTES: usize = 8;

/// A UDP datagram as the packets that carry it. One that is no longer than the MTU allows has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    datagram_bytes: usize,
    /// Bytes of the datagram in each packet but the last.
    step: usize,
}

impl Cut {
    /// A datagram with a payload of so many bytes, over a link with an MTU of 68 bytes at least.
    #[inline]
    pub(crate) fn new(payload_bytes: usize, mtu_bytes: u32) -> Cut {
        let datagram_bytes = UDP_BYTES + payload_bytes;
        let room = (mtu_bytes as usize).saturating_sub(IPV4_BYTES).max(UNIT_BYTES);
        let whole = datagram_bytes <= room;
        Cut { datagram_bytes, step: if whole { datagram_bytes } else { room & !(UNIT_BYTES - 1) } }
    }

    /// One that is not cut.
    #[inline]
    pub(crate) fn none(payload_bytes: usize) -> Cut {
        let datagram_bytes = UDP_BYTES + payload_bytes;
        Cut { datagram_bytes, step: datagram_bytes }
    }

    /// Packets.
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.datagram_bytes.div_ceil(self.step)
    }

    /// Bytes of the datagram before those of packet `index`.
    #[inline]
    fn offset(self, index: usize) -> usize {
        (index * self.step).min(self.datagram_bytes)
    }

    /// Which bytes of the payload packet `index` has. UDP's header is in the first one.
    #[inline]
    pub(crate) fn payload(self, index: usize) -> Range<usize> {
        let from = self.offset(index).saturating_sub(UDP_BYTES);
        from..self.offset(index + 1) - UDP_BYTES
    }

    /// Bytes of packet `index`, with IP's header.
    #[inline]
    pub(crate) fn ip_bytes(self, index: usize) -> usize {
        IPV4_BYTES + self.offset(index + 1) - self.offset(index)
    }

    /// The word of an IP header with its flags and the fragment's offset: of packet `index`.
    #[inline]
    pub(crate) fn flags_and_offset(self, index: usize) -> u16 {
        const MORE: u16 = 1 << 13;
        let more = if index + 1 < self.count() { MORE } else { 0 };
        more | (self.offset(index) / UNIT_BYTES) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_datagram_is_cut_where_the_mtu_of_10_gigabit_ethernet_ends() {
        let whole = Cut::new(16_086, 16_114);
        assert_eq!((whole.count(), whole.payload(0), whole.ip_bytes(0)), (1, 0..16_086, 16_114));
        assert_eq!(whole, Cut::none(16_086));
        let cut = Cut::new(65_507, 16_114);
        assert_eq!(cut.count(), 5);
        let packets: Vec<_> =
            (0..5).map(|index| (cut.payload(index), cut.ip_bytes(index))).collect();
        let full = 16_108;
        assert_eq!(packets[0], (0..16_080, full));
        assert_eq!(packets[1], (16_080..32_168, full));
        assert_eq!(packets[4], (64_344..65_507, 20 + 1_163));
        let words: Vec<_> = [0, 1, 4].map(|index| cut.flags_and_offset(index)).into();
        assert_eq!(words, [0x2000, 0x2000 | 2_011, 4 * 2_011]);
    }

    proptest! {
        #[test]
        fn the_packets_of_a_datagram_have_each_byte_once(payload in 1usize..65_508, mtu in 68u32..65_536) {
            let cut = Cut::new(payload, mtu);
            let mut next = 0;
            for index in 0..cut.count() {
                let part = cut.payload(index);
                prop_assert_eq!(part.start, next);
                prop_assert!(part.end > part.start && cut.ip_bytes(index) <= mtu as usize);
                next = part.end;
            }
            prop_assert_eq!(next, payload);
        }
    }
}

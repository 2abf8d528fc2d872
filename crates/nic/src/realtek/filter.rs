//! Which frames the receiver takes.

// RxConfig (RTL8139C Rev. 1.4, section 5.8; Linux 6.1 r8169_main.c, enum rtl_register_content).
pub(crate) const ACCEPT_ERR: u8 = 0x20;
pub(crate) const ACCEPT_RUNT: u8 = 0x10;
pub(crate) const ACCEPT_BROADCAST: u8 = 0x08;
pub(crate) const ACCEPT_MULTICAST: u8 = 0x04;
pub(crate) const ACCEPT_MY_PHYS: u8 = 0x02;
pub(crate) const ACCEPT_ALL_PHYS: u8 = 0x01;

/// Whom a frame that comes in is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The address in MAC0.
    Own,
    /// Another station.
    Other,
    /// A group.
    Multicast,
    /// All.
    Broadcast,
}

/// Address filter, in the form in which it is asked for every frame.
#[derive(Debug)]
pub(crate) struct Filter {
    /// The low six bits of RxConfig.
    pub(crate) accept: u8,
    /// The station's address: its six bytes as the low bytes of a little-endian number.
    station: u64,
    /// Bit `n` of the multicast filter is bit `n % 8` of byte `n / 8`.
    hash: [u8; 8],
}

const ADDRESS_MASK: u64 = 0xffff_ffff_ffff;

impl Filter {
    pub(crate) const fn new() -> Self {
        Filter { accept: 0, station: 0, hash: [0; 8] }
    }

    pub(crate) fn set_station(&mut self, address: [u8; 6]) {
        self.station = low_six(&address);
    }

    /// Sets the multicast filter. Linux takes the upper six bits of the CRC as the number of a bit in two words and
    /// writes these to MAR0 and MAR4 (8139too.c, __set_rx_mode). For chips later than the RTL8169 it exchanges
    /// the words and reverses their bytes (r8169_main.c, rtl_set_rx_mode): their registers hold the bytes in
    /// reverse order.
    pub(crate) fn set_hash(&mut self, hash: [u8; 8]) {
        self.hash = hash;
    }

    /// Whether a frame to `destination` comes in, and if so, whom it is for.
    #[inline]
    pub(crate) fn admits(&self, destination: &[u8; 6]) -> Option<Destination> {
        let address = low_six(destination);
        let own = address == self.station;
        if own && self.accept & ACCEPT_MY_PHYS != 0 {
            return Some(Destination::Own);
        }
        let (kind, admitted) = if address == ADDRESS_MASK {
            (Destination::Broadcast, self.accept & ACCEPT_BROADCAST != 0)
        } else if destination[0] & 1 != 0 {
            let hashed = self.accept & ACCEPT_MULTICAST != 0 && self.hashed(destination);
            (Destination::Multicast, hashed)
        } else {
            let kind = if own { Destination::Own } else { Destination::Other };
            (kind, self.accept & ACCEPT_ALL_PHYS != 0)
        };
        admitted.then_some(kind)
    }

    /// Whether the multicast's bit is set.
    fn hashed(&self, destination: &[u8; 6]) -> bool {
        let bit = hash_bit(destination);
        self.hash[bit / 8] >> (bit % 8) & 1 != 0
    }
}

fn low_six(address: &[u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = *address;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// The upper six bits of the Ethernet CRC, most significant bit first, of an address.
fn hash_bit(address: &[u8; 6]) -> usize {
    // The usual CRC is the mirror image, and inverted at the end.
    ((!crc32fast::hash(address)).reverse_bits() >> 26) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];

    fn filter(accept: u8) -> Filter {
        let mut filter = Filter::new();
        filter.accept = accept;
        filter.set_station(STATION);
        filter
    }

    #[test]
    fn each_bit_lets_its_own_kind_in() {
        let (other, group, all) = ([0x02, 0, 0, 0, 0, 7], [0x01, 0, 0x5e, 0, 0, 1], [0xff; 6]);
        for (accept, own, others, groups, broadcasts) in [
            (0x00, None, None, None, None),
            (0x02, Some(Destination::Own), None, None, None),
            (0x01, Some(Destination::Own), Some(Destination::Other), None, None),
            (0x04, None, None, Some(Destination::Multicast), None),
            (0x08, None, None, None, Some(Destination::Broadcast)),
            (
                0x0f,
                Some(Destination::Own),
                Some(Destination::Other),
                Some(Destination::Multicast),
                Some(Destination::Broadcast),
            ),
        ] {
            let mut filter = filter(accept);
            filter.set_hash([0xff; 8]);
            assert_eq!(filter.admits(&STATION), own, "{accept:#x}");
            assert_eq!(filter.admits(&other), others, "{accept:#x}");
            assert_eq!(filter.admits(&group), groups, "{accept:#x}");
            assert_eq!(filter.admits(&all), broadcasts, "{accept:#x}");
        }
    }

    /// The CRC as Linux's ether_crc computes it, bit by bit.
    fn ether_crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            for bit in 0..8 {
                let feedback = crc >> 31 != u32::from(byte >> bit & 1);
                crc = crc << 1 ^ if feedback { 0x04c1_1db7 } else { 0 };
            }
        }
        crc
    }

    /// What __set_rx_mode writes to MAR0 and MAR0 + 4 for this list.
    fn programmed(groups: &[[u8; 6]]) -> [u8; 8] {
        let mut words = [0_u32; 2];
        for group in groups {
            let bit = ether_crc(group) >> 26;
            words[(bit >> 5) as usize] |= 1 << (bit & 31);
        }
        let mut registers = [0; 8];
        registers[..4].copy_from_slice(&words[0].to_le_bytes());
        registers[4..].copy_from_slice(&words[1].to_le_bytes());
        registers
    }

    #[test]
    fn every_group_finds_the_bit_that_the_driver_sets_for_it() {
        let groups: Vec<[u8; 6]> =
            (0..=255_u8).map(|i| [0x01, 0x00, 0x5e, i / 7, i.wrapping_mul(31), i]).collect();
        for group in &groups {
            let mut filter = filter(0x04);
            let hash = programmed(&[*group]);
            assert_eq!(hash.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
            filter.set_hash(hash);
            assert_eq!(filter.admits(group), Some(Destination::Multicast));
            let admitted = groups.iter().filter(|group| filter.admits(group).is_some()).count();
            assert!(admitted < 32, "one of 64 bits lets {admitted} of 256 groups in");
        }
    }
}

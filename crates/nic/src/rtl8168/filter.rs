//! Which frames the receiver takes.

use super::regs;

// Receive status, first word (RTL8169 Rev. 1.21, page 57).
/// The frame is a multicast.
pub(super) const MAR: u32 = 1 << 27;
/// The destination is the address in MAC0.
pub(super) const PAM: u32 = 1 << 26;
/// The frame is a broadcast.
pub(super) const BAR: u32 = 1 << 25;

/// Address filter, in the form in which it is asked for every frame.
#[derive(Debug)]
pub(super) struct Filter {
    /// The low six bits of RxConfig.
    pub(super) accept: u8,
    /// The station's address: its six bytes as the low bytes of a little-endian number.
    station: u64,
    /// MAR0 to MAR7.
    hash: [u8; 8],
}

const ADDRESS_MASK: u64 = 0xffff_ffff_ffff;

impl Filter {
    pub(super) const fn new() -> Self {
        Filter { accept: 0, station: 0, hash: [0; 8] }
    }

    pub(super) fn set_station(&mut self, address: [u8; 6]) {
        self.station = low_six(&address);
    }

    pub(super) fn set_hash(&mut self, hash: [u8; 8]) {
        self.hash = hash;
    }

    /// Whether a frame to `destination` comes in, and if so, the bits that say why.
    #[inline]
    pub(super) fn admits(&self, destination: &[u8; 6]) -> Option<u32> {
        let address = low_six(destination);
        let own = address == self.station;
        if own && self.accept & regs::ACCEPT_MY_PHYS != 0 {
            return Some(PAM);
        }
        let (status, admitted) = if address == ADDRESS_MASK {
            (BAR, self.accept & regs::ACCEPT_BROADCAST != 0)
        } else if destination[0] & 1 != 0 {
            (MAR, self.accept & regs::ACCEPT_MULTICAST != 0 && self.hashed(destination))
        } else {
            (if own { PAM } else { 0 }, self.accept & regs::ACCEPT_ALL_PHYS != 0)
        };
        admitted.then_some(status)
    }

    /// Whether the multicast's bit is set.
    ///
    /// The driver takes the upper six bits of the CRC as the number of a bit in two words, then,
    /// for chips later than the RTL8169, exchanges the words and reverses their bytes: seen from
    /// the registers, the bytes are in reverse order (Linux 6.1 r8169_main.c, rtl_set_rx_mode).
    fn hashed(&self, destination: &[u8; 6]) -> bool {
        let bit = hash_bit(destination);
        self.hash[7 - bit / 8] >> (bit % 8) & 1 != 0
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
            (0x02, Some(PAM), None, None, None),
            (0x01, Some(PAM), Some(0), None, None),
            (0x04, None, None, Some(MAR), None),
            (0x08, None, None, None, Some(BAR)),
            (0x0f, Some(PAM), Some(0), Some(MAR), Some(BAR)),
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

    /// What rtl_set_rx_mode writes to MAR0 and MAR0 + 4 for this list.
    fn programmed(groups: &[[u8; 6]]) -> [u8; 8] {
        let mut words = [0_u32; 2];
        for group in groups {
            let bit = ether_crc(group) >> 26;
            words[(bit >> 5) as usize] |= 1 << (bit & 31);
        }
        let words = [words[1].swap_bytes(), words[0].swap_bytes()];
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
            assert_eq!(filter.admits(group), Some(MAR));
            let admitted = groups.iter().filter(|group| filter.admits(group).is_some()).count();
            assert!(admitted < 32, "one of 64 bits lets {admitted} of 256 groups in");
        }
    }
}

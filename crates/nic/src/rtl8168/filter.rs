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

//! How long a frame occupies the wire.

use warikomi_clock::Span;

use crate::{FCS_BYTES, MIN_FRAME_BYTES};

/// Preamble and start-of-frame delimiter (IEEE 802.3, 4A.4.2).
const PREAMBLE_BYTES: u64 = 8;
/// Gap between frames: 96 bit times.
const GAP_BYTES: u64 = 12;

/// How long a frame of `frame_bytes` bytes, without check sequence, occupies a wire that carries
/// `bits_per_second`, with everything that Ethernet puts around it: 8 bytes of preamble, padding
/// to 60, 4 of check sequence, 12 of gap. Rounded up to a whole picosecond.
///
/// A speed of 0 takes as long as a [`Span`] can be.
pub fn wire_time(frame_bytes: usize, bits_per_second: u64) -> Span {
    let frame = frame_bytes.max(MIN_FRAME_BYTES) as u64;
    bytes_time(frame.saturating_add(PREAMBLE_BYTES + FCS_BYTES as u64 + GAP_BYTES), bits_per_second)
}

/// How long so many bytes take, with nothing around them, where `bits_per_second` are carried.
/// Rounded up to a whole picosecond; a speed of 0 takes as long as a [`Span`] can be.
pub fn bytes_time(bytes: u64, bits_per_second: u64) -> Span {
    const PS_PER_SECOND: u128 = 1_000_000_000_000;
    let ps = match bits_per_second {
        0 => u128::MAX,
        rate => (u128::from(bytes) * 8 * PS_PER_SECOND).div_ceil(rate.into()),
    };
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_figures_come_out() {
        let gigabit = 1_000_000_000;
        assert_eq!(wire_time(60, gigabit), Span::from_ns(672), "1.488 million frames a second");
        assert_eq!(wire_time(1, gigabit), wire_time(60, gigabit), "a short frame is padded");
        assert_eq!(wire_time(1_514, gigabit), Span::from_ns(12_304));
        assert_eq!(wire_time(60, 0), Span::from_ps(u64::MAX));
        assert_eq!(wire_time(usize::MAX, 1), Span::from_ps(u64::MAX));
    }
}

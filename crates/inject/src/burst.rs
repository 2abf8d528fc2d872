//! Bursts: frames back to back on a line, then nothing until the next.

use warikomi_clock::Span;
use warikomi_nic::MIN_FRAME_BYTES;
use warikomi_wire::wire_time;

/// The longest burst, in bytes: 16 MB, as much as the largest socket buffer that makes sense.
pub const MAX_BURST_BYTES: usize = 16_000_000;

/// How a burst is cut into frames: frames of the full length, and one with the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    frames: u64,
    frame_bytes: usize,
    last_frame_bytes: usize,
}

impl Burst {
    /// Cuts `bytes` into frames of at most `frame_bytes` each, without check sequences. A rest that
    /// is shorter than any frame is padded to the shortest.
    pub fn cut(bytes: usize, frame_bytes: usize) -> Burst {
        let frame_bytes = frame_bytes.max(MIN_FRAME_BYTES);
        let frames = bytes.div_ceil(frame_bytes).max(1);
        let rest = bytes.saturating_sub((frames - 1) * frame_bytes);
        Burst {
            frames: frames as u64,
            frame_bytes,
            last_frame_bytes: rest.max(MIN_FRAME_BYTES).min(frame_bytes),
        }
    }

    /// Frames of a burst.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The length of its last frame in bytes, without check sequence.
    pub fn last_frame_bytes(&self) -> usize {
        self.last_frame_bytes
    }

    /// Whether the packet with this number is the last of its burst, where one burst follows the
    /// other from number 0 on.
    #[inline]
    pub fn ends_with(&self, sequence: u64) -> bool {
        sequence % self.frames == self.frames - 1
    }

    /// Bytes of its frames together, without check sequences.
    pub fn bytes(&self) -> u64 {
        (self.frames - 1) * self.frame_bytes as u64 + self.last_frame_bytes as u64
    }

    /// How long it takes on a line of this rate.
    pub fn line_time(&self, bits_per_second: u64) -> Span {
        wire_time(self.frame_bytes, bits_per_second) * (self.frames - 1)
            + wire_time(self.last_frame_bytes, bits_per_second)
    }

    /// The time from the start of one burst to the start of the next (their mean, for a random
    /// arrival) that makes such bursts take up `load` of the line, as a share above 0 up to 1.
    pub fn interval_at_load(&self, bits_per_second: u64, load: f64) -> Span {
        Span::from_ps((self.line_time(bits_per_second).as_ps() as f64 / load) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fifty_kilobytes_are_33_full_frames_and_a_rest() {
        let burst = Burst::cut(50_000, 1_514);
        assert_eq!((burst.frames(), burst.last_frame_bytes()), (34, MIN_FRAME_BYTES));
        assert_eq!(Burst::cut(50_000, 1_000).last_frame_bytes(), 1_000);
        assert!(burst.ends_with(33) && burst.ends_with(67) && !burst.ends_with(34));
        // 33 frames of 1,514 and one of 60 bytes, each with 24 bytes around it.
        let bits = 8 * (33 * (1_514 + 24) + 60 + 24);
        assert_eq!(burst.line_time(800_000_000).as_ps(), bits * 1_250);
        assert_eq!(burst.interval_at_load(800_000_000, 0.25).as_ps(), 4 * bits * 1_250);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_by_cutting(
            bytes in 0..=MAX_BURST_BYTES,
            frame in 0..=warikomi_nic::MAX_FRAME_BYTES,
        ) {
            let burst = Burst::cut(bytes, frame);
            let padding = burst.bytes() - (bytes as u64).min(burst.bytes());
            prop_assert!(burst.bytes() >= bytes as u64 && padding <= MIN_FRAME_BYTES as u64);
            prop_assert!((MIN_FRAME_BYTES..=frame.max(MIN_FRAME_BYTES))
                .contains(&burst.last_frame_bytes()));
        }
    }
}

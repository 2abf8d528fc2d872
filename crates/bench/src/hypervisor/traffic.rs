//! The traffic that both sides are given.

use warikomi_clock::Span;

/// The intervals that are asked for: the published one, and one at which anything keeps up.
pub(super) const INTERVALS: [Span; 2] = [Span::from_us(38), Span::from_us(1_000)];
/// Frames at each interval: what the guest notes of their interrupts fits in one answer of the agent's.
pub(super) const COUNT: u64 = 300;
/// Length of these frames in bytes.
pub(super) const SIZE_BYTES: usize = 1_500;
/// Frame lengths at which the driver's rate is measured, in bytes.
pub(super) const RATE_SIZES: [usize; 2] = [64, 1_500];

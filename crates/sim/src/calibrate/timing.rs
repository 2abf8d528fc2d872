//! How long a call takes, and what follows from it for two lengths.

use warikomi_clock::TscClock;

pub(super) const ROUNDS: usize = 7;

/// Two lengths from which the cost by packet and by byte follows.
pub(super) const SIZES: [usize; 2] = [64, 8_000];

/// The least time of `times` calls, in nanoseconds a call.
pub(super) fn least_ns(clock: &TscClock, times: u64, mut call: impl FnMut()) -> f64 {
    let round = |_| {
        let start = clock.now();
        (0..times).for_each(|_| call());
        clock.now().since(start).as_ns() / times as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// By packet in nanoseconds, and by byte in picoseconds, from the times for both of `SIZES`.
pub(super) fn line([short, long]: [f64; 2]) -> (u64, u64) {
    let per_byte = ((long - short) / (SIZES[1] - SIZES[0]) as f64).max(0.0);
    let per_packet = (short - per_byte * SIZES[0] as f64).max(1.0);
    (per_packet.round() as u64, (per_byte * 1e3).round() as u64)
}

pub(super) fn whole(ns: f64) -> u64 {
    ns.round().max(1.0) as u64
}

//! When things happened to each packet: 28 bytes a packet, allocated and touched beforehand.

use warikomi_clock::{Span, Time};

use super::packet::{Fate, Packet, Row};

/// Columns rather than rows, because the loop that injects writes the first three only.
#[derive(Debug)]
pub(super) struct Times {
    planned: Vec<u64>,
    injected: Vec<u64>,
    took_ps: Vec<u32>,
    accepted_ns: Vec<u32>,
    delivered_ns: Vec<u32>,
}

/// Not known.
const UNKNOWN: u32 = u32::MAX;
/// Marks a count of steps.
const STEPS: u32 = 1 << 31;
/// A step, as a power of two.
const STEP_BITS: u32 = 20;

/// A count in 32 bits: exact below 2^31 (2.1 ms of picoseconds, 2.1 s of nanoseconds), then in steps of 2^20, which are
/// half a thousandth of it at most. What is beyond these is the greatest.
#[inline]
fn packed(count: u64) -> u32 {
    match u32::try_from(count) {
        Ok(exact) if exact < STEPS => exact,
        _ => STEPS | (count >> STEP_BITS).min(u64::from(UNKNOWN - STEPS - 1)) as u32,
    }
}

fn unpacked(packed: u32) -> Option<u64> {
    match packed {
        UNKNOWN => None,
        steps if steps & STEPS != 0 => Some(u64::from(steps & !STEPS) << STEP_BITS),
        exact => Some(exact.into()),
    }
}

impl Times {
    pub(super) fn new(len: usize) -> Times {
        Times {
            planned: vec![u64::MAX; len],
            injected: vec![u64::MAX; len],
            took_ps: vec![UNKNOWN; len],
            accepted_ns: vec![UNKNOWN; len],
            delivered_ns: vec![UNKNOWN; len],
        }
    }

    #[inline]
    pub(super) fn injected(&mut self, packet: &Packet) {
        let at = packet.sequence as usize;
        self.planned[at] = packet.planned.as_ps();
        self.injected[at] = packet.injected.as_ps();
        self.took_ps[at] = packed(packet.took.as_ps());
    }

    pub(super) fn accepted(&mut self, sequence: u64, at: Time) {
        self.accepted_ns[sequence as usize] = self.after_injection(sequence, at);
    }

    pub(super) fn delivered(&mut self, sequence: u64, at: Time) {
        self.delivered_ns[sequence as usize] = self.after_injection(sequence, at);
    }

    fn after_injection(&self, sequence: u64, at: Time) -> u32 {
        let after = at.since(Time::from_ps(self.injected[sequence as usize]));
        packed(after.as_ps() / 1_000)
    }

    pub(super) fn fill(&self, row: Row) -> Row {
        let at = row.sequence as usize;
        let injected = Time::from_ps(self.injected[at]);
        let after = |ns: u32| unpacked(ns).map(|ns| injected + Span::from_ns(ns));
        Row {
            planned: Some(Time::from_ps(self.planned[at])),
            injected: Some(injected),
            took: unpacked(self.took_ps[at]).map(Span::from_ps),
            accepted: after(self.accepted_ns[at]),
            delivered: after(self.delivered_ns[at]).filter(|_| row.fate == Fate::Delivered),
            ..row
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_count_comes_back_exactly_or_within_half_a_thousandth(bits in 0u32..51, low: u64) {
            let count = 1 << bits | low & ((1 << bits) - 1);
            let back = unpacked(packed(count)).unwrap();
            prop_assert!(back <= count && count - back <= count / 2_048, "{count}: {back}");
            prop_assert!(count >= u64::from(STEPS) || back == count);
        }
    }

    #[test]
    fn what_takes_too_long_for_any_count_is_known_still() {
        assert_eq!((unpacked(packed(0)), unpacked(UNKNOWN)), (Some(0), None));
        let longest = u64::from(UNKNOWN - STEPS - 1) << STEP_BITS;
        assert_eq!([u64::MAX, longest].map(|count| unpacked(packed(count))), [Some(longest); 2]);
    }
}

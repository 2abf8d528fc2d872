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

/// Not known, or longer after the injection than a `u32` holds: 4.3 ms for how long the injection
/// took (in picoseconds), 4.3 s for the others (in nanoseconds).
const UNKNOWN: u32 = u32::MAX;

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
        self.took_ps[at] = u32::try_from(packet.took.as_ps()).unwrap_or(UNKNOWN);
    }

    pub(super) fn accepted(&mut self, sequence: u64, at: Time) {
        self.accepted_ns[sequence as usize] = self.after_injection(sequence, at);
    }

    pub(super) fn delivered(&mut self, sequence: u64, at: Time) {
        self.delivered_ns[sequence as usize] = self.after_injection(sequence, at);
    }

    fn after_injection(&self, sequence: u64, at: Time) -> u32 {
        let after = at.since(Time::from_ps(self.injected[sequence as usize]));
        u32::try_from(after.as_ps() / 1_000).unwrap_or(UNKNOWN)
    }

    pub(super) fn fill(&self, row: Row) -> Row {
        let at = row.sequence as usize;
        let injected = Time::from_ps(self.injected[at]);
        let known = |value: u32| (value != UNKNOWN).then_some(u64::from(value));
        let after = |ns: u32| known(ns).map(|ns| injected + Span::from_ns(ns));
        Row {
            planned: Some(Time::from_ps(self.planned[at])),
            injected: Some(injected),
            took: known(self.took_ps[at]).map(Span::from_ps),
            accepted: after(self.accepted_ns[at]),
            delivered: after(self.delivered_ns[at]).filter(|_| row.fate == Fate::Delivered),
            ..row
        }
    }
}

//! A workload of numbered datagrams beside a TCP stream: what came of it, and when.

use std::collections::VecDeque;

use etherparse::{IpNumber, TransportSlice};
use warikomi_clock::{Span, Time};

use super::numbered::{self, Look, Numbered};
use super::packet::{claimed_protocol, datagram_for_us, transport_for_us};
use super::{Fate, Judge};

/// Times of frames that are kept: at a million frames in a second those of the last 4 ms.
const TIMES_KEPT: usize = 4_096;

/// Datagrams and segments that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The numbered datagrams.
    pub datagrams: numbered::Seen,
    /// Frames of the workload: datagrams, and segments with data.
    pub frames: u64,
    /// Of these, segments.
    pub segments: u64,
    /// Of these, segments that had come before.
    pub again: u64,
    /// The longest time between two of them.
    pub longest_gap: Option<Span>,
}

/// Judges datagrams, which it keeps, by their numbers, and counts what a TCP stream sends; what else comes is
/// not the workload's. Where numbers alone are judged, a datagram to another port is not either.
#[derive(Debug, Default)]
pub struct Workload {
    /// Judges the datagrams.
    pub datagrams: Numbered,
    times: VecDeque<Time>,
    frames: u64,
    longest_gap: Option<Span>,
    segments: Segments,
}

impl Workload {
    /// Datagrams and segments so far.
    pub fn seen(&self) -> Seen {
        let Segments { count, again, .. } = self.segments;
        Seen {
            datagrams: self.datagrams.seen(),
            frames: self.frames,
            segments: count,
            again,
            longest_gap: self.longest_gap,
        }
    }

    /// When frames of the workload came, from then on, as far as it is kept.
    pub fn times_since(&self, from: Time) -> Vec<Time> {
        self.times.iter().copied().skip_while(|&time| time < from).collect()
    }

    /// Whether a frame of the workload has come since then.
    pub fn came_since(&self, from: Time) -> bool {
        self.times.back().is_some_and(|&last| last > from)
    }

    fn note(&mut self, now: Time) {
        self.frames += 1;
        let gap = self.times.back().map(|&last| now.since(last));
        self.longest_gap = self.longest_gap.max(gap);
        if self.times.len() == TIMES_KEPT {
            self.times.pop_front();
        }
        self.times.push_back(now);
    }

    fn is_datagram(&self, frame: &[u8]) -> bool {
        claimed_protocol(frame) == Some(IpNumber::UDP)
            && (self.datagrams.look() != Look::Number || datagram_for_us(frame).is_some())
    }
}

impl Judge for Workload {
    fn frame(&mut self, now: Time, frame: &[u8]) -> Fate {
        if self.is_datagram(frame) {
            self.note(now);
            return self.datagrams.frame(now, frame);
        }
        if let Some(TransportSlice::Tcp(tcp)) = transport_for_us(frame)
            // A frame has fewer bytes than a sequence number can count: nothing is cut off.
            && self.segments.take(tcp.source_port(), tcp.sequence_number(), tcp.payload().len() as u32)
        {
            self.note(now);
        }
        Fate::Passed
    }
}

/// TCP segments with data, of one connection at a time.
#[derive(Debug, Default)]
struct Segments {
    count: u64,
    again: u64,
    /// Port that the connection comes from, and the number behind the last byte that came.
    connection: Option<(u16, u32)>,
}

impl Segments {
    /// Takes a segment; whether it has data.
    fn take(&mut self, port: u16, sequence: u32, bytes: u32) -> bool {
        if bytes == 0 {
            return false;
        }
        self.count += 1;
        let end = sequence.wrapping_add(bytes);
        match &mut self.connection {
            // Numbers wrap (RFC 9293, 3.4): behind is what is less than half of them away.
            Some((known, highest)) if *known == port => {
                if end.wrapping_sub(*highest).cast_signed() > 0 {
                    *highest = end;
                } else {
                    self.again += 1;
                }
            }
            other => *other = Some((port, end)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::JudgingPeer;
    use crate::{Responder, Wire};
    use proptest::prelude::*;

    #[test]
    fn a_segment_that_comes_again_is_told_from_a_new_one_also_where_numbers_wrap() {
        let mut segments = Segments::default();
        let start = u32::MAX - 1_500;
        for at in [0u32, 1_024, 1_024, 2_048, 0] {
            assert!(segments.take(7, start.wrapping_add(at), 1_024));
        }
        assert!(!segments.take(7, start, 0), "an acknowledgement");
        assert_eq!((segments.count, segments.again), (5, 2));
        // Another connection begins anew.
        segments.take(8, 0, 1);
        assert_eq!((segments.count, segments.again), (6, 2));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_frame(frame in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..3) {
            let (mut wire, judged) = JudgingPeer::new(Workload::default(), Responder::default());
            let mut frame = frame;
            if frame.len() > 23 && kind > 0 {
                frame[12..14].copy_from_slice(&[8, 0]);
                frame[23] = [IpNumber::TCP, IpNumber::UDP][kind - 1].0;
            }
            wire.transmit(Time::from_ps(1), &frame);
            prop_assert!(judged.lock().times_since(Time::ZERO).len() <= 1);
        }
    }
}

//! The other end of the cable: a host that takes the TCP stream, a judge of datagrams, and a note of when frames
//! of the workload came.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etherparse::{SlicedPacket, TransportSlice};
use warikomi_clock::Time;
use warikomi_wire::{Responder, Responses, Wire, WireCounters};

use crate::transmit::wire::{Judge, OrderedSink};

/// Times of frames that are kept: at a million frames in a second those of the last 4 ms.
const TIMES_KEPT: usize = 4_096;
const ETHERTYPE_AT: std::ops::Range<usize> = 12..14;
const IPV4: [u8; 2] = [0x08, 0x00];
/// Of the IP header's protocol, in a frame.
const PROTOCOL_AT: usize = 23;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What the wire has seen, for whoever cannot get at it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    seen: Arc<Mutex<Seen>>,
    /// Of datagrams.
    pub(super) judge: Judge,
    /// Of the host.
    pub(super) responses: Arc<Responses>,
}

#[derive(Debug, Default)]
struct Seen {
    times: VecDeque<Time>,
    segments: Segments,
}

impl Watched {
    /// When frames of the workload came, from then on, as far as it is kept.
    pub(super) fn times_since(&self, from: Time) -> Vec<Time> {
        self.seen().times.iter().copied().skip_while(|&time| time < from).collect()
    }

    /// Whether a frame of the workload has come since then.
    pub(super) fn came_since(&self, from: Time) -> bool {
        self.seen().times.back().is_some_and(|&last| last > from)
    }

    /// TCP segments with data since the start, and how many of them had come before.
    pub(super) fn segments(&self) -> (u64, u64) {
        let Segments { count, again, .. } = self.seen().segments;
        (count, again)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // It is only counted: whoever panicked has left sound numbers.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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

/// See the module.
pub(super) struct WorkWire {
    host: Responder,
    datagrams: OrderedSink,
    seen: Arc<Mutex<Seen>>,
}

impl WorkWire {
    pub(super) fn new() -> (WorkWire, Watched) {
        let host = Responder::default();
        let (datagrams, judge) = OrderedSink::new();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let watched = Watched { seen: Arc::clone(&seen), judge, responses: host.responses() };
        (WorkWire { host, datagrams, seen }, watched)
    }

    /// Notes the time of a frame if `is_data` says that it belongs to the workload.
    fn note(&mut self, now: Time, is_data: impl FnOnce(&mut Segments) -> bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if is_data(&mut seen.segments) {
            if seen.times.len() == TIMES_KEPT {
                seen.times.pop_front();
            }
            seen.times.push_back(now);
        }
    }
}

impl Wire for WorkWire {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        let is_ip = frame.get(ETHERTYPE_AT) == Some(&IPV4);
        match frame.get(PROTOCOL_AT).filter(|_| is_ip) {
            Some(&UDP) => {
                self.note(now, |_| true);
                self.datagrams.transmit(now, frame);
            }
            Some(&TCP) => {
                self.note(now, |segments| match segment(frame) {
                    Some((port, sequence, bytes)) => segments.take(port, sequence, bytes),
                    None => false,
                });
                self.host.transmit(now, frame);
            }
            _ => self.host.transmit(now, frame),
        }
    }

    fn next_arrival(&self) -> Time {
        self.host.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        self.host.receive(now)
    }

    fn counters(&self) -> WireCounters {
        let (host, datagrams) = (self.host.counters(), self.datagrams.counters());
        WireCounters {
            tx_frames: host.tx_frames + datagrams.tx_frames,
            tx_bytes: host.tx_bytes + datagrams.tx_bytes,
            ..host
        }
    }
}

/// Source port, sequence number and length of the data of a TCP segment.
fn segment(frame: &[u8]) -> Option<(u16, u32, u32)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return None };
    let bytes = u32::try_from(tcp.payload().len()).ok()?;
    Some((tcp.source_port(), tcp.sequence_number(), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let (mut wire, watched) = WorkWire::new();
            let mut frame = frame;
            if frame.len() > PROTOCOL_AT && kind > 0 {
                frame[ETHERTYPE_AT].copy_from_slice(&IPV4);
                frame[PROTOCOL_AT] = [TCP, UDP][kind - 1];
            }
            wire.transmit(Time::from_ps(1), &frame);
            prop_assert!(watched.times_since(Time::ZERO).len() <= 1);
        }
    }
}

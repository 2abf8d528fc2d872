//! The other end of a kernel's cable: numbered frames for the guest, whatever its driver is doing, and a
//! judge of what the guest sends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use warikomi_clock::{Span, Time};
use warikomi_inject::{FrameTemplate, NETWORK_IP, UDP_PORT};
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_protocol::commands::ReceiveStart;
use warikomi_protocol::record::Record;
use warikomi_wire::{Responder, Wire, WireCounters};

/// Frames for the guest, one every interval.
struct Source {
    template: FrameTemplate,
    interval: Span,
    due: Time,
    sequence: u64,
}

/// What the wire and whoever asks it share.
#[derive(Default)]
struct State {
    source: Option<Source>,
    /// Frames that the source has sent since it began.
    arrived: u64,
    datagrams: Option<Record>,
    /// Frames of the workload: datagrams, and segments with data.
    last_frame: Option<Time>,
    longest_gap: Span,
    frames: u64,
    segments: u64,
}

/// Tells the wire what to send, and reads what came.
#[derive(Clone, Default)]
pub struct Traffic(Arc<Mutex<State>>);

/// What the guest has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its numbered datagrams.
    pub(super) datagrams: ReceiveTotals,
    /// Frames of the workload: datagrams, and segments with data.
    pub(super) frames: u64,
    /// Of these, segments.
    pub(super) segments: u64,
    /// The longest time between two of them.
    pub(super) longest_gap: Option<Span>,
}

impl Traffic {
    /// Forgets what came, and expects the datagrams of `run_id`.
    pub(super) fn expect(&self, run_id: u32) {
        let record = ReceiveStart { max_runs: 1, ..ReceiveStart::on_port(UDP_PORT, run_id) };
        *self.state() = State { datagrams: Some(Record::new(&record)), ..State::default() };
    }

    /// From `start` on sends a frame every `interval`.
    pub(super) fn begin(&self, template: FrameTemplate, interval: Span, start: Time) {
        self.state().source = Some(Source { template, interval, due: start, sequence: 0 });
    }

    /// Sends no more frames; how many it has sent.
    pub(super) fn end(&self) -> u64 {
        let mut state = self.state();
        state.source = None;
        state.arrived
    }

    /// What has come so far.
    pub(super) fn seen(&self) -> Seen {
        let state = self.state();
        Seen {
            datagrams: state.datagrams.as_ref().map(Record::totals).unwrap_or_default(),
            frames: state.frames,
            segments: state.segments,
            longest_gap: (state.frames > 1).then_some(state.longest_gap),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is only counted: whoever panicked has left sound numbers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host at the other end of the cable. The guest's datagrams it judges and nobody answers; what else
/// comes, such as ARP and TCP, is answered as [`Responder`] does.
pub struct TrafficHost {
    traffic: Traffic,
    host: Responder,
    /// Datagrams and numbered frames, which the host does not get to see.
    own: WireCounters,
}

impl TrafficHost {
    /// A host that is quiet, and what tells it what to send.
    pub fn new() -> (TrafficHost, Traffic) {
        let traffic = Traffic::default();
        let (host, own) = (Responder::default(), WireCounters::default());
        (TrafficHost { traffic: traffic.clone(), host, own }, traffic)
    }
}

impl Wire for TrafficHost {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        match Kind::of(frame) {
            Kind::Datagram(payload) => {
                self.own.tx_frames += 1;
                self.own.tx_bytes += frame.len() as u64;
                self.traffic.state().datagram(now, payload);
            }
            Kind::Segment => {
                self.traffic.state().segment(now);
                self.host.transmit(now, frame);
            }
            Kind::Other => self.host.transmit(now, frame),
        }
    }

    fn next_arrival(&self) -> Time {
        self.host.next_arrival().min(self.traffic.state().due())
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        if let Some(frame) = self.traffic.state().arrive(now) {
            self.own.rx_frames += 1;
            self.own.rx_bytes += frame.len() as u64;
            return Some(frame);
        }
        self.host.receive(now)
    }

    fn counters(&self) -> WireCounters {
        let host = self.host.counters();
        WireCounters {
            tx_frames: host.tx_frames + self.own.tx_frames,
            tx_bytes: host.tx_bytes + self.own.tx_bytes,
            rx_frames: host.rx_frames + self.own.rx_frames,
            rx_bytes: host.rx_bytes + self.own.rx_bytes,
            ..host
        }
    }
}

impl State {
    fn due(&self) -> Time {
        self.source.as_ref().map_or(Time::NEVER, |source| source.due)
    }

    /// The next numbered frame, if it is due.
    fn arrive(&mut self, now: Time) -> Option<Vec<u8>> {
        let source = self.source.as_mut().filter(|source| source.due <= now)?;
        let frame = source.template.frame(source.sequence).bytes.to_vec();
        source.sequence += 1;
        source.due += source.interval;
        self.arrived += 1;
        Some(frame)
    }

    fn datagram(&mut self, now: Time, payload: &[u8]) {
        if let Some(record) = &mut self.datagrams {
            record.begin_batch(1, usize::MAX, now.as_ps());
            record.datagram(payload, payload.len(), now.as_ps());
        }
        self.frame(now);
    }

    fn segment(&mut self, now: Time) {
        self.segments += 1;
        self.frame(now);
    }

    fn frame(&mut self, now: Time) {
        self.frames += 1;
        let gap = self.last_frame.replace(now).map(|last| now.since(last));
        self.longest_gap = self.longest_gap.max(gap.unwrap_or(Span::ZERO));
    }
}

/// What a frame of the guest is.
enum Kind<'a> {
    /// A datagram to be judged, with its payload.
    Datagram(&'a [u8]),
    /// A TCP segment with data.
    Segment,
    /// Whatever else.
    Other,
}

impl Kind<'_> {
    fn of(frame: &[u8]) -> Kind<'_> {
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return Kind::Other };
        let to_us = match &packet.net {
            Some(NetSlice::Ipv4(ip)) => ip.header().destination_addr() == NETWORK_IP,
            _ => false,
        };
        match packet.transport {
            Some(TransportSlice::Udp(udp)) if to_us && udp.destination_port() == UDP_PORT => {
                Kind::Datagram(udp.payload())
            }
            Some(TransportSlice::Tcp(tcp)) if to_us && !tcp.payload().is_empty() => Kind::Segment,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

//! What a NIC is cabled to.
//!
//! A wire takes what the NIC transmits and may have frames for it. Wires stack: a wire can wrap
//! another, to record or to limit what passes. What passes is a [`Frame`].

mod cable;
mod datagram;
mod echo;
mod frame;
mod kind;
mod loopback;
mod network;
mod pcap;
pub mod peer;
mod queue;
mod rate;
mod replies;
mod responder;
mod sink;

use std::ops::Add;

use warikomi_clock::Time;

pub use cable::Cable;
pub use datagram::Datagrams;
pub use echo::Echo;
pub use frame::{
    FCS_BYTES, Frame, HEADER_BYTES, LONGEST_FRAME_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES, fcs,
};
pub use kind::{ParseWireError, Sockets, WireKind};
pub use loopback::Loopback;
pub use network::{
    FAR_IP, FAR_MAC, GUEST_IP, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET, UDP_HEADER_BYTES, UDP_PORT,
};
pub use pcap::PcapWriter;
pub use rate::{bytes_time, wire_time};
pub use replies::{ECHO_NUMBER_BYTES, EchoReplies, EchoReply, EchoWatch};
pub use responder::{EchoPlan, Echoes, Responder, Responses};
pub use sink::CountedSink;

/// The other end of the cable.
pub trait Wire: Send {
    /// Takes a frame that the NIC sends at `now`, without check sequence.
    fn transmit(&mut self, now: Time, frame: &[u8]);

    /// When the next frame for the NIC arrives; [`Time::NEVER`] if none is on its way. A wire that
    /// has something of its own to do (a retransmission) may name that time, and then has no frame.
    fn next_arrival(&self) -> Time;

    /// A frame that has arrived by `now`, without check sequence.
    fn receive(&mut self, now: Time) -> Option<Vec<u8>>;

    /// Frames and bytes so far.
    fn counters(&self) -> WireCounters;

    /// Brings to its end what the wire does elsewhere, such as writing a file. An error says that
    /// not everything got there.
    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Wire for Box<dyn Wire> {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        (**self).transmit(now, frame);
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        (**self).next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        (**self).receive(now)
    }

    fn counters(&self) -> WireCounters {
        (**self).counters()
    }

    fn finish(&mut self) -> std::io::Result<()> {
        (**self).finish()
    }
}

/// Frames and bytes that passed, without check sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames that the NIC sent.
    pub tx_frames: u64,
    /// Bytes of the transmitted frames.
    pub tx_bytes: u64,
    /// Frames for the NIC.
    pub rx_frames: u64,
    /// Bytes of the received frames.
    pub rx_bytes: u64,
    /// Frames that the wire had to drop, because a queue of its own was full.
    pub dropped: u64,
}

impl WireCounters {
    fn sent(&mut self, frame: &[u8]) {
        self.tx_frames += 1;
        self.tx_bytes += frame.len() as u64;
    }

    fn received(&mut self, frame: &[u8]) {
        self.rx_frames += 1;
        self.rx_bytes += frame.len() as u64;
    }
}

impl Add for WireCounters {
    type Output = WireCounters;

    fn add(self, other: WireCounters) -> WireCounters {
        WireCounters {
            tx_frames: self.tx_frames + other.tx_frames,
            tx_bytes: self.tx_bytes + other.tx_bytes,
            rx_frames: self.rx_frames + other.rx_frames,
            rx_bytes: self.rx_bytes + other.rx_bytes,
            dropped: self.dropped + other.dropped,
        }
    }
}

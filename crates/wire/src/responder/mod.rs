//! A host at the other end of the cable, with smoltcp as its network stack.

mod echo;
mod responses;
mod stack;
mod stream;

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr,
};
use warikomi_clock::{Span, Time};

use super::queue::Queue;
use super::{Wire, WireCounters};
use crate::{MIN_FRAME_BYTES, NETWORK_IP, NETWORK_MAC};
pub use echo::{EchoPlan, Echoes};
pub use responses::Responses;
use stack::Stack;

/// Where an IPv4 header has its source (RFC 791, 3.1).
const IPV4_SOURCE: std::ops::Range<usize> = 12..16;

/// A host that answers ARP and ICMP echo, swallows TCP, and checks UDP; and, if it is told to, a client of an
/// echo service.
///
/// - TCP, port [`TCP_PORT`](Self::TCP_PORT): takes up to eight connections at a time, counts and judges
///   what it receives and discards it.
/// - UDP, port [`UDP_PORT`](Self::UDP_PORT): counts datagrams. The first eight bytes of each are
///   its number, most significant byte first, starting at 0; gaps and repetitions are counted.
pub struct Responder {
    stack: Stack,
    queue: Queue,
    delay: Span,
    /// When the stack wants to run without having received anything.
    stack_due: Time,
    counters: WireCounters,
    responses: Arc<Responses>,
    next_number: u64,
    /// Who spoke last, so that an answer needs no question who has the address.
    met: Option<Ipv4Addr>,
}

impl Responder {
    /// The host's address; its network has 24 bits.
    pub const ADDRESS: Ipv4Addr = NETWORK_IP;
    /// The host's Ethernet address.
    pub const MAC: [u8; 6] = NETWORK_MAC;
    /// TCP port that reads and discards everything.
    pub const TCP_PORT: u16 = stack::TCP_PORT;
    /// UDP port that counts datagrams.
    pub const UDP_PORT: u16 = stack::UDP_PORT;
    /// How long an answer takes.
    pub const DELAY: Span = Span::from_us(1);
    const QUEUE_FRAMES: usize = 4_096;

    /// A host at `address`, in a network of 24 bits.
    pub fn new(address: Ipv4Addr) -> Self {
        Responder {
            stack: Stack::new(address),
            queue: Queue::new(Self::QUEUE_FRAMES),
            delay: Self::DELAY,
            stack_due: Time::NEVER,
            counters: WireCounters::default(),
            responses: Arc::default(),
            next_number: 0,
            met: None,
        }
    }

    /// Answers for every address of its network, not only for its own.
    pub fn answering_for_all(mut self) -> Self {
        self.stack.answer_for_all();
        self
    }

    /// Is a client of an echo service besides, as soon as what is given back tells it to begin.
    pub fn with_echo_client(mut self, plan: EchoPlan) -> (Self, Arc<Echoes>) {
        let seen = self.stack.add_echo_client(plan);
        self.stack_due = Time::ZERO;
        (self, seen)
    }

    /// A handle on what it sees.
    pub fn responses(&self) -> Arc<Responses> {
        Arc::clone(&self.responses)
    }

    /// Tells the stack the sender's Ethernet address, as if the sender had announced it.
    ///
    /// The stack learns addresses from ARP only, and drops the first answer to a host that it has
    /// to ask for first, as the target under test would never do to it.
    fn meet(&mut self, frame: &[u8]) {
        let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return };
        if ethernet.ethertype() != EthernetProtocol::Ipv4 {
            return;
        }
        // The rest of the packet is the stack's to judge.
        let Some(ip) = ethernet.payload().get(IPV4_SOURCE).and_then(<[u8]>::first_chunk) else {
            return;
        };
        let ip = Ipv4Addr::from(*ip);
        if self.met.replace(ip) != Some(ip) {
            self.stack.arrived(announcement(ethernet.src_addr(), ip, self.stack.address()));
        }
    }

    fn run(&mut self, now: Time) {
        let due = self.stack.run(now, &self.responses, &mut self.next_number);
        // The stack counts in microseconds: the next one at the earliest.
        self.stack_due = due.max(now + Span::from_us(1));
        for mut frame in self.stack.sent() {
            frame.resize(frame.len().max(MIN_FRAME_BYTES), 0);
            if !self.queue.push(now + self.delay, frame) {
                self.counters.dropped += 1;
            }
        }
    }
}

/// An ARP reply to us: the host with this address has this Ethernet address.
fn announcement(mac: EthernetAddress, ip: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let us = EthernetAddress(Responder::MAC);
    let arp = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: mac,
        source_protocol_addr: ip,
        target_hardware_addr: us,
        target_protocol_addr: to,
    };
    let ethernet = EthernetRepr { src_addr: mac, dst_addr: us, ethertype: EthernetProtocol::Arp };
    let mut bytes = vec![0; ethernet.buffer_len() + arp.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
    ethernet.emit(&mut frame);
    arp.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

impl Default for Responder {
    fn default() -> Self {
        Responder::new(Self::ADDRESS)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("counters", &self.counters)
            .field("responses", &self.responses)
            .finish_non_exhaustive()
    }
}

impl Wire for Responder {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.counters.sent(frame);
        self.meet(frame);
        self.stack.arrived(frame.to_vec());
        self.run(now);
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        self.queue.next_arrival().min(self.stack_due)
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.stack_due <= now {
            self.run(now);
        }
        let frame = self.queue.pop(now)?;
        self.counters.received(&frame);
        Some(frame)
    }

    fn counters(&self) -> WireCounters {
        self.counters
    }
}

#[cfg(test)]
mod echo_tests;
#[cfg(test)]
mod tests;

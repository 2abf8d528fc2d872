//! A host at the other end of the cable, with smoltcp as its network stack.

mod echo;
mod responses;
mod stack;
mod stream;

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use warikomi_clock::{Span, Time};

use super::queue::Queue;
use super::{Wire, WireCounters};
use crate::MIN_FRAME_BYTES;
pub use echo::{EchoPlan, Echoes};
pub use responses::Responses;
use stack::Stack;

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
    met: Option<[u8; 4]>,
}

impl Responder {
    /// The host's address; its network has 24 bits.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    /// The host's Ethernet address.
    pub const MAC: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 2];
    /// Where TCP is swallowed.
    pub const TCP_PORT: u16 = 5_001;
    /// Where UDP is counted.
    pub const UDP_PORT: u16 = 5_002;
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
        const IPV4: [u8; 2] = [0x08, 0x00];
        if frame.get(12..14) != Some(&IPV4) {
            return;
        }
        let (Some(mac), Some(ip)) = (frame.get(6..12), frame.get(26..30)) else { return };
        let ip = [ip[0], ip[1], ip[2], ip[3]];
        if self.met.replace(ip) == Some(ip) {
            return;
        }
        let mut announcement = Vec::with_capacity(42);
        announcement.extend_from_slice(&Self::MAC);
        announcement.extend_from_slice(mac);
        // ARP (RFC 826): Ethernet, IPv4, lengths 6 and 4, a reply.
        announcement.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 2]);
        announcement.extend_from_slice(mac);
        announcement.extend_from_slice(&ip);
        announcement.extend_from_slice(&Self::MAC);
        announcement.extend_from_slice(&self.stack.address().octets());
        self.stack.arrived(announcement);
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

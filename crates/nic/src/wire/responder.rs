//! A host at the other end of the cable, with smoltcp as its network stack.

use std::collections::VecDeque;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use warikomi_clock::{Span, Time};

use super::queue::Queue;
use super::{Wire, WireCounters};
use crate::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};

/// A host that answers ARP and ICMP echo, swallows TCP, and checks UDP.
///
/// - TCP, port [`TCP_PORT`](Self::TCP_PORT): takes up to eight connections at a time, counts what
///   it receives and discards it.
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

/// What a [`Responder`] has seen, for whoever cannot get at the responder itself.
#[derive(Debug, Default)]
pub struct Responses {
    tcp_bytes: AtomicU64,
    udp_datagrams: AtomicU64,
    udp_bytes: AtomicU64,
    udp_missing: AtomicU64,
    udp_repeated: AtomicU64,
    udp_malformed: AtomicU64,
}

impl Responses {
    /// Payload bytes received over TCP.
    pub fn tcp_bytes(&self) -> u64 {
        self.tcp_bytes.load(Ordering::Relaxed)
    }

    /// Datagrams received on the UDP port.
    pub fn udp_datagrams(&self) -> u64 {
        self.udp_datagrams.load(Ordering::Relaxed)
    }

    /// Their payload bytes.
    pub fn udp_bytes(&self) -> u64 {
        self.udp_bytes.load(Ordering::Relaxed)
    }

    /// Numbers that were skipped. One that comes late counts here and in
    /// [`udp_repeated`](Self::udp_repeated).
    pub fn udp_missing(&self) -> u64 {
        self.udp_missing.load(Ordering::Relaxed)
    }

    /// Datagrams whose number was not above every earlier one.
    pub fn udp_repeated(&self) -> u64 {
        self.udp_repeated.load(Ordering::Relaxed)
    }

    /// Datagrams too short to hold a number.
    pub fn udp_malformed(&self) -> u64 {
        self.udp_malformed.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
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
        self.stack.interface.set_any_ip(true);
        self
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
        announcement.extend_from_slice(&self.stack.address.octets());
        self.stack.cable.arrived.push_back(announcement);
    }

    fn run(&mut self, now: Time) {
        let outcome = self.stack.run(instant(now), &self.responses, &mut self.next_number);
        self.stack_due = outcome.map_or(Time::NEVER, |due| {
            // The stack counts in microseconds: the next one at the earliest.
            time(due).max(now + Span::from_us(1))
        });
        for mut frame in self.stack.cable.sent.drain(..) {
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
        self.stack.cable.arrived.push_back(frame.to_vec());
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

fn instant(now: Time) -> Instant {
    let us = now.as_ps() / Span::from_us(1).as_ps();
    Instant::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}

fn time(instant: Instant) -> Time {
    let us = u64::try_from(instant.total_micros()).unwrap_or(0);
    Time::ZERO + Span::from_us(us)
}

/// smoltcp, and the sockets.
struct Stack {
    address: Ipv4Addr,
    cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: [SocketHandle; 8],
    udp: SocketHandle,
}

impl Stack {
    fn new(address: Ipv4Addr) -> Self {
        let mut cable = Cable::default();
        let mac = HardwareAddress::Ethernet(EthernetAddress(Responder::MAC));
        let mut interface = Interface::new(Config::new(mac), &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for at least one.
            let _ = addresses.push(IpCidr::new(address.into(), 24));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let tcp = std::array::from_fn(|_| {
            let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
            sockets.add(tcp::Socket::new(buffer(1 << 20), buffer(1 << 12)))
        });
        let buffer = |packets, bytes| {
            udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; packets], vec![0; bytes])
        };
        let mut socket = udp::Socket::new(buffer(64, 1 << 18), buffer(1, 1 << 10));
        // It cannot fail: the port is not 0, and the socket is not open yet.
        let _ = socket.bind(Responder::UDP_PORT);
        let udp = sockets.add(socket);
        Stack { address, cable, interface, sockets, tcp, udp }
    }

    /// Lets the stack work. When it wants to work again.
    fn run(&mut self, now: Instant, seen: &Responses, next: &mut u64) -> Option<Instant> {
        self.listen();
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
        if self.drain_tcp(seen) {
            // The window is open again, which the sender must hear of.
            self.interface.poll(now, &mut self.cable, &mut self.sockets);
        }
        self.drain_udp(seen, next);
        self.interface.poll_at(now, &self.sockets)
    }

    fn listen(&mut self) {
        for handle in self.tcp {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
            if !socket.is_open() {
                // It cannot fail: the port is not 0, and the socket is closed.
                let _ = socket.listen(Responder::TCP_PORT);
            }
        }
    }

    /// Whether anything was taken out.
    fn drain_tcp(&mut self, seen: &Responses) -> bool {
        let mut drained = false;
        for handle in self.tcp {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
            while socket.can_recv() {
                let Ok(bytes) = socket.recv(|bytes| (bytes.len(), bytes.len())) else { break };
                add(&seen.tcp_bytes, bytes as u64);
                drained = true;
            }
            if socket.state() == tcp::State::CloseWait {
                socket.close();
                drained = true;
            }
        }
        drained
    }

    fn drain_udp(&mut self, seen: &Responses, next: &mut u64) {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.udp);
        while let Ok((payload, _)) = socket.recv() {
            add(&seen.udp_datagrams, 1);
            add(&seen.udp_bytes, payload.len() as u64);
            let Some(number) = payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) else {
                add(&seen.udp_malformed, 1);
                continue;
            };
            match number.checked_sub(*next) {
                Some(skipped) => {
                    add(&seen.udp_missing, skipped);
                    *next = number.saturating_add(1);
                }
                None => add(&seen.udp_repeated, 1),
            }
        }
    }
}

/// What smoltcp takes for a network card.
#[derive(Default)]
struct Cable {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Device for Cable {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Sent<'_>)> {
        Some((Arrived(self.arrived.pop_front()?), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MAX_FRAME_BYTES;
        capabilities
    }
}

struct Arrived(Vec<u8>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}

#[cfg(test)]
mod tests;

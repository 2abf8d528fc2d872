//! What is not a datagram: ARP, ICMP echo and one TCP connection, by smoltcp.
//!
//! These frames are copied: out of the buffer that they came in, and into one of the stack's own.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use vm_memory::{Bytes, VolatileSlice};
use warikomi_clock::{Span, Time};

use crate::datagram::Station;
use crate::entry::Slice;
use crate::memory::PacketMemory;

/// Bytes that wait in each direction of the connection: a window that 1 ms of 8 Gbit/s fills.
const TCP_BUFFER_BYTES: usize = 1 << 20;
/// The longest frame that smoltcp is shown, or sends.
const MOST_FRAME_BYTES: usize = 9_014;
/// The first port of the range for connections that we open (RFC 6335, 6).
const FIRST_DYNAMIC_PORT: u16 = 49_152;

/// How long a connection may go unanswered before it counts as lost.
const TCP_TIMEOUT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(60);

/// What can be done with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// There is none; one may be opened.
    None,
    /// What is sent waits until it is open.
    Opening,
    /// The connection is open.
    Open,
    /// Our half is closed, and the end not acknowledged yet.
    Ending,
}

/// The general stack.
pub struct General {
    interface: Interface,
    cable: Cable,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
    listen: Option<u16>,
    next_port: u16,
    due: Time,
}

impl General {
    /// A stack for `station` that sends from the buffers `own`, and accepts one connection at a time
    /// on the port `listen`.
    pub fn new(station: &Station, memory: PacketMemory, listen: Option<u16>) -> General {
        let own = memory.stack_tokens().rev().collect();
        let mtu = (memory.shape().buffer_bytes as usize).min(MOST_FRAME_BYTES);
        let mut cable = Cable {
            memory,
            mtu,
            own,
            arrived: Vec::new(),
            sent: VecDeque::new(),
            scratch: vec![0; mtu],
        };
        let mac = HardwareAddress::Ethernet(EthernetAddress(station.mac));
        let mut interface = Interface::new(Config::new(mac), &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for at least one.
            let _ = addresses.push(IpCidr::new(station.address.into(), station.prefix_bits));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || tcp::SocketBuffer::new(vec![0; TCP_BUFFER_BYTES]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_timeout(Some(TCP_TIMEOUT));
        // What the application sends goes out at once: it does not wait for an acknowledgement.
        socket.set_nagle_enabled(false);
        let tcp = sockets.add(socket);
        let next_port = FIRST_DYNAMIC_PORT;
        General { interface, cable, sockets, tcp, listen, next_port, due: Time::ZERO }
    }

    /// Takes a frame.
    pub fn input(&mut self, now: Time, frame: &VolatileSlice<'_>) {
        if frame.len() > self.cable.mtu {
            return;
        }
        let mut bytes = std::mem::take(&mut self.cable.arrived);
        bytes.resize(frame.len(), 0);
        frame.copy_to(&mut bytes[..]);
        self.cable.arrived = bytes;
        self.run(now);
        self.cable.arrived.clear();
    }

    /// Lets it work if it wants to.
    #[inline]
    pub fn tick(&mut self, now: Time) {
        if now >= self.due {
            self.run(now);
        }
    }

    /// When it wants to work again.
    pub fn due(&self) -> Time {
        self.due
    }

    fn run(&mut self, now: Time) {
        let at = instant(now);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.tcp);
        if let (Some(port), false) = (self.listen, socket.is_open()) {
            // It cannot fail but for the port 0, and then nobody listens.
            let _ = socket.listen(port);
        }
        self.interface.poll(at, &mut self.cable, &mut self.sockets);
        let due = self.interface.poll_at(at, &self.sockets);
        // smoltcp counts in microseconds: the next one at the earliest.
        self.due = due.map_or(Time::NEVER, |due| time(due).max(now + Span::from_us(1)));
    }

    /// The next frame to send, in a buffer of the stack's own.
    #[inline]
    pub fn next_frame(&mut self) -> Option<Slice> {
        self.cable.sent.pop_front()
    }

    /// A frame that could not be sent just now.
    pub fn put_back(&mut self, frame: Slice) {
        self.cable.sent.push_front(frame);
    }

    /// A buffer of its own has been sent.
    pub fn sent(&mut self, token: u32) {
        self.cable.own.push(token);
        // It may have waited for that.
        if self.cable.own.len() == 1 {
            self.due = Time::ZERO;
        }
    }

    /// Buffers of its own that it has at hand, frames that wait included.
    pub fn buffers_at_hand(&self) -> usize {
        self.cable.own.len() + self.cable.sent.len()
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut::<tcp::Socket<'static>>(self.tcp)
    }

    /// Opens a connection, if there is none.
    pub fn connect(&mut self, now: Time, address: Ipv4Addr, port: u16) -> bool {
        let own_port = self.next_port;
        self.next_port = own_port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
        let to = IpEndpoint::new(IpAddress::from(address), port);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.tcp);
        if socket.is_listening() {
            socket.abort();
        }
        let opened = socket.connect(self.interface.context(), to, own_port).is_ok();
        if opened {
            self.run(now);
        }
        opened
    }

    /// What can be done with the connection.
    pub fn connection(&self) -> Connection {
        match self.sockets.get::<tcp::Socket<'_>>(self.tcp).state() {
            tcp::State::Closed | tcp::State::TimeWait | tcp::State::Listen => Connection::None,
            tcp::State::SynSent | tcp::State::SynReceived => Connection::Opening,
            tcp::State::Established | tcp::State::CloseWait => Connection::Open,
            _ => Connection::Ending,
        }
    }

    /// Puts bytes into the connection; how many there was room for.
    pub fn stream_out(&mut self, now: Time, bytes: &VolatileSlice<'_>) -> usize {
        let taken = self.socket().send(|room| {
            let count = room.len().min(bytes.len());
            match bytes.read_slice(&mut room[..count], 0) {
                Ok(()) => (count, count),
                Err(_) => (0, 0),
            }
        });
        let taken = taken.unwrap_or(0);
        if taken > 0 {
            self.run(now);
        }
        taken
    }

    /// Takes bytes out of the connection; how many.
    pub fn stream_in(&mut self, now: Time, into: &VolatileSlice<'_>) -> usize {
        if !self.socket().can_recv() {
            return 0;
        }
        let taken = self.socket().recv(|bytes| {
            let count = bytes.len().min(into.len());
            match into.write_slice(&bytes[..count], 0) {
                Ok(()) => (count, count),
                Err(_) => (0, 0),
            }
        });
        let taken = taken.unwrap_or(0);
        if taken > 0 {
            // The window is open again, which the sender must hear of.
            self.run(now);
        }
        taken
    }

    /// Whether bytes of the connection wait to be taken.
    #[inline]
    pub fn has_stream(&self) -> bool {
        self.sockets.get::<tcp::Socket<'_>>(self.tcp).can_recv()
    }

    /// Closes our half of the connection.
    pub fn close(&mut self, now: Time) {
        self.socket().close();
        self.run(now);
    }

    /// Closes our half once the other side has closed its half and everything was taken.
    pub fn close_if_over(&mut self, now: Time) {
        let socket = self.socket();
        if socket.state() == tcp::State::CloseWait && !socket.can_recv() {
            self.close(now);
        }
    }
}

fn instant(now: Time) -> Instant {
    let us = now.as_ps() / Span::from_us(1).as_ps();
    Instant::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}

fn time(instant: Instant) -> Time {
    Time::ZERO + Span::from_us(u64::try_from(instant.total_micros()).unwrap_or(0))
}

/// What smoltcp takes for a network card.
struct Cable {
    memory: PacketMemory,
    mtu: usize,
    own: Vec<u32>,
    /// The frame that has come; empty if none has.
    arrived: Vec<u8>,
    sent: VecDeque<Slice>,
    scratch: Vec<u8>,
}

impl Device for Cable {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Outgoing<'_>)> {
        if self.arrived.is_empty() {
            return None;
        }
        // Without a buffer the answer is lost, but what has come is not: it may be what buffers wait for.
        let arrived = Arrived(std::mem::take(&mut self.arrived));
        Some((arrived, Outgoing(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        (!self.own.is_empty()).then_some(Outgoing(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu.min(1_514);
        capabilities
    }
}

struct Arrived(Vec<u8>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Outgoing<'a>(&'a mut Cable);

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let Cable { memory, mtu, own, sent, scratch, .. } = self.0;
        debug_assert!(len <= *mtu);
        let bytes = &mut scratch[..len];
        let outcome = f(bytes);
        if let Some(token) = own.pop() {
            match memory.bytes(token, 0, len as u32) {
                Some(place) => {
                    place.copy_from(bytes);
                    sent.push_back(Slice { length: len as u16, ..Slice::posted(token) });
                }
                None => own.push(token),
            }
        }
        outcome
    }
}

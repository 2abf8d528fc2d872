//! A client of an echo service: what it sends must come back, all of it, once, and in order.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smoltcp::iface::{Context, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::wire::{IpAddress, IpEndpoint};
use warikomi_clock::{Span, Time};

use super::responses::add;
use super::stream;

/// What a client of an echo service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoPlan {
    /// The service's address.
    pub address: Ipv4Addr,
    /// Its port, for TCP and for UDP.
    pub port: u16,
    /// Time between two blocks, and two datagrams.
    pub interval: Span,
    /// Bytes of a block, and of a datagram's payload, 8 to 1,400.
    pub block_bytes: usize,
}

/// What a client of an echo service has seen, for callers that have no access to the client itself. It begins when it
/// is told to.
#[derive(Debug, Default)]
pub struct Echoes {
    active: AtomicBool,
    tcp_connections: AtomicU64,
    tcp_lost: AtomicU64,
    tcp_sent_bytes: AtomicU64,
    tcp_back_bytes: AtomicU64,
    tcp_wrong_bytes: AtomicU64,
    udp_sent: AtomicU64,
    udp_back: AtomicU64,
    udp_missing: AtomicU64,
    udp_repeated: AtomicU64,
    udp_wrong: AtomicU64,
    longest_round_trip_ps: AtomicU64,
}

/// Counts that can be read one by one.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        impl Echoes {
            $(
                $(#[$doc])*
                pub fn $name(&self) -> u64 {
                    self.$name.load(Ordering::Relaxed)
                }
            )*
        }
    };
}

counts! {
    /// Connections that were opened.
    tcp_connections,
    /// Connections that ended, or could not be opened: this client closes none.
    tcp_lost,
    /// Bytes given to connections.
    tcp_sent_bytes,
    /// Bytes that the echo service sent back.
    tcp_back_bytes,
    /// Of these, bytes that are not those that were sent in their place.
    tcp_wrong_bytes,
    /// Datagrams sent.
    udp_sent,
    /// Datagrams that came back.
    udp_back,
    /// Numbers that were skipped. One that comes late counts here and in
    /// [`udp_repeated`](Self::udp_repeated).
    udp_missing,
    /// Datagrams whose number was not above every earlier one.
    udp_repeated,
    /// Datagrams that are not what was sent.
    udp_wrong,
}

impl Echoes {
    /// Lets the client send, or not any more; what is under way comes back nevertheless.
    pub fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Relaxed);
    }

    /// The longest time from a datagram's start to its return since this was last asked. One that more than
    /// 1,024 others have followed has none.
    pub fn take_longest_round_trip(&self) -> Span {
        Span::from_ps(self.longest_round_trip_ps.swap(0, Ordering::Relaxed))
    }
}

/// How often a client that is to send nothing looks whether it is to begin.
const LOOK_EVERY: Span = Span::from_ms(1);
/// How long a client whose connection ended waits before it opens another.
const CONNECT_EVERY: Span = Span::from_ms(10);
/// Datagrams whose start is remembered.
const REMEMBERED: usize = 1_024;
/// Bytes of a connection that can be under way.
const BUFFER_BYTES: usize = 1 << 16;
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 8..=1_400;
/// The first port of the range for connections that we open (RFC 6335, 6); datagrams come from it, too.
const FIRST_DYNAMIC_PORT: u16 = 49_152;

/// The client.
pub(super) struct EchoClient {
    plan: EchoPlan,
    seen: Arc<Echoes>,
    due: Time,
    tcp: SocketHandle,
    udp: SocketHandle,
    next_port: u16,
    connected: bool,
    connect_due: Time,
    /// Bytes of the present connection that were sent, and that have come back.
    sent_bytes: u64,
    back_bytes: u64,
    /// Number of the next datagram to be sent, and to come back.
    next: u64,
    next_back: u64,
    starts: Box<[Time]>,
}

impl EchoClient {
    pub(super) fn new(plan: EchoPlan, sockets: &mut SocketSet<'static>) -> EchoClient {
        let block_bytes = plan.block_bytes.clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let plan = EchoPlan { block_bytes, interval: plan.interval.max(Span::from_us(1)), ..plan };
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
        let mut connection = tcp::Socket::new(buffer(), buffer());
        connection.set_nagle_enabled(false);
        let buffer = || {
            let metadata = vec![udp::PacketMetadata::EMPTY; 64];
            udp::PacketBuffer::new(metadata, vec![0; BUFFER_BYTES])
        };
        let mut datagrams = udp::Socket::new(buffer(), buffer());
        // It cannot fail: the port is not 0, and the socket is not open yet.
        let _ = datagrams.bind(FIRST_DYNAMIC_PORT);
        EchoClient {
            plan,
            seen: Arc::default(),
            due: Time::ZERO,
            tcp: sockets.add(connection),
            udp: sockets.add(datagrams),
            next_port: FIRST_DYNAMIC_PORT,
            connected: false,
            connect_due: Time::ZERO,
            sent_bytes: 0,
            back_bytes: 0,
            next: 0,
            next_back: 0,
            starts: vec![Time::ZERO; REMEMBERED].into_boxed_slice(),
        }
    }

    pub(super) fn seen(&self) -> Arc<Echoes> {
        Arc::clone(&self.seen)
    }

    /// Time of the next frame to send.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Sends what is due.
    pub(super) fn send(&mut self, now: Time, context: &mut Context, sockets: &mut SocketSet<'_>) {
        if now < self.due {
            return;
        }
        if !self.seen.active.load(Ordering::Relaxed) {
            self.due = now + LOOK_EVERY;
            return;
        }
        self.send_block(now, context, sockets.get_mut(self.tcp));
        self.send_datagram(now, sockets.get_mut(self.udp));
        // What could not be sent in time is not made up for.
        self.due = (self.due + self.plan.interval).max(now);
    }

    fn service(&self) -> IpEndpoint {
        IpEndpoint::new(IpAddress::from(self.plan.address), self.plan.port)
    }

    fn send_block(&mut self, now: Time, context: &mut Context, socket: &mut tcp::Socket<'_>) {
        if !socket.is_open() {
            add(&self.seen.tcp_lost, u64::from(std::mem::take(&mut self.connected)));
            if now < self.connect_due {
                return;
            }
            self.connect_due = now + CONNECT_EVERY;
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
            (self.sent_bytes, self.back_bytes) = (0, 0);
            self.connected = socket.connect(context, self.service(), self.next_port).is_ok();
            add(&self.seen.tcp_connections, u64::from(self.connected));
            return;
        }
        let room = socket.send_capacity() - socket.send_queue();
        if !socket.may_send() || room < self.plan.block_bytes {
            return;
        }
        let mut block = [0; *BLOCK_BYTES.end()];
        let block = &mut block[..self.plan.block_bytes];
        stream::fill(self.sent_bytes, block);
        let sent = socket.send_slice(block).unwrap_or(0) as u64;
        self.sent_bytes += sent;
        add(&self.seen.tcp_sent_bytes, sent);
    }

    fn send_datagram(&mut self, now: Time, socket: &mut udp::Socket<'_>) {
        let mut payload = [0; *BLOCK_BYTES.end()];
        let payload = &mut payload[..self.plan.block_bytes];
        write_datagram(self.next, payload);
        if socket.send_slice(payload, self.service()).is_ok() {
            self.starts[self.next as usize % REMEMBERED] = now;
            self.next += 1;
            add(&self.seen.udp_sent, 1);
        }
    }

    /// Judges what has come back; whether anything has.
    pub(super) fn take(&mut self, now: Time, sockets: &mut SocketSet<'_>) -> bool {
        self.take_blocks(sockets.get_mut(self.tcp))
            | self.take_datagrams(now, sockets.get_mut(self.udp))
    }

    fn take_blocks(&mut self, socket: &mut tcp::Socket<'_>) -> bool {
        let before = self.back_bytes;
        while socket.can_recv() {
            let judge = |bytes: &mut [u8]| {
                (bytes.len(), (bytes.len() as u64, stream::wrong(self.back_bytes, bytes)))
            };
            let Ok((count, wrong)) = socket.recv(judge) else { break };
            // More than was sent is wrong, too.
            let surplus = (self.back_bytes + count).saturating_sub(self.sent_bytes).min(count);
            self.back_bytes += count;
            add(&self.seen.tcp_back_bytes, count);
            add(&self.seen.tcp_wrong_bytes, wrong.max(surplus));
        }
        if socket.state() == tcp::State::CloseWait {
            socket.close();
        }
        self.back_bytes != before
    }

    fn take_datagrams(&mut self, now: Time, socket: &mut udp::Socket<'_>) -> bool {
        let mut came = false;
        while let Ok((payload, _)) = socket.recv() {
            came = true;
            add(&self.seen.udp_back, 1);
            let number = payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let mut expected = [0; *BLOCK_BYTES.end()];
            let expected = &mut expected[..self.plan.block_bytes];
            write_datagram(number.unwrap_or_default(), expected);
            let Some(number) = number.filter(|&number| number < self.next && payload == expected)
            else {
                add(&self.seen.udp_wrong, 1);
                continue;
            };
            match number.checked_sub(self.next_back) {
                Some(skipped) => {
                    add(&self.seen.udp_missing, skipped);
                    self.next_back = number + 1;
                }
                None => add(&self.seen.udp_repeated, 1),
            }
            if self.next - number <= REMEMBERED as u64 {
                let took = now.since(self.starts[number as usize % REMEMBERED]);
                self.seen.longest_round_trip_ps.fetch_max(took.as_ps(), Ordering::Relaxed);
            }
        }
        came
    }
}

/// A datagram: its number, most significant byte first, and bytes that follow from it.
fn write_datagram(number: u64, payload: &mut [u8]) {
    if let Some((head, rest)) = payload.split_first_chunk_mut() {
        *head = number.to_be_bytes();
        stream::fill(number, rest);
    }
}

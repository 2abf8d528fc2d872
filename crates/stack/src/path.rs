//! The stack between an application and a driver.
//!
//! Buffers that the application posts go on to the driver at once. What comes back goes up if it is a
//! datagram for the application's socket and there is room in it; everything else is used up here, and
//! its buffer goes back to the driver.

mod outgoing;
mod streams;

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use warikomi_clock::Time;
use warikomi_shared::{Corrupt, SharedWords, Wakeup};

use crate::channel::{ChannelPlace, ProviderEnd, UserEnd};
use crate::custody::Place;
use crate::datagram::{self, Content, HEADER_BYTES, Station};
use crate::entry::{Destination, Slice, flags};
use crate::ip::General;
use crate::memory::PacketMemory;
use crate::socket::{OrdersWords, Socket};
use outgoing::Outgoing;

/// Entries taken from a ring in one pass: then the other rings have their turn.
const BATCH: usize = 64;

/// Hosts whose Ethernet addresses are remembered.
const MOST_HOSTS: usize = 16;

/// Ethernet addresses of hosts: those that were given, and those that datagrams came from.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    given: Vec<(Ipv4Addr, [u8; 6])>,
    met: VecDeque<(Ipv4Addr, [u8; 6])>,
}

impl Hosts {
    /// Knows these from the start, and does not change its mind about them.
    pub fn new(given: Vec<(Ipv4Addr, [u8; 6])>) -> Hosts {
        Hosts { given, met: VecDeque::with_capacity(MOST_HOSTS) }
    }

    /// A host has shown its address.
    #[inline]
    pub fn met(&mut self, address: Ipv4Addr, mac: [u8; 6]) {
        if self.met.front() == Some(&(address, mac)) {
            return;
        }
        self.met.retain(|(known, _)| *known != address);
        self.met.truncate(MOST_HOSTS - 1);
        self.met.push_front((address, mac));
    }

    /// The Ethernet address of a host.
    pub fn find(&self, address: Ipv4Addr) -> Option<[u8; 6]> {
        let known = self.given.iter().chain(&self.met);
        known.into_iter().find(|(host, _)| *host == address).map(|(_, mac)| *mac)
    }
}

/// The stack.
pub struct Path<K> {
    memory: PacketMemory,
    station: Station,
    above: ProviderEnd<SharedWords, K>,
    above_place: ChannelPlace,
    below: UserEnd<SharedWords, K>,
    orders: OrdersWords<SharedWords>,
    socket: Socket,
    hosts: Hosts,
    general: General,
    /// Buffers of the application that a stream waits to be sent from.
    outgoing: VecDeque<Outgoing>,
    /// Buffers on their way down that the driver does not take.
    unposted: Vec<u32>,
    /// Datagrams with their headers, for which the driver has no room yet.
    held_back: VecDeque<Slice>,
}

impl<K: Wakeup + Clone> Path<K> {
    /// The stack in packet memory with two channels. `application` and `driver` are what wakes them.
    pub fn new(
        memory: PacketMemory,
        station: Station,
        hosts: Hosts,
        tcp_port: Option<u16>,
        application: K,
        driver: &K,
    ) -> Option<Path<K>> {
        let (upper, lower) = (memory.channel(0)?, memory.channel(1)?);
        let (words, bytes) = (memory.words(), memory.shape().buffer_bytes);
        let tokens = memory.application_tokens();
        Some(Path {
            above: ProviderEnd::new(words, upper, tokens, bytes, application),
            above_place: upper,
            below: UserEnd::new(words, lower, 0..memory.shape().buffers(), bytes, driver),
            orders: OrdersWords::new(words.clone(), upper),
            socket: Socket::new(memory.shape().application_buffers),
            general: General::new(&station, memory.clone(), tcp_port),
            hosts,
            station,
            outgoing: VecDeque::new(),
            unposted: Vec::new(),
            held_back: VecDeque::new(),
            memory,
        })
    }

    /// Does what there is to do, within bounds; how many packets and buffers were moved.
    pub fn pass(&mut self, now: Time) -> Result<usize, Corrupt> {
        if let Some(orders) = self.orders.look() {
            self.socket.follow(orders);
        }
        let mut moved = self.streams(now);
        moved += self.posts()? + self.arrivals(now)? + self.departures()?;
        self.general.tick(now);
        moved += self.frames_of_the_general_stack();
        if moved > 0 {
            self.socket.counters.publish(self.memory.words(), self.above_place);
        }
        self.below.flush();
        self.above.flush();
        Ok(moved)
    }

    /// Buffers on their way down.
    fn posts(&mut self) -> Result<usize, Corrupt> {
        let mut count = 0;
        while let Some(token) = self.unposted.pop() {
            if !self.below.post(token) {
                self.unposted.push(token);
                break;
            }
        }
        while count < BATCH
            && let Some(token) = self.above.posted()?
        {
            self.socket.consumed(token);
            self.recycle(token);
            count += 1;
        }
        Ok(count)
    }

    fn recycle(&mut self, token: u32) {
        // There is room for every buffer, but for a driver that takes none from the ring.
        if !self.below.post(token) {
            self.unposted.push(token);
        }
    }

    /// Buffers on their way up.
    fn arrivals(&mut self, now: Time) -> Result<usize, Corrupt> {
        let mut count = 0;
        while count < BATCH
            && let Some(filled) = self.below.completion()?
        {
            count += 1;
            if !self.arrived(now, filled) {
                self.recycle(filled.token);
            }
        }
        Ok(count)
    }

    /// Whether the buffer has gone up.
    #[inline]
    fn arrived(&mut self, now: Time, filled: Slice) -> bool {
        let (offset, length) = (u32::from(filled.offset), u32::from(filled.length));
        if filled.has(flags::RETURNED) {
            return self.above.complete(filled);
        }
        let Some(frame) = self.memory.bytes(filled.token, offset, length) else { return false };
        match datagram::parse(&frame, filled.has(flags::CHECKSUMS_GOOD)) {
            Content::Datagram(found) if found.destination == self.station.address => {
                // The end of the longest buffer is a place that no entry can name.
                let Some(payload_at) = filled.offset.checked_add(found.payload_offset) else {
                    self.socket.malformed();
                    return false;
                };
                self.hosts.met(found.source, found.source_mac);
                if !self.socket.arrived(filled.token, found.destination_port, found.payload_bytes) {
                    return false;
                }
                // With what the driver said about the checksums, and its time.
                let given = self.above.complete(Slice {
                    offset: payload_at,
                    length: found.payload_bytes,
                    flags: filled.flags | flags::UDP,
                    ..filled
                });
                if !given {
                    self.socket.consumed(filled.token);
                }
                given
            }
            Content::Malformed(_) => {
                self.socket.malformed();
                false
            }
            Content::Datagram(_) | Content::Other => {
                self.socket.counters.other += 1;
                self.general.input(now, &frame);
                self.general.has_stream() && self.fill_from_the_stream(now, filled.token)
            }
        }
    }

    /// What is to be sent, and what has been.
    fn departures(&mut self) -> Result<usize, Corrupt> {
        let mut count = 0;
        while let Some(ready) = self.held_back.pop_front() {
            if !self.below.transmit(ready) {
                self.held_back.push_front(ready);
                break;
            }
            count += 1;
        }
        while count < BATCH
            && self.held_back.is_empty()
            && let Some(slice) = self.above.transmit()?
        {
            count += 1;
            if slice.has(flags::STREAM) {
                self.outgoing.push_back(Outgoing::new(slice));
                continue;
            }
            match self.with_headers(slice) {
                Some(ready) => {
                    if !self.below.transmit(ready) {
                        self.held_back.push_back(ready);
                    }
                }
                None => {
                    self.above.sent(slice.token, true);
                }
            }
        }
        while let Some(sent) = self.below.sent()? {
            count += 1;
            if self.memory.stack_tokens().contains(&sent.token) {
                self.general.sent(sent.token);
            } else {
                self.above.sent(sent.token, sent.has(flags::FAILED));
            }
        }
        Ok(count)
    }

    /// The frame of a datagram, in place; `None` if it cannot be one.
    fn with_headers(&mut self, slice: Slice) -> Option<Slice> {
        if !slice.has(flags::UDP) {
            return (slice.length > 0).then_some(Slice { extra: 0, ..slice });
        }
        let to = Destination::from_word(slice.extra);
        let mac = self.hosts.find(to.address)?;
        let offset = slice.offset.checked_sub(HEADER_BYTES as u16)?;
        let headers = datagram::headers(&self.station, to, mac, slice.length)?;
        let place = self.memory.bytes(slice.token, u32::from(offset), HEADER_BYTES as u32)?;
        place.copy_from(&headers);
        let length = slice.length.checked_add(HEADER_BYTES as u16)?;
        Some(Slice { token: slice.token, offset, length, flags: 0, extra: 0 })
    }

    fn frames_of_the_general_stack(&mut self) -> usize {
        let mut count = 0;
        while let Some(frame) = self.general.next_frame() {
            if self.below.custody().place(frame.token) != Some(Place::User)
                || !self.below.transmit(frame)
            {
                self.general.put_back(frame);
                break;
            }
            count += 1;
        }
        count
    }

    /// When there is something to do even if nothing comes.
    pub fn due(&self) -> Time {
        self.general.due()
    }

    /// Says to both neighbours that the stack sleeps from now on, then looks: `true` if there is
    /// something to do after all.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        let above = self.above.prepare_to_sleep()?;
        let below = self.below.prepare_to_sleep()?;
        Ok(above || below)
    }

    /// The stack is awake again.
    pub fn awake(&mut self) {
        self.above.awake();
        self.below.awake();
    }

    /// The end towards the application.
    pub fn above(&self) -> &ProviderEnd<SharedWords, K> {
        &self.above
    }

    /// The end towards the driver.
    pub fn below(&self) -> &UserEnd<SharedWords, K> {
        &self.below
    }

    /// Buffers of the application that wait to be sent over the connection.
    pub fn waiting_streams(&self) -> impl Iterator<Item = u32> {
        self.outgoing.iter().map(Outgoing::token)
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The stack for everything that is no datagram.
    pub fn general(&self) -> &General {
        &self.general
    }
}

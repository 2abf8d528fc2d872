//! Sockets with a bounded receive buffer, in which every datagram is accounted for.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use warikomi_shared::Words;

use crate::channel::{ChannelPlace, words};

/// What became of the frames that came. `received` is the sum of what follows it up to `malformed`;
/// frames that are no UDP are `other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Datagrams, malformed ones included.
    pub received: u64,
    /// Given to the application.
    pub delivered: u64,
    /// For a port on which nobody listens.
    pub no_socket: u64,
    /// The socket's receive buffer was full.
    pub buffer_full: u64,
    /// Refused for what is in them.
    pub malformed: u64,
    /// Frames of other protocols.
    pub other: u64,
}

impl SocketCounters {
    fn as_words(&self) -> [u64; 6] {
        let SocketCounters { received, delivered, no_socket, buffer_full, malformed, other } =
            *self;
        [received, delivered, no_socket, buffer_full, malformed, other]
    }

    /// Shows them to the other end of the channel at `place`.
    pub fn publish(&self, shared: &impl Words, place: ChannelPlace) {
        for (index, value) in self.as_words().into_iter().enumerate() {
            shared.store(place.first_word + words::COUNTERS + index, value, Relaxed);
        }
    }

    /// What the provider of the channel at `place` has shown.
    pub fn of_channel(shared: &impl Words, place: ChannelPlace) -> SocketCounters {
        let word = |index| shared.load(place.first_word + words::COUNTERS + index, Relaxed);
        SocketCounters {
            received: word(0),
            delivered: word(1),
            no_socket: word(2),
            buffer_full: word(3),
            malformed: word(4),
            other: word(5),
        }
    }
}

/// What the application wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOrders {
    /// The UDP port; 0 for none.
    pub port: u16,
    /// Bytes of payload that may wait for the application.
    pub buffer_bytes: u64,
}

/// Words of the orders, from [`words::SOCKET_ORDERS`] on.
pub(crate) mod orders {
    /// Their number, which grows, and is written last.
    pub(crate) const NUMBER: usize = 0;
    /// The UDP port; 0 for none.
    pub(crate) const PORT: usize = 1;
    /// Bytes of payload that may wait for the application.
    pub(crate) const BUFFER_BYTES: usize = 2;
    /// The number that the provider has followed, two cache lines further.
    pub(crate) const FOLLOWED: usize = 16;
}

/// The orders of one channel.
#[derive(Clone, Debug)]
pub struct OrdersWords<W> {
    words: W,
    at: usize,
    seen: u64,
}

impl<W: Words> OrdersWords<W> {
    /// Those of the channel at `place`.
    pub fn new(shared: W, place: ChannelPlace) -> Self {
        OrdersWords { words: shared, at: place.first_word + words::SOCKET_ORDERS, seen: 0 }
    }

    /// The user gives orders.
    pub fn give(&mut self, orders: SocketOrders) {
        self.words.store(self.at + orders::PORT, u64::from(orders.port), Relaxed);
        self.words.store(self.at + orders::BUFFER_BYTES, orders.buffer_bytes, Relaxed);
        self.seen += 1;
        self.words.store(self.at + orders::NUMBER, self.seen, Release);
    }

    /// Whether the provider has followed the last orders.
    pub fn followed(&self) -> bool {
        self.words.load(self.at + orders::FOLLOWED, Acquire) == self.seen
    }

    /// New orders for the provider, if there are any.
    #[inline]
    pub fn look(&mut self) -> Option<SocketOrders> {
        let number = self.words.load(self.at + orders::NUMBER, Acquire);
        if number == self.seen {
            return None;
        }
        self.seen = number;
        let orders = SocketOrders {
            port: self.words.load(self.at + orders::PORT, Relaxed) as u16,
            buffer_bytes: self.words.load(self.at + orders::BUFFER_BYTES, Relaxed),
        };
        self.words.store(self.at + orders::FOLLOWED, number, Release);
        Some(orders)
    }
}

/// A UDP socket: a port, and a bound on the bytes that wait for the application.
///
/// A datagram waits in its own buffer, in place; it has been consumed when the application posts that
/// buffer again.
#[derive(Debug)]
pub struct Socket {
    orders: SocketOrders,
    waiting_bytes: u64,
    /// Bytes that wait in each buffer.
    held: Box<[u16]>,
    /// What became of the datagrams.
    pub counters: SocketCounters,
}

impl Socket {
    /// A closed socket for so many buffers.
    pub fn new(buffers: u32) -> Socket {
        Socket {
            orders: SocketOrders::default(),
            waiting_bytes: 0,
            held: vec![0; buffers as usize].into_boxed_slice(),
            counters: SocketCounters::default(),
        }
    }

    /// Opens, closes or resizes it.
    pub fn follow(&mut self, orders: SocketOrders) {
        self.orders = orders;
    }

    /// A datagram for `port` has come in this buffer: whether the application shall get it.
    #[inline]
    pub fn arrived(&mut self, token: u32, port: u16, payload_bytes: u16) -> bool {
        if !self.is_open_for(port) {
            return false;
        }
        let waiting = self.waiting_bytes + u64::from(payload_bytes);
        let Some(held) =
            self.held.get_mut(token as usize).filter(|_| waiting <= self.orders.buffer_bytes)
        else {
            self.counters.buffer_full += 1;
            return false;
        };
        *held = payload_bytes;
        self.waiting_bytes = waiting;
        self.counters.delivered += 1;
        true
    }

    /// A datagram for `port` has come, which nothing would have to wait for: whether the application shall get it.
    #[inline]
    pub fn passed(&mut self, port: u16) -> bool {
        let ours = self.is_open_for(port);
        self.counters.delivered += u64::from(ours);
        ours
    }

    /// A datagram for `port` has come: whether anything listens there.
    #[inline]
    fn is_open_for(&mut self, port: u16) -> bool {
        self.counters.received += 1;
        let ours = self.orders.port != 0 && port == self.orders.port;
        self.counters.no_socket += u64::from(!ours);
        ours
    }

    /// A datagram that cannot be read.
    pub fn malformed(&mut self) {
        self.counters.received += 1;
        self.counters.malformed += 1;
    }

    /// The application has posted this buffer again.
    #[inline]
    pub fn consumed(&mut self, token: u32) {
        if let Some(held) = self.held.get_mut(token as usize) {
            self.waiting_bytes -= u64::from(std::mem::take(held));
        }
    }

    /// Bytes that wait for the application.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every datagram is one of delivered, no socket, full, malformed, and no more than the
        /// buffer ever waits.
        #[test]
        fn every_datagram_is_accounted_for(steps in prop::collection::vec((0u32..20, 0u8..8, 0u16..900), 0..300)) {
            let mut socket = Socket::new(20);
            socket.follow(SocketOrders { port: 5, buffer_bytes: 2_000 });
            let mut waiting = [None::<u16>; 20];
            let mut came = 0;
            for (token, what, bytes) in steps {
                let slot = token as usize;
                match what {
                    0..=3 if waiting[slot].is_none() => {
                        came += 1;
                        let room = waiting.iter().flatten().map(|&held| u64::from(held)).sum::<u64>() + u64::from(bytes) <= 2_000;
                        prop_assert_eq!(socket.arrived(token, 5, bytes), room);
                        waiting[slot] = room.then_some(bytes);
                    }
                    4 if waiting[slot].is_none() => {
                        came += 1;
                        prop_assert!(!socket.arrived(token, 6, bytes));
                    }
                    5 => {
                        came += 1;
                        socket.malformed();
                    }
                    _ => {
                        waiting[slot] = None;
                        socket.consumed(token);
                    }
                }
                let sum: u64 = waiting.iter().flatten().map(|&held| u64::from(held)).sum();
                prop_assert_eq!(socket.waiting_bytes(), sum);
                prop_assert!(sum <= 2_000);
            }
            let SocketCounters { received, delivered, no_socket, buffer_full, malformed, .. } = socket.counters;
            prop_assert_eq!(received, came);
            prop_assert_eq!(received, delivered + no_socket + buffer_full + malformed);
        }
    }
}

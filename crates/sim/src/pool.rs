//! The receive buffers: where each is.

use std::collections::VecDeque;

use warikomi_driver::Buffer;

/// The owner of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Ring,
    /// It was on the ring of a device that is reset, and comes back, or was never taken for good.
    Forgotten,
    /// The driver has given it back without a packet.
    Returned,
    /// It holds a packet that the driver has given up.
    Chain,
}

/// A packet between the driver and the application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) buffer: Buffer,
    pub(super) bytes: u32,
}

/// All buffers of a run, and the owner of each.
pub(super) struct Pool {
    base: u64,
    stride: u32,
    bytes: u32,
    places: Vec<Place>,
    /// Buffers on the ring.
    on_ring: usize,
    free: VecDeque<u32>,
}

impl Pool {
    /// So many buffers of `bytes` bytes each, one every `stride` bytes from `base` on.
    pub(super) fn new((base, stride): (u64, u32), buffers: usize, bytes: u32) -> Pool {
        Pool {
            base,
            stride,
            bytes,
            places: vec![Place::Free; buffers],
            on_ring: 0,
            free: (0..buffers as u32).collect(),
        }
    }

    /// A buffer comes back to be used again.
    pub(super) fn release(&mut self, token: u32) {
        self.move_to(token, Place::Free);
        if self.bytes > 0 {
            self.free.push_back(token);
        }
    }

    /// Takes back every buffer that is not free; which of these no driver had given back.
    pub(super) fn reclaim_all(&mut self) -> Vec<u32> {
        self.reclaim(|place| place == Place::Returned);
        self.reclaim(|place| place != Place::Free)
    }

    /// Takes back every buffer that is on the ring; which these are.
    pub(super) fn reclaim_ring(&mut self) -> Vec<u32> {
        self.reclaim(|place| place == Place::Ring)
    }

    fn reclaim(&mut self, is_meant: impl Fn(Place) -> bool) -> Vec<u32> {
        let is_meant = |token: &u32| is_meant(self.places[*token as usize]);
        let reclaimed: Vec<u32> = (0..self.places.len() as u32).filter(is_meant).collect();
        reclaimed.iter().for_each(|&token| self.release(token));
        reclaimed
    }

    /// The driver has this buffer on its ring.
    pub(super) fn on_ring(&mut self, token: u32) {
        self.move_to(token, Place::Ring);
    }

    /// The driver has given this buffer up, with a packet.
    pub(super) fn in_chain(&mut self, token: u32) {
        self.move_to(token, Place::Chain);
    }

    /// The driver has given this buffer back.
    pub(super) fn off_ring(&mut self, token: u32) {
        self.move_to(token, Place::Returned);
    }

    /// A buffer came back empty to whoever posted it: whether no driver has given it back.
    pub(super) fn came_back(&mut self, token: u32) -> bool {
        let place = self.places.get(token as usize).copied();
        self.move_to(token, Place::Free);
        matches!(place, Some(Place::Ring | Place::Forgotten))
    }

    /// What is on the ring is forgotten.
    pub(super) fn forget_ring(&mut self) {
        let on_ring = self.places.iter_mut().filter(|place| **place == Place::Ring);
        on_ring.for_each(|place| *place = Place::Forgotten);
        self.on_ring = 0;
    }

    /// Whether the driver has a buffer for the next frame.
    pub(super) fn has_on_ring(&self) -> bool {
        self.on_ring > 0
    }

    /// Whether a buffer that the channel gives was forgotten.
    pub(super) fn is_forgotten(&self, token: u32) -> bool {
        self.places.get(token as usize) == Some(&Place::Forgotten)
    }

    /// A driver that is wrong may name a buffer that there is not; the checkers say so.
    fn move_to(&mut self, token: u32, to: Place) {
        if let Some(place) = self.places.get_mut(token as usize) {
            self.on_ring -= usize::from(*place == Place::Ring);
            self.on_ring += usize::from(to == Place::Ring);
            *place = to;
        }
    }

    /// The next free buffer.
    pub(super) fn take(&mut self) -> Option<Buffer> {
        let token = self.free.pop_front()?;
        let address = self.base + u64::from(token) * u64::from(self.stride);
        Buffer::new(address, self.bytes, token)
    }
}

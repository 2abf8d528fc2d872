//! The receive buffers, and what passes between them and the driver.

use std::collections::VecDeque;

use warikomi_driver::{Buffer, Received, RxSink};
use warikomi_pci::SharedMemory;

use super::device::sequence_at;
use super::trace::Event;
use super::world::Recorder;

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Ring,
    /// It holds a packet that the driver has given up.
    Chain,
}

/// A packet between the driver and the application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) buffer: Buffer,
    pub(super) bytes: u32,
}

/// All buffers.
pub(super) struct Pool {
    base: u64,
    bytes: u32,
    places: Vec<Place>,
    free: VecDeque<u32>,
    /// The driver has asked for a buffer and there was none.
    pub(super) starved: bool,
}

impl Pool {
    /// So many buffers of `bytes` bytes each, one behind the other from `base` on.
    pub(super) fn new(base: u64, buffers: usize, bytes: u32) -> Pool {
        Pool {
            base,
            bytes,
            places: vec![Place::Free; buffers],
            free: (0..buffers as u32).collect(),
            starved: false,
        }
    }

    /// A buffer comes back to be used again.
    pub(super) fn release(&mut self, token: u32) {
        self.move_to(token, Place::Free);
        self.free.push_back(token);
    }

    /// Takes back every buffer that is on the ring; which these are.
    pub(super) fn reclaim_ring(&mut self) -> Vec<u32> {
        let on_ring = |token: &u32| self.places[*token as usize] == Place::Ring;
        let reclaimed: Vec<u32> = (0..self.places.len() as u32).filter(on_ring).collect();
        reclaimed.iter().for_each(|&token| self.release(token));
        reclaimed
    }

    /// A driver that is wrong may name a buffer that there is not; the checkers say so.
    fn move_to(&mut self, token: u32, to: Place) {
        if let Some(place) = self.places.get_mut(token as usize) {
            *place = to;
        }
    }

    fn take(&mut self) -> Option<Buffer> {
        let token = self.free.pop_front();
        self.starved = token.is_none();
        let token = token?;
        self.places[token as usize] = Place::Ring;
        let address = self.base + u64::from(token) * u64::from(self.bytes);
        Some(Buffer { address, bytes: self.bytes, token })
    }
}

/// The pool as the driver sees it during one call.
pub(super) struct Sink<'a, 'o> {
    pub(super) pool: &'a mut Pool,
    pub(super) memory: &'a SharedMemory,
    pub(super) recorder: &'a mut Recorder<'o>,
    pub(super) run_id: u32,
    /// Packets that the driver gives up.
    pub(super) given: &'a mut VecDeque<Packet>,
}

impl RxSink for Sink<'_, '_> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        let buffer = self.pool.take()?;
        self.recorder.emit(&Event::BufferPosted { token: buffer.token });
        Some(buffer)
    }

    #[inline]
    fn received(&mut self, frame: Received) {
        let Received { buffer, bytes, .. } = frame;
        let sequence = sequence_at(self.memory, buffer.address, bytes, self.run_id);
        self.recorder.emit(&Event::FrameReceived { token: buffer.token, sequence, bytes });
        self.pool.move_to(buffer.token, Place::Chain);
        self.given.push_back(Packet { buffer, bytes });
    }

    fn returned(&mut self, buffer: Buffer) {
        self.recorder.emit(&Event::BufferReturned { token: buffer.token });
        self.pool.release(buffer.token);
    }
}

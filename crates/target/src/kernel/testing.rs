//! A guest's side of a queue, by hand, for tests.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use virtio_queue::{Queue, QueueT};
use vm_memory::GuestAddress;
use warikomi_pci::{DmaMemory, SharedMemory};

use super::line::Line;

const SIZE: u16 = 16;
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const BUFFERS: u64 = 0x4000;
const BUFFER_BYTES: u64 = 0x100;

const FLAG_NEXT: u16 = 1;
const FLAG_WRITE: u16 = 2;

pub(super) struct GuestQueue {
    pub(super) memory: SharedMemory,
    available: u16,
    taken: u16,
}

/// The guest's end of a line; it does not wait.
pub(super) struct Signals(UnixStream);

impl GuestQueue {
    pub(super) fn new() -> Self {
        let memory = SharedMemory::anonymous(0, 0x10000).unwrap();
        GuestQueue { memory, available: 0, taken: 0 }
    }

    pub(super) fn device_side(&self) -> Queue {
        let mut queue = Queue::new(SIZE).unwrap();
        queue.try_set_size(SIZE).unwrap();
        queue.try_set_desc_table_address(GuestAddress(DESCRIPTORS)).unwrap();
        queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).unwrap();
        queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
        queue.set_ready(true);
        assert!(queue.is_valid(self.memory.regions()));
        queue
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes).unwrap();
    }

    fn u16_at(&self, address: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read(address, &mut bytes).unwrap();
        u16::from_le_bytes(bytes)
    }

    fn describe(&self, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        let at = DESCRIPTORS + 16 * u64::from(index);
        self.put(at, &address.to_le_bytes());
        self.put(at + 8, &len.to_le_bytes());
        self.put(at + 12, &flags.to_le_bytes());
        self.put(at + 14, &next.to_le_bytes());
    }

    fn offer(&mut self, head: u16) {
        self.put(AVAILABLE + 4 + 2 * u64::from(self.available % SIZE), &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.put(AVAILABLE + 2, &self.available.to_le_bytes());
    }

    /// Offers descriptor `index` as a buffer to be written into, of `len` bytes.
    pub(super) fn offer_buffer(&mut self, index: u16, len: u32) {
        self.describe(index, buffer(index), len, FLAG_WRITE, 0);
        self.offer(index);
    }

    /// Sends a message in descriptors `index` and, for the answer, `index + 1`.
    pub(super) fn send(&mut self, index: u16, message: &[u8], room: u32) {
        self.put(buffer(index), message);
        let flags = if room > 0 { FLAG_NEXT } else { 0 };
        self.describe(index, buffer(index), message.len() as u32, flags, index + 1);
        self.describe(index + 1, buffer(index + 1), room, FLAG_WRITE, 0);
        self.offer(index);
    }

    /// Sends a message behind this number of empty descriptors.
    pub(super) fn send_behind(&mut self, empty: u16, message: &[u8]) {
        for index in 0..empty {
            self.describe(index, buffer(index), 0, FLAG_NEXT, index + 1);
        }
        self.put(buffer(empty), message);
        self.describe(empty, buffer(empty), message.len() as u32, 0, 0);
        self.offer(0);
    }

    /// Takes what the device has returned: the descriptor, and what it wrote there.
    pub(super) fn take(&mut self) -> Option<(u16, Vec<u8>)> {
        if self.u16_at(USED + 2) == self.taken {
            return None;
        }
        let at = USED + 4 + 8 * u64::from(self.taken % SIZE);
        self.taken = self.taken.wrapping_add(1);
        let mut entry = [0; 8];
        self.memory.read(at, &mut entry).unwrap();
        let (index, len) = (u16::from_le_bytes([entry[0], entry[1]]), entry[4]);
        let mut bytes = vec![0; usize::from(len)];
        self.memory.read(buffer(index), &mut bytes).unwrap();
        Some((index, bytes))
    }

    /// What the device wrote behind the message at `index`.
    pub(super) fn answer(&self, index: u16, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(buffer(index + 1), &mut bytes).unwrap();
        bytes
    }

    /// Whether the device has asked not to be notified.
    pub(super) fn notifications_off(&self) -> bool {
        self.u16_at(USED) & 1 != 0
    }
}

fn buffer(index: u16) -> u64 {
    BUFFERS + BUFFER_BYTES * u64::from(index)
}

impl Signals {
    /// The guest's end, which does not wait, and ours.
    pub(super) fn line() -> (Signals, Line) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (Signals(theirs), Line::new(File::from(OwnedFd::from(ours))).unwrap())
    }

    /// Fills it.
    pub(super) fn fill(line: &Line) {
        while line.write(&[0; 8]).is_ok() {}
    }

    /// Signals since the last time, eight bytes each.
    pub(super) fn count(&mut self) -> usize {
        let mut bytes = [0; 4096];
        self.0.read(&mut bytes).map_or(0, |read| read / 8)
    }
}

//! The accesses of a guest that wait.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use virtio_queue::{Queue, QueueT};
use vm_memory::{Address, Bytes, GuestAddress};
use warikomi_pci::SharedMemory;

/// The accesses that the guest has made and that have not been served, for those who must not signal
/// it in the middle of one.
#[derive(Debug)]
pub(super) struct Unserved {
    memory: SharedMemory,
    /// Where the guest counts the accesses that it has made.
    made: GuestAddress,
    taken: Cell<u16>,
}

impl Unserved {
    /// The unserved buffers of this queue.
    pub(super) fn new(memory: &SharedMemory, queue: &Queue) -> Rc<Unserved> {
        // Behind the flags (Virtio 1.2, 2.7.6).
        let made = GuestAddress(queue.avail_ring()).unchecked_add(2);
        let taken = Cell::new(queue.next_avail());
        Rc::new(Unserved { memory: memory.clone(), made, taken })
    }

    /// Of a queue that nobody serves.
    #[cfg(test)]
    pub(super) fn of(guest: &super::testing::GuestQueue) -> Rc<Unserved> {
        Unserved::new(&guest.memory, &guest.device_side())
    }

    /// As if all had been served.
    #[cfg(test)]
    pub(super) fn take_all(&self) {
        let made: u16 = self.memory.regions().load(self.made, Ordering::SeqCst).unwrap();
        self.taken.set(u16::from_le(made));
    }

    /// So many have been taken from the queue, counted as the guest counts.
    #[inline]
    pub(super) fn take_up_to(&self, count: u16) {
        self.taken.set(count);
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        let made: Result<u16, _> = self.memory.regions().load(self.made, Ordering::SeqCst);
        made.is_ok_and(|made| u16::from_le(made) != self.taken.get())
    }
}

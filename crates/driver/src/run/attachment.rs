//! What the loop knows of its device and of the process that it runs in.

use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use warikomi_clock::{Span, read_tsc};
use warikomi_pci::Mmio;
use warikomi_pci::attach::area;
use warikomi_shared::{Message, SharedWords, Words};

use super::store::{STORE_PATIENCE, SnapshotStore, StoreClient};
use crate::device::{Device, SupportGone, Window};
use crate::state::StateWords;

/// A device that a driver is attached to: its registers, its window, and what its drivers share. One that is in the
/// driver's own process, as in virtual time and in tests, need not answer the rest.
pub trait Attachment {
    /// The words of the window.
    type Words: Words + Clone;

    /// The device's registers and its configuration space.
    fn registers(&mut self) -> &mut dyn Mmio;

    /// The window.
    fn window(&self) -> &Window<Self::Words>;

    /// Takes one interrupt, if one has come: the message of its vector.
    fn take_interrupt(&mut self) -> Option<Message>;

    /// Bus address and length in bytes of DMA memory.
    fn dma(&self) -> (u64, u64);

    /// Which of the device's drivers this is; `None` if there are no others.
    fn lineage(&self) -> Option<Lineage> {
        None
    }

    /// The data store, for what is kept there under `key`, if what a driver knows goes through one; once.
    fn take_store(&mut self, key: u64) -> Option<Box<dyn SnapshotStore>> {
        let _ = key;
        None
    }

    /// Touches what of the device's memory a driver with `ring_bytes` of rings will use, so that taking the
    /// device over does not wait for page tables.
    fn warm(&self, ring_bytes: usize) {
        let _ = ring_bytes;
    }

    /// Wakes the driver that waits for the baton.
    fn wake_successor(&self) {}

    /// Whether the support side is still there, if it can go away.
    fn check_support(&self) -> Result<(), SupportGone> {
        Ok(())
    }

    /// The time stamp counter, for those who read stamps.
    fn ticks(&self) -> u64 {
        0
    }

    /// The processor time that the driver has taken so far, if that is counted.
    fn processor_time(&self) -> Span {
        Span::ZERO
    }
}

/// A driver among those that drive a device one after the other.
#[derive(Clone)]
pub struct Lineage {
    /// The state area: baton, owner, and what a driver notes.
    pub area: StateWords,
    /// The driver's generation.
    pub generation: u32,
    /// How drivers follow one another ([`way`](warikomi_pci::attach::layout::way)).
    pub way: u64,
    /// The version of the state area that the driver is to write, and the newest that it knows.
    pub state_version: u64,
}

impl Attachment for Device {
    type Words = SharedWords;

    #[inline]
    fn registers(&mut self) -> &mut dyn Mmio {
        self
    }

    #[inline]
    fn window(&self) -> &Window<SharedWords> {
        Device::window(self)
    }

    fn dma(&self) -> (u64, u64) {
        Device::dma(self)
    }

    fn lineage(&self) -> Option<Lineage> {
        self.state().map(|area| Lineage {
            area: Rc::new(area.clone()),
            generation: self.generation(),
            way: self.way(),
            state_version: self.state_version(),
        })
    }

    fn take_store(&mut self, key: u64) -> Option<Box<dyn SnapshotStore>> {
        let socket = Device::take_store(self)?;
        Some(Box::new(StoreClient::new(socket, key, STORE_PATIENCE)))
    }

    fn warm(&self, ring_bytes: usize) {
        Device::warm(self, ring_bytes);
    }

    fn wake_successor(&self) {
        if let Some(area) = self.state() {
            area.wake(area::BATON);
        }
    }

    fn check_support(&self) -> Result<(), SupportGone> {
        Device::check_support(self)
    }

    #[inline]
    fn take_interrupt(&mut self) -> Option<Message> {
        Device::take_interrupt(self)
    }

    #[inline]
    fn ticks(&self) -> u64 {
        read_tsc()
    }

    fn processor_time(&self) -> Span {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Span::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

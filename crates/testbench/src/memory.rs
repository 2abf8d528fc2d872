//! Memory that counts.

use std::cell::Cell;

use warikomi_pci::{DmaError, DmaMemory, SharedMemory};

/// Memory that counts a card's transfers. Faster ways through [`DmaMemory`] count as their parts.
pub struct CountingMemory {
    memory: SharedMemory,
    transfers: Cell<u64>,
    reads: Cell<u64>,
}

impl CountingMemory {
    /// Counts what goes through here to `memory`.
    pub fn new(memory: SharedMemory) -> CountingMemory {
        CountingMemory { memory, transfers: Cell::new(0), reads: Cell::new(0) }
    }

    /// Transfers and words since the last time.
    pub fn take_transfers(&self) -> u64 {
        self.transfers.replace(0)
    }

    /// Transfers of bytes to the card so far.
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    fn count(&self) {
        self.transfers.set(self.transfers.get() + 1);
    }
}

impl DmaMemory for CountingMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        self.count();
        self.reads.set(self.reads.get() + 1);
        self.memory.read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        self.count();
        self.memory.write(address, from)
    }

    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        self.count();
        self.memory.load_u32(address)
    }

    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        self.count();
        self.memory.store_u32(address, value)
    }
}

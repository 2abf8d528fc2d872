//! A process that can be killed at any of its stores: from the fatal one on nothing that it stores has any
//! effect, as with a process that is gone.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use warikomi_pci::{DmaError, DmaMemory, Mmio, MmioError, SharedMemory, Width};
use warikomi_shared::{SharedWords, Words};

use crate::world::World;

/// How many stores a process has left.
pub(crate) struct Life {
    world: Rc<World>,
    left: Cell<u64>,
    dead: Cell<bool>,
}

impl Life {
    pub(crate) fn new(world: &Rc<World>, stores: u64) -> Rc<Life> {
        let world = world.clone();
        Rc::new(Life { world, left: Cell::new(stores), dead: Cell::new(false) })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.dead.get()
    }

    /// It is not killed any more.
    pub(crate) fn spare(&self) {
        self.left.set(u64::MAX);
    }

    /// Before a store: whether it takes place. Between two stores anything may happen elsewhere.
    fn store(&self) -> bool {
        if self.dead.get() {
            return false;
        }
        let Some(left) = self.left.get().checked_sub(1) else {
            self.dead.set(true);
            return false;
        };
        self.left.set(left);
        self.world.turn();
        true
    }
}

/// Something that a process stores to.
#[derive(Clone)]
pub(crate) struct Mortal<T> {
    inner: T,
    life: Rc<Life>,
}

impl<T> Mortal<T> {
    pub(crate) fn new(inner: T, life: &Rc<Life>) -> Mortal<T> {
        Mortal { inner, life: life.clone() }
    }
}

impl Words for Mortal<SharedWords> {
    fn len(&self) -> usize {
        Words::len(&self.inner)
    }

    fn load(&self, at: usize, order: Ordering) -> u64 {
        Words::load(&self.inner, at, order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        if self.life.store() {
            Words::store(&self.inner, at, value, order);
        }
    }

    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        let before = Words::load(&self.inner, at, order);
        self.store(at, value, order);
        before
    }

    fn fence(&self) {
        self.inner.fence();
    }
}

/// Bytes that one instruction stores.
const STORE_BYTES: usize = 4;

impl DmaMemory for Mortal<SharedMemory> {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        self.inner.read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        let places = (address..).step_by(STORE_BYTES);
        for (at, bytes) in places.zip(from.chunks(STORE_BYTES)) {
            if !self.life.store() {
                return Err(DmaError::BusMasterOff { address });
            }
            self.inner.write(at, bytes)?;
        }
        Ok(())
    }

    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        self.inner.load_u32(address)
    }

    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        if !self.life.store() {
            return Err(DmaError::BusMasterOff { address });
        }
        self.inner.store_u32(address, value)
    }
}

/// The card's registers.
#[derive(Clone)]
pub(crate) struct Registers(pub(crate) Rc<World>);

impl Mmio for Mortal<Registers> {
    fn register_bar(&self) -> u8 {
        self.inner.0.card(|_, bar, _| bar)
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        if self.life.is_over() {
            return Err(MmioError { offset, write: false, within_ms: 0 });
        }
        Ok(self.inner.0.card(|nic, _, host| nic.bar_read(host, bar, offset, width)))
    }

    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        if !self.life.store() {
            return Err(MmioError { offset, write: true, within_ms: 0 });
        }
        self.inner.0.card(|nic, _, host| nic.bar_write(host, bar, offset, width, value));
        Ok(())
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(self.inner.0.card(|nic, _, _| nic.config_read(offset, width)))
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        if !self.life.store() {
            return Err(MmioError { offset: offset.into(), write: true, within_ms: 0 });
        }
        self.inner.0.card(|nic, _, host| nic.config_write(host, offset, width, value));
        Ok(())
    }
}

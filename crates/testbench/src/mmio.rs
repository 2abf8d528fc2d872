//! A driver's way to a card in the same thread.

use warikomi_nic::Nic;
use warikomi_pci::{Mmio, MmioError, Width};

use crate::bench::Bench;

/// The registers of a bench's card, for a driver in the same thread: every access takes effect at once.
pub struct DirectMmio<'a, N: Nic + ?Sized = dyn Nic> {
    /// The bench.
    pub bench: &'a mut Bench<N>,
}

impl<N: Nic + ?Sized> Mmio for DirectMmio<'_, N> {
    fn register_bar(&self) -> u8 {
        self.bench.register_bar()
    }
    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        Ok(self.bench.bar_read(bar, offset, width))
    }
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        self.bench.bar_write(bar, offset, width, value);
        Ok(())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(self.bench.config_read(offset, width))
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.bench.config(offset, width, value);
        Ok(())
    }
}

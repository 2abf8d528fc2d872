//! A driver's way to a card in the same thread.

use warikomi_nic::Nic;
use warikomi_pci::{Mmio, MmioError, Width};

use crate::bench::Bench;

/// The registers of its card, for a driver in the same thread: every access takes effect at once.
impl<N: Nic + ?Sized> Mmio for Bench<N> {
    fn register_bar(&self) -> u8 {
        Bench::register_bar(self)
    }
    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        Ok(Bench::bar_read(self, bar, offset, width))
    }
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        Bench::bar_write(self, bar, offset, width, value);
        Ok(())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(Bench::config_read(self, offset, width))
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        Bench::config(self, offset, width, value);
        Ok(())
    }
}

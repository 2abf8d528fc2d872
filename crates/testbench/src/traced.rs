//! A driver's way to a card, written down.

use warikomi_pci::{Mmio, MmioError, Width};

/// Where an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A register of this offset in this BAR.
    Bar(u8, u64),
    /// Configuration space.
    Config(u16),
}

/// One access of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether the driver wrote.
    pub write: bool,
    /// Where.
    pub place: Place,
    /// How wide.
    pub width: Width,
    /// What was written, or what the card gave.
    pub value: u64,
}

/// Notes every access to a card in the order in which the driver makes them.
pub struct Traced<'a> {
    /// The card.
    pub mmio: &'a mut dyn Mmio,
    /// What was done to it so far.
    pub accesses: &'a mut Vec<Access>,
}

impl Traced<'_> {
    fn read_from(
        &mut self,
        place: Place,
        width: Width,
        read: impl FnOnce(&mut dyn Mmio) -> Result<u64, MmioError>,
    ) -> Result<u64, MmioError> {
        let value = read(self.mmio)?;
        self.accesses.push(Access { write: false, place, width, value });
        Ok(value)
    }
}

impl Mmio for Traced<'_> {
    fn register_bar(&self) -> u8 {
        self.mmio.register_bar()
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.read_from(Place::Bar(bar, offset), width, |mmio| mmio.bar_read(bar, offset, width))
    }

    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        self.accesses.push(Access { write: true, place: Place::Bar(bar, offset), width, value });
        self.mmio.bar_write(bar, offset, width, value)
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        self.read_from(Place::Config(offset), width, |mmio| mmio.config_read(offset, width))
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.accesses.push(Access { write: true, place: Place::Config(offset), width, value });
        self.mmio.config_write(offset, width, value)
    }
}

//! Devices that are not what a driver takes them for.

use warikomi_pci::{Mmio, MmioError, Width};

use crate::bench::Bench;
use crate::frame::frame;

/// A device whose registers read as the test wants, until it is gone.
pub struct LyingRegisters {
    /// Vendor and device number, so that a driver takes it for its own.
    pub id: u64,
    /// The device does not answer any more.
    pub gone: bool,
    answers: Vec<u64>,
    next: usize,
}

impl LyingRegisters {
    /// A device that reads as these values in turn; there is at least one.
    pub fn new((vendor, device): (u16, u16), answers: Vec<u64>) -> LyingRegisters {
        assert!(!answers.is_empty());
        let id = u64::from(device) << 16 | u64::from(vendor);
        LyingRegisters { id, gone: false, answers, next: 0 }
    }

    fn answer(&mut self, offset: u64, write: bool) -> Result<u64, MmioError> {
        self.next += 1;
        let gone = MmioError { offset, write, within_ms: 1 };
        if self.gone { Err(gone) } else { Ok(self.answers[self.next % self.answers.len()]) }
    }
}

impl Mmio for LyingRegisters {
    fn register_bar(&self) -> u8 {
        0
    }

    fn bar_read(&mut self, _bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        Ok(self.answer(offset, false)? & width.mask())
    }
    fn bar_write(&mut self, _bar: u8, offset: u64, _: Width, _: u64) -> Result<(), MmioError> {
        self.answer(offset, true).map(|_| ())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        if offset == 0 { Ok(self.id) } else { self.read(offset.into(), width) }
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.write(offset.into(), width, value)
    }
}

/// A device with one register that says something else.
pub struct LyingRegister<'a> {
    /// The device.
    pub device: &'a mut dyn Mmio,
    /// The register.
    pub offset: u64,
    /// The value that a read returns.
    pub value: u64,
}

impl Mmio for LyingRegister<'_> {
    fn register_bar(&self) -> u8 {
        self.device.register_bar()
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        if offset == self.offset {
            Ok(self.value)
        } else {
            self.device.bar_read(bar, offset, width)
        }
    }
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        self.device.bar_write(bar, offset, width, value)
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        self.device.config_read(offset, width)
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.device.config_write(offset, width, value)
    }
}

/// A card to which a frame comes right before a driver's first read.
pub(crate) struct FrameBeforeRead<'a> {
    pub(crate) bench: &'a mut Bench,
    /// The frame has not come yet.
    pub(crate) waits: bool,
}

impl Mmio for FrameBeforeRead<'_> {
    fn register_bar(&self) -> u8 {
        Mmio::register_bar(self.bench)
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        if std::mem::take(&mut self.waits) {
            self.bench.receive(&frame(60, 0));
        }
        Mmio::bar_read(self.bench, bar, offset, width)
    }
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        Mmio::bar_write(self.bench, bar, offset, width, value)
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Mmio::config_read(self.bench, offset, width)
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        Mmio::config_write(self.bench, offset, width, value)
    }
}

/// A device with these vendor and device numbers, to which nobody may write.
pub struct AnotherDevice {
    /// PCI vendor number.
    pub vendor: u16,
    /// PCI device number.
    pub device: u16,
}

impl Mmio for AnotherDevice {
    fn register_bar(&self) -> u8 {
        0
    }

    fn bar_read(&mut self, _bar: u8, _: u64, width: Width) -> Result<u64, MmioError> {
        Ok(width.mask())
    }
    fn bar_write(&mut self, _bar: u8, offset: u64, _: Width, _: u64) -> Result<(), MmioError> {
        panic!("a write to {offset:#x} of another's device")
    }
    fn config_read(&mut self, _: u16, _: Width) -> Result<u64, MmioError> {
        Ok(u64::from(self.device) << 16 | u64::from(self.vendor))
    }
    fn config_write(&mut self, offset: u16, _: Width, _: u64) -> Result<(), MmioError> {
        panic!("a write to {offset:#x} of another's configuration")
    }
}

/// A device whose registers nobody may touch.
pub struct NoRegisters;

impl Mmio for NoRegisters {
    fn register_bar(&self) -> u8 {
        0
    }

    fn bar_read(&mut self, _bar: u8, offset: u64, _: Width) -> Result<u64, MmioError> {
        panic!("a read of register {offset:#x}")
    }
    fn bar_write(&mut self, _bar: u8, offset: u64, _: Width, _: u64) -> Result<(), MmioError> {
        panic!("a write to register {offset:#x}")
    }
    fn config_read(&mut self, offset: u16, _: Width) -> Result<u64, MmioError> {
        panic!("a read of configuration register {offset:#x}")
    }
    fn config_write(&mut self, offset: u16, _: Width, _: u64) -> Result<(), MmioError> {
        panic!("a write to configuration register {offset:#x}")
    }
}

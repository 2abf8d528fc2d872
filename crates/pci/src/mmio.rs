use crate::Width;

/// The device does not answer any more: whoever plays it is gone, or has taken it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device does not answer: a {} of {offset:#x} was not taken within {within_ms} ms", if *.write { "write" } else { "read" })]
pub struct MmioError {
    /// The register.
    pub offset: u64,
    /// Whether it was to be written.
    pub write: bool,
    /// How long the driver has waited, in milliseconds.
    pub within_ms: u64,
}

/// A function's registers as its driver sees them: its BARs, and configuration space.
///
/// Writes are posted, that is, they take effect some time later and in their order; a read comes
/// behind all writes before it, so that a driver that must know that a write has taken effect reads.
pub trait Mmio {
    /// The BAR with the registers.
    fn register_bar(&self) -> u8;

    /// Reads in a BAR. Where there is none, all bits are set.
    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError>;

    /// Writes in a BAR.
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError>;

    /// Reads a register.
    #[inline]
    fn read(&mut self, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.bar_read(self.register_bar(), offset, width)
    }

    /// Writes a register.
    #[inline]
    fn write(&mut self, offset: u64, width: Width, value: u64) -> Result<(), MmioError> {
        self.bar_write(self.register_bar(), offset, width, value)
    }

    /// Reads configuration space.
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError>;

    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError>;
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read and written: BAR, offset, and the value of a write.
    #[derive(Default)]
    struct Recorder(Vec<(u8, u64, Option<u64>)>);

    impl Mmio for Recorder {
        fn register_bar(&self) -> u8 {
            2
        }

        fn bar_read(&mut self, bar: u8, offset: u64, _: Width) -> Result<u64, MmioError> {
            self.0.push((bar, offset, None));
            Ok(7)
        }

        fn bar_write(
            &mut self,
            bar: u8,
            offset: u64,
            _: Width,
            value: u64,
        ) -> Result<(), MmioError> {
            self.0.push((bar, offset, Some(value)));
            Ok(())
        }

        fn config_read(&mut self, _: u16, _: Width) -> Result<u64, MmioError> {
            panic!("a register is not in configuration space")
        }

        fn config_write(&mut self, _: u16, _: Width, _: u64) -> Result<(), MmioError> {
            panic!("a register is not in configuration space")
        }
    }

    #[test]
    fn registers_are_in_their_bar() {
        let mut mmio = Recorder::default();
        assert_eq!(mmio.read(0x38, Width::B1), Ok(7));
        assert_eq!(mmio.write(0x3c, Width::B2, 5), Ok(()));
        assert_eq!(mmio.0, [(2, 0x38, None), (2, 0x3c, Some(5))]);
    }
}

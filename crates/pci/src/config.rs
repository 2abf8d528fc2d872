//! Configuration space of a type-0 function (PCI Local Bus Specification 3.0, chapter 6).
//!
//! A register's behaviour is its write mask: a bit that may be written is kept, any other keeps
//! its reset value. That alone gives BARs their sizing protocol. What the standard calls
//! "write 1 to clear" has a mask of its own.

use crate::{MsiMessage, Width};

const SIZE: usize = 256;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const CACHE_LINE_SIZE: usize = 0x0c;
const LATENCY_TIMER: usize = 0x0d;
const BAR0: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;
/// The header's end; capabilities are placed from here on.
const FIRST_CAPABILITY: usize = 0x40;

/// Who a function says it is (section 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Revision id.
    pub revision: u8,
    /// Class code: base class, sub-class, interface in bits 23:16, 15:8, 7:0.
    pub class: u32,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem: u16,
}

/// What a base address register decodes (section 6.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Input/output ports.
    Io,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory anywhere; takes this register and the next.
    Memory64,
}

/// One entry of the capability list (section 6.7): its bytes from the id on, and which of their
/// bits may be written. The link byte is filled in.
#[derive(Clone, Debug)]
pub struct Capability {
    /// The bytes; `[0]` is the capability id, `[1]` the link, which is overwritten.
    pub bytes: Vec<u8>,
    /// Bits that may be written, byte for byte; missing bytes are read-only.
    pub writable: Vec<u8>,
}

const MSI_ID: u8 = 0x05;
const MSI_64BIT: u8 = 0x80;

impl Capability {
    /// Message-signalled interrupts, one vector, 64-bit address (section 6.8.1).
    pub fn msi() -> Capability {
        let mut bytes = vec![0; 14];
        bytes[0] = MSI_ID;
        bytes[2] = MSI_64BIT;
        let mut writable = vec![0; 14];
        writable[2] = 0x71; // enable, and the number of vectors granted
        writable[4] = 0xfc; // the address is a multiple of four
        writable[5..14].fill(0xff);
        Capability { bytes, writable }
    }
}

/// The command register's bits that matter to a device (section 6.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The function answers to its memory BARs.
    pub memory: bool,
    /// The function may start transfers of its own.
    pub bus_master: bool,
    /// The function must not assert INTx#.
    pub intx_disabled: bool,
}

/// What the MSI capability holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsiState {
    /// Messages replace the INTx wire.
    pub enabled: bool,
    /// Message address.
    pub address: u64,
    /// Message data.
    pub data: u16,
}

impl MsiState {
    /// The message to send for an interrupt, when MSI is on.
    #[inline]
    pub fn message(&self) -> Option<MsiMessage> {
        self.enabled.then_some(MsiMessage { address: self.address, data: u32::from(self.data) })
    }
}

/// Puts a configuration space together. Mistakes here are the model author's, so they panic.
#[derive(Clone, Debug)]
pub struct ConfigBuilder {
    space: ConfigSpace,
    link: usize,
    next: usize,
}

impl ConfigBuilder {
    /// Adds base address register `index` (0 to 5) that decodes `size` bytes, a power of two and
    /// at least 16.
    pub fn bar(mut self, index: u8, kind: BarKind, size: u64) -> Self {
        assert!(size.is_power_of_two() && size >= 16, "BAR {index}: size {size:#x}");
        let offset = BAR0 + 4 * usize::from(index);
        let (flags, last) = match kind {
            BarKind::Io => (1, index),
            BarKind::Memory32 => (0, index),
            BarKind::Memory64 => (4, index + 1),
        };
        assert!(last <= 5, "BAR {index} does not fit into the header");
        self.space.bytes[offset] = flags;
        let mask = !(size - 1);
        self.space.writable[offset..offset + 4].copy_from_slice(&(mask as u32).to_le_bytes());
        if kind == BarKind::Memory64 {
            let high = ((mask >> 32) as u32).to_le_bytes();
            self.space.writable[offset + 4..offset + 8].copy_from_slice(&high);
        }
        self
    }

    /// Appends a capability at the next free multiple of 8 from `at` on.
    pub fn capability_at(mut self, at: u8, capability: Capability) -> Self {
        let offset = usize::from(at).max(self.next).next_multiple_of(8);
        let end = offset + capability.bytes.len();
        assert!(end <= SIZE, "no room for capability {:#x}", capability.bytes[0]);
        self.space.bytes[offset..end].copy_from_slice(&capability.bytes);
        self.space.bytes[offset + 1] = 0;
        self.space.bytes[self.link] = offset as u8;
        let writable = &mut self.space.writable[offset..offset + capability.writable.len()];
        writable.copy_from_slice(&capability.writable);
        self.space.bytes[STATUS] |= 0x10; // a capability list exists
        if capability.bytes[0] == MSI_ID {
            self.space.msi = Some(offset);
        }
        self.link = offset + 1;
        self.next = end;
        self
    }

    /// The finished space.
    pub fn build(self) -> ConfigSpace {
        self.space
    }
}

/// The 256 bytes, and what each of them does when written.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; SIZE],
    writable: [u8; SIZE],
    clear_on_one: [u8; SIZE],
    msi: Option<usize>,
}

impl ConfigSpace {
    /// Starts a space with the given identity and an INTA# pin.
    pub fn builder(identity: Identity) -> ConfigBuilder {
        let mut bytes = [0; SIZE];
        bytes[0x00..0x02].copy_from_slice(&identity.vendor.to_le_bytes());
        bytes[0x02..0x04].copy_from_slice(&identity.device.to_le_bytes());
        bytes[0x08] = identity.revision;
        bytes[0x09..0x0c].copy_from_slice(&identity.class.to_le_bytes()[..3]);
        bytes[0x2c..0x2e].copy_from_slice(&identity.subsystem_vendor.to_le_bytes());
        bytes[0x2e..0x30].copy_from_slice(&identity.subsystem.to_le_bytes());
        bytes[INTERRUPT_PIN] = 1;
        let mut writable = [0; SIZE];
        writable[COMMAND] = 0x47; // I/O, memory, bus master, parity error response
        writable[COMMAND + 1] = 0x05; // SERR#, INTx disable
        writable[CACHE_LINE_SIZE] = 0xff;
        writable[LATENCY_TIMER] = 0xff;
        writable[INTERRUPT_LINE] = 0xff;
        let mut clear_on_one = [0; SIZE];
        clear_on_one[STATUS + 1] = 0xf9; // the error bits of the status register
        let space = ConfigSpace { bytes, writable, clear_on_one, msi: None };
        ConfigBuilder { space, link: CAPABILITIES, next: FIRST_CAPABILITY }
    }

    /// Reads; bytes outside the space read as zero.
    pub fn read(&self, offset: u16, width: Width) -> u64 {
        let mut value = [0; 8];
        for (i, byte) in value[..width.bytes()].iter_mut().enumerate() {
            *byte = self.bytes.get(usize::from(offset) + i).copied().unwrap_or(0);
        }
        u64::from_le_bytes(value)
    }

    /// Writes what may be written; drops the rest.
    pub fn write(&mut self, offset: u16, width: Width, value: u64) {
        for (i, new) in value.to_le_bytes()[..width.bytes()].iter().enumerate() {
            let at = usize::from(offset) + i;
            if at >= SIZE {
                return;
            }
            let (keep, clear) = (!self.writable[at], self.clear_on_one[at]);
            self.bytes[at] = (self.bytes[at] & keep | new & !keep) & !(new & clear);
        }
    }

    /// Sets status bits, as the function itself does when it meets an error.
    pub fn set_status(&mut self, bits: u16) {
        for (byte, bits) in self.bytes[STATUS..STATUS + 2].iter_mut().zip(bits.to_le_bytes()) {
            *byte |= bits;
        }
    }

    /// The command register.
    pub fn command(&self) -> Command {
        let low = self.bytes[COMMAND];
        Command {
            memory: low & 0x02 != 0,
            bus_master: low & 0x04 != 0,
            intx_disabled: self.bytes[COMMAND + 1] & 0x04 != 0,
        }
    }

    /// The MSI capability; disabled when there is none.
    pub fn msi(&self) -> MsiState {
        let Some(at) = self.msi.map(|at| at as u16) else { return MsiState::default() };
        MsiState {
            enabled: self.read(at + 2, Width::B2) & 1 != 0,
            address: self.read(at + 4, Width::B8),
            data: self.read(at + 12, Width::B2) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space() -> ConfigSpace {
        let identity = Identity {
            vendor: 0x10ec,
            device: 0x8168,
            revision: 2,
            class: 0x02_0000,
            subsystem_vendor: 0x10ec,
            subsystem: 0x8168,
        };
        ConfigSpace::builder(identity)
            .bar(0, BarKind::Io, 256)
            .bar(2, BarKind::Memory64, 4096)
            .capability_at(0x50, Capability::msi())
            .build()
    }

    #[test]
    fn a_bar_tells_its_size() {
        let mut config = space();
        config.write(0x18, Width::B4, 0xffff_ffff);
        config.write(0x1c, Width::B4, 0xffff_ffff);
        assert_eq!(config.read(0x18, Width::B4), 0xffff_f004);
        assert_eq!(config.read(0x1c, Width::B4), 0xffff_ffff);
        config.write(0x10, Width::B4, 0xffff_ffff);
        assert_eq!(config.read(0x10, Width::B4), 0xffff_ff01);
        config.write(0x14, Width::B4, 0xffff_ffff);
        assert_eq!(config.read(0x14, Width::B4), 0, "a BAR that is not there stays zero");
    }

    #[test]
    fn msi_is_programmed_field_by_field() {
        let mut config = space();
        assert_eq!(config.read(0x34, Width::B1), 0x50);
        config.write(0x54, Width::B4, 0x000a_0003);
        config.write(0x58, Width::B4, 1);
        config.write(0x5c, Width::B2, 5);
        assert_eq!(config.msi().message(), None);
        config.write(0x52, Width::B2, 1);
        let message = MsiMessage { address: 0x1_000a_0000, data: 5 };
        assert_eq!(config.msi().message(), Some(message));
    }

    #[test]
    fn status_errors_are_cleared_by_writing_ones() {
        let mut config = space();
        config.set_status(0x2000);
        assert_eq!(config.read(0x06, Width::B2), 0x2010);
        config.write(0x06, Width::B2, 0x2000);
        assert_eq!(config.read(0x06, Width::B2), 0x0010);
    }

    proptest! {
        #[test]
        fn no_access_panics_or_changes_the_identity(
            accesses in prop::collection::vec((any::<u16>(), 0usize..4, any::<u64>()), 0..100)
        ) {
            let mut config = space();
            for (offset, width, value) in accesses {
                let width = [Width::B1, Width::B2, Width::B4, Width::B8][width];
                config.write(offset, width, value);
                prop_assert!(config.read(offset, width) <= width.mask());
            }
            prop_assert_eq!(config.read(0, Width::B4), 0x8168_10ec);
        }
    }
}

//! Configuration space of a type-0 function (PCI Local Bus Specification 3.0, chapter 6).
//!
//! A register's behaviour is its write mask: a bit that may be written is kept, any other keeps
//! its reset value. That alone gives BARs their sizing protocol. What the standard calls
//! "write 1 to clear" has a mask of its own.

use crate::Width;
use crate::vector::{MsiMessage, Vector};

const SIZE: usize = 256;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
/// In the lower byte of the status register.
const STATUS_INTERRUPT: u8 = 0x08;
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

/// One base address register of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Its number, 0 to 5; a 64-bit one takes the next as well.
    pub index: u8,
    /// Kind of the BAR.
    pub kind: BarKind,
    /// Size in bytes, a power of two.
    pub bytes: u64,
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
const MSIX_ID: u8 = 0x11;
const MSI_64BIT: u8 = 0x80;
const MSI_MASKABLE: u8 = 0x01;
/// Messages that MSI has at most (section 6.8.1.3).
const MSI_MOST: u16 = 32;
/// Entries that an MSI-X table has at most (section 6.8.2.3).
const MSIX_MOST: u16 = 2_048;

impl Capability {
    /// Message-signalled interrupts with a 64-bit address (section 6.8.1): so many messages, a power of
    /// two up to 32, which can be masked one by one or not.
    pub fn msi(messages: u16, maskable: bool) -> Capability {
        assert!(messages.is_power_of_two() && messages <= MSI_MOST, "MSI: {messages} messages");
        let mut bytes = vec![0; if maskable { 24 } else { 14 }];
        bytes[0] = MSI_ID;
        bytes[2] = MSI_64BIT | (messages.trailing_zeros() as u8) << 1;
        bytes[3] = if maskable { MSI_MASKABLE } else { 0 };
        let mut writable = vec![0; bytes.len()];
        writable[2] = 0x71; // enable, and the number of messages granted
        writable[4] = 0xfc; // the address is a multiple of four
        writable[5..14].fill(0xff);
        if maskable {
            writable[16..20].fill(0xff);
        }
        Capability { bytes, writable }
    }

    /// MSI-X (section 6.8.2), whose table and pending bits are in BARs of the function.
    pub fn msix(layout: MsixLayout) -> Capability {
        let MsixLayout { vectors, table, pending } = layout;
        assert!((1..=MSIX_MOST).contains(&vectors), "MSI-X: {vectors} vectors");
        let place = |(bar, offset): (u8, u32)| {
            assert!(bar < 6 && offset.is_multiple_of(8), "MSI-X at {offset:#x} of BAR {bar}");
            (offset | u32::from(bar)).to_le_bytes()
        };
        let mut bytes = vec![0; 12];
        bytes[0] = MSIX_ID;
        bytes[2..4].copy_from_slice(&(vectors - 1).to_le_bytes());
        bytes[4..8].copy_from_slice(&place(table));
        bytes[8..12].copy_from_slice(&place(pending));
        let writable = vec![0, 0, 0, 0xc0]; // enable, mask all
        Capability { bytes, writable }
    }
}

/// Where a function's MSI-X table and its pending bits are: BAR, and offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsixLayout {
    /// Entries of the table.
    pub vectors: u16,
    /// The table, 16 bytes an entry.
    pub table: (u8, u32),
    /// The pending bits, in words of 8 bytes.
    pub pending: (u8, u32),
}

/// How a function can interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vectors {
    /// Messages that it can have by MSI; 0 without the capability.
    pub msi: u16,
    /// Vectors that it can have by MSI-X; 0 without the capability.
    pub msix: u16,
}

impl Vectors {
    /// Interrupts that the function tells apart: its vectors, or one for INTA#.
    pub fn count(self) -> u16 {
        self.msi.max(self.msix).max(1)
    }
}

/// The command register's bits that matter to a device (section 6.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The function answers to its input/output BARs.
    pub io: bool,
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
    /// Messages granted, less one: the bits of the data that the function sets.
    pub low_bits: u16,
    /// A bit for each message that is masked.
    pub masked: u32,
}

impl MsiState {
    /// The message for a vector, when MSI is on. With fewer messages granted than there are vectors,
    /// vectors share them (section 6.8.3.3).
    #[inline]
    pub fn message(&self, vector: Vector) -> Option<MsiMessage> {
        let data = self.data & !self.low_bits | vector.0 & self.low_bits;
        self.enabled.then_some(MsiMessage { address: self.address, data: u32::from(data) })
    }

    /// Whether the message for a vector is masked.
    #[inline]
    pub fn is_masked(&self, vector: Vector) -> bool {
        self.masked >> (vector.0 & self.low_bits) & 1 != 0
    }
}

/// What the MSI-X capability holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsixState {
    /// The table's messages replace the INTx wire and MSI.
    pub enabled: bool,
    /// Every vector is masked.
    pub masked: bool,
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
        self.space.bars.push(Bar { index, kind, bytes: size });
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
        self.space.bytes[self.link] = offset as u8;
        let writable = &mut self.space.writable[offset..offset + capability.writable.len()];
        writable.copy_from_slice(&capability.writable);
        self.space.bytes[STATUS] |= 0x10; // a capability list exists
        match capability.bytes[0] {
            MSI_ID => self.space.msi = Some(offset as u16),
            MSIX_ID => self.space.msix = Some(offset as u16),
            _ => {}
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
    bars: Vec<Bar>,
    msi: Option<u16>,
    msix: Option<u16>,
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
        let space =
            ConfigSpace { bytes, writable, clear_on_one, bars: Vec::new(), msi: None, msix: None };
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

    /// Sets the status register's interrupt bit: that the function wants its INTx# asserted, whether or not the
    /// command register lets it (section 6.2.3). A handler that shares the wire asks for it.
    pub fn set_interrupt_status(&mut self, pending: bool) {
        let others = self.bytes[STATUS] & !STATUS_INTERRUPT;
        self.bytes[STATUS] = others | if pending { STATUS_INTERRUPT } else { 0 };
    }

    /// The command register.
    pub fn command(&self) -> Command {
        let low = self.bytes[COMMAND];
        Command {
            io: low & 0x01 != 0,
            memory: low & 0x02 != 0,
            bus_master: low & 0x04 != 0,
            intx_disabled: self.bytes[COMMAND + 1] & 0x04 != 0,
        }
    }

    /// The base address registers, in the order in which they were added.
    pub fn bars(&self) -> &[Bar] {
        &self.bars
    }

    /// How the function can interrupt.
    pub fn vectors(&self) -> Vectors {
        let messages = |at: u16| 1 << (self.read(at + 2, Width::B2) >> 1 & 7);
        Vectors {
            msi: self.msi.map_or(0, messages),
            msix: self.msix_layout().map_or(0, |layout| layout.vectors),
        }
    }

    /// The MSI capability; disabled when there is none.
    pub fn msi(&self) -> MsiState {
        let Some(at) = self.msi else { return MsiState::default() };
        let control = self.read(at + 2, Width::B2);
        let (offered, granted) = (control >> 1 & 7, control >> 4 & 7);
        let maskable = control & u64::from(MSI_MASKABLE) << 8 != 0;
        MsiState {
            enabled: control & 1 != 0,
            address: self.read(at + 4, Width::B8),
            data: self.read(at + 12, Width::B2) as u16,
            low_bits: (1 << granted.min(offered)) - 1,
            masked: if maskable { self.read(at + 16, Width::B4) as u32 } else { 0 },
        }
    }

    /// Sets the pending bits of MSI, where the capability has them.
    pub fn set_msi_pending(&mut self, pending: u32) {
        let Some(at) = self.msi.map(usize::from) else { return };
        if self.bytes[at + 3] & MSI_MASKABLE != 0 {
            self.bytes[at + 20..at + 24].copy_from_slice(&pending.to_le_bytes());
        }
    }

    /// The MSI-X capability; disabled when there is none.
    pub fn msix(&self) -> MsixState {
        let Some(at) = self.msix else { return MsixState::default() };
        let control = self.read(at + 2, Width::B2);
        MsixState { enabled: control & 0x8000 != 0, masked: control & 0x4000 != 0 }
    }

    /// Where the MSI-X table is, if there is one.
    pub fn msix_layout(&self) -> Option<MsixLayout> {
        let at = self.msix?;
        let place = |at| {
            let word = self.read(at, Width::B4) as u32;
            ((word & 7) as u8, word & !7)
        };
        let vectors = (self.read(at + 2, Width::B2) as u16 & 0x7ff) + 1;
        Some(MsixLayout { vectors, table: place(at + 4), pending: place(at + 8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: Identity = Identity {
        vendor: 0x10ec,
        device: 0x8168,
        revision: 2,
        class: 0x02_0000,
        subsystem_vendor: 0x10ec,
        subsystem: 0x8168,
    };

    fn space() -> ConfigSpace {
        ConfigSpace::builder(IDENTITY)
            .bar(0, BarKind::Io, 256)
            .bar(2, BarKind::Memory64, 4096)
            .capability_at(0x50, Capability::msi(1, false))
            .build()
    }

    #[test]
    fn a_header_says_who_it_is() {
        let mut config = space();
        let read = [(0x00, 0x8168_10ec), (0x08, 0x0200_0002), (0x2c, 0x8168_10ec), (0x3c, 0x0100)];
        for (offset, value) in read {
            assert_eq!(config.read(offset, Width::B4), value, "{offset:#x}");
        }
        assert_eq!(config.command(), Command::default());
        let only = |mut command: Command, bit: fn(&mut Command) -> &mut bool| {
            *bit(&mut command) = true;
            command
        };
        for (bit, expected) in [
            (0, only(Command::default(), |command| &mut command.io)),
            (1, only(Command::default(), |command| &mut command.memory)),
            (2, only(Command::default(), |command| &mut command.bus_master)),
            (10, only(Command::default(), |command| &mut command.intx_disabled)),
        ] {
            config.write(0x04, Width::B2, 1 << bit);
            assert_eq!(config.command(), expected, "bit {bit}");
        }
        config.write(0x04, Width::B2, 0xffff);
        assert_eq!(config.read(0x04, Width::B2), 0x0547, "what the function has");
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
    #[should_panic(expected = "BAR 5 does not fit into the header")]
    fn the_last_bar_has_no_second_half() {
        let _ = ConfigSpace::builder(IDENTITY).bar(5, BarKind::Memory64, 4096);
    }

    #[test]
    #[should_panic(expected = "no room for capability 0x5")]
    fn a_capability_does_not_reach_over_the_end() {
        let _ = ConfigSpace::builder(IDENTITY).capability_at(0xf8, Capability::msi(1, false));
    }

    #[test]
    fn msi_is_programmed_field_by_field() {
        let mut config = space();
        assert_eq!(config.read(0x34, Width::B1), 0x50);
        config.write(0x54, Width::B4, 0x000a_0003);
        config.write(0x58, Width::B4, 1);
        config.write(0x5c, Width::B2, 5);
        assert_eq!(config.msi().message(Vector(0)), None);
        config.write(0x52, Width::B2, 1);
        let message = MsiMessage { address: 0x1_000a_0000, data: 5 };
        assert_eq!(config.msi().message(Vector(0)), Some(message));
        config.write(0x52, Width::B2, 0x71);
        let others = config.msi().message(Vector(3));
        assert_eq!(others, Some(message), "no more is granted than is offered");
    }

    #[test]
    fn msi_without_mask_bits_takes_what_is_behind_it_for_none() {
        let layout = MsixLayout { vectors: 5, table: (3, 0x40), pending: (3, 0x800) };
        let mut config = ConfigSpace::builder(IDENTITY)
            .capability_at(0x50, Capability::msi(1, false))
            .capability_at(0, Capability::msix(layout))
            .build();
        assert_eq!([0x50, 0x51, 0x60].map(|at| config.read(at, Width::B1)), [0x05, 0x60, 0x11]);
        assert_eq!(config.read(0x06, Width::B2), 0x0010, "there is a list of capabilities");
        assert_eq!(config.msi().masked, 0);
        config.set_msi_pending(u32::MAX);
        assert_eq!(config.msix_layout(), Some(layout));
    }

    #[test]
    fn a_space_describes_its_bars_and_vectors() {
        let layout = MsixLayout { vectors: 5, table: (3, 0), pending: (3, 0x800) };
        let mut config = ConfigSpace::builder(IDENTITY)
            .bar(0, BarKind::Memory32, 0x1000)
            .bar(3, BarKind::Memory64, 0x1000)
            .capability_at(0x50, Capability::msi(4, true))
            .capability_at(0x70, Capability::msix(layout))
            .build();
        let bar = |index, kind| Bar { index, kind, bytes: 0x1000 };
        assert_eq!(config.bars(), [bar(0, BarKind::Memory32), bar(3, BarKind::Memory64)]);
        assert_eq!(config.vectors(), Vectors { msi: 4, msix: 5 });
        assert_eq!((config.vectors().count(), Vectors::default().count()), (5, 1));
        assert_eq!(config.msix_layout(), Some(layout));
        assert_eq!(config.msix(), MsixState::default());
        config.write(0x72, Width::B2, 0xffff);
        assert_eq!(config.msix(), MsixState { enabled: true, masked: true });
        assert_eq!(config.msix_layout(), Some(layout), "nothing else of it can be written");
    }

    #[test]
    fn several_messages_differ_in_the_bits_that_are_granted() {
        let mut config =
            ConfigSpace::builder(IDENTITY).capability_at(0x50, Capability::msi(8, true)).build();
        config.write(0x5c, Width::B2, 0x47);
        let data = |config: &ConfigSpace, vector| {
            config.msi().message(Vector(vector)).map(|message| message.data)
        };
        for (granted, expected) in
            [(0, [0x47; 3]), (1, [0x46, 0x47, 0x47]), (3, [0x40, 0x41, 0x47])]
        {
            config.write(0x52, Width::B2, granted << 4 | 1);
            assert_eq!([0, 1, 7].map(|vector| data(&config, vector)), expected.map(Some));
        }
        config.write(0x60, Width::B4, 0x80);
        assert!(config.msi().is_masked(Vector(7)) && !config.msi().is_masked(Vector(6)));
        config.set_msi_pending(0x80);
        assert_eq!(config.read(0x64, Width::B4), 0x80);
        config.write(0x64, Width::B4, 0);
        assert_eq!(config.read(0x64, Width::B4), 0x80, "pending bits are read-only");
    }

    #[test]
    fn status_errors_are_cleared_by_writing_ones() {
        let mut config = space();
        config.set_status(0x2000);
        assert_eq!(config.read(0x06, Width::B2), 0x2010);
        config.set_status(0x2000);
        assert_eq!(config.read(0x06, Width::B2), 0x2010, "an error that comes again stays");
        config.write(0x06, Width::B2, 0x2000);
        assert_eq!(config.read(0x06, Width::B2), 0x0010);
    }

    #[test]
    fn the_interrupt_bit_is_read_only_and_leaves_the_others_alone() {
        let mut config = space();
        config.set_interrupt_status(true);
        assert_eq!(config.read(0x06, Width::B2), 0x0018);
        config.write(0x06, Width::B2, 0xffff);
        assert_eq!(config.read(0x06, Width::B2), 0x0018);
        config.set_interrupt_status(false);
        config.write(0x06, Width::B2, 0xffff);
        assert_eq!(config.read(0x06, Width::B2), 0x0010);
    }

    /// Most of them inside, and around the end.
    fn offsets() -> impl Strategy<Value = u16> {
        prop_oneof![4 => 0..SIZE as u16 + 8, 1 => any::<u16>()]
    }

    proptest! {
        #[test]
        fn no_access_panics_or_changes_the_identity(
            accesses in prop::collection::vec((offsets(), 0usize..4, any::<u64>()), 0..100)
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

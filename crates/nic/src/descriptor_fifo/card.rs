//! The cards of the family, as the data sheet (docs/descriptor-fifo.md, section 1) has them.

use warikomi_clock::Span;
use warikomi_wire::{HEADER_BYTES, MIN_FRAME_BYTES, bytes_time, wire_time};

use super::regs::{self, Registers};
use crate::ModelInfo;
use crate::bus::Preset;
use crate::register::Register;

/// What stands around a frame on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Packet over SONET. A frame takes its own bytes, and nothing besides.
    Sonet,
    /// Ethernet: preamble, padding, check sequence and gap (IEEE 802.3, 4A.4.2).
    Ethernet,
}

impl Framing {
    /// How long a frame of so many bytes occupies a line of so many bits a second.
    pub(super) fn time(self) -> fn(usize, u64) -> Span {
        match self {
            Framing::Sonet => |bytes, bps| bytes_time(bytes as u64, bps),
            Framing::Ethernet => wire_time,
        }
    }

    /// How long the card makes a frame of so many bytes that it sends.
    pub(super) fn padded_bytes(self, bytes: usize) -> usize {
        match self {
            Framing::Sonet => bytes,
            Framing::Ethernet => bytes.max(MIN_FRAME_BYTES),
        }
    }

    /// The shortest frame that the card takes from the line, in bytes.
    pub(super) fn least_bytes(self) -> usize {
        match self {
            Framing::Sonet => HEADER_BYTES,
            Framing::Ethernet => MIN_FRAME_BYTES,
        }
    }
}

/// What a card's data sheet says of it alone.
#[derive(Debug)]
pub(super) struct Sheet {
    name: &'static str,
    summary: &'static str,
    /// What ID reads: four letters, the first one lowest.
    pub(super) id: [u8; 4],
    /// PCI device number.
    pub(super) device: u16,
    pub(super) framing: Framing,
    /// Bits that the line carries in a second.
    pub(super) line_bps: u64,
    /// The longest IP packet in bytes.
    pub(super) mtu: u32,
    /// It cuts long TCP packets into segments (TSO).
    pub(super) segments: bool,
    /// The bus that it is on unless another is asked for.
    usual_bus: &'static str,
}

impl Sheet {
    const fn registers(&self) -> Registers {
        regs::registers(self.id, self.line_bps, self.mtu, self.segments)
    }
}

/// A card of the family.
#[derive(Debug)]
pub struct Card {
    /// The model's description.
    pub info: ModelInfo,
    pub(super) sheet: Sheet,
}

impl Card {
    const fn of(sheet: Sheet, registers: &'static [Register]) -> Card {
        let info = ModelInfo {
            name: sheet.name,
            summary: sheet.summary,
            linux_drivers: &[],
            register_bar: regs::BAR,
            rx_queues: 1,
            max_frame_bytes: sheet.mtu as usize + HEADER_BYTES,
            registers,
        };
        Card { info, sheet }
    }

    /// The card of this name.
    pub fn named(name: &str) -> Option<&'static Card> {
        [&OC48, &OC192, &GE10].into_iter().find(|card| card.info.name == name)
    }

    /// The bus that it is on unless another is asked for.
    pub(crate) fn usual_bus(&self) -> Option<&'static Preset> {
        Preset::named(self.sheet.usual_bus)
    }
}

const OC48_SHEET: Sheet = Sheet {
    name: "oc48",
    summary: "OC-48c card (PCI, descriptors in a FIFO on the card, packets of up to 64 KB, MSI)",
    id: *b"OC48",
    device: 0x0c48,
    framing: Framing::Sonet,
    line_bps: 2_400_000_000,
    mtu: 65_535,
    segments: false,
    usual_bus: "pci-64-66",
};

const OC192_SHEET: Sheet = Sheet {
    name: "oc192",
    summary: "OC-192c card (PCI-X, descriptors in a FIFO on the card, packets of up to 64 KB, MSI)",
    id: *b"O192",
    device: 0x0192,
    framing: Framing::Sonet,
    // Four times OC-48c.
    line_bps: 9_600_000_000,
    mtu: 65_535,
    segments: false,
    usual_bus: "pcix-133",
};

const GE10_SHEET: Sheet = Sheet {
    name: "ge10",
    summary: "10 Gigabit Ethernet card (PCI-X, descriptors in a FIFO on the card, MTU 16,114, TSO, MSI)",
    id: *b"GE10",
    device: 0x10e0,
    framing: Framing::Ethernet,
    line_bps: 10_000_000_000,
    mtu: 16_114,
    segments: true,
    usual_bus: "pcix-133",
};

static OC48_REGISTERS: Registers = OC48_SHEET.registers();
static OC192_REGISTERS: Registers = OC192_SHEET.registers();
static GE10_REGISTERS: Registers = GE10_SHEET.registers();

/// Packet over SONET at 2.4 Gbit/s.
pub static OC48: Card = Card::of(OC48_SHEET, &OC48_REGISTERS);
/// Packet over SONET at 9.6 Gbit/s.
pub static OC192: Card = Card::of(OC192_SHEET, &OC192_REGISTERS);
/// 10 Gigabit Ethernet.
pub static GE10: Card = Card::of(GE10_SHEET, &GE10_REGISTERS);

//! The two chips.

use super::regs;
use crate::ModelInfo;
use crate::register::{Register, Window};

/// The longest frame in bytes without check sequence: one with more than 4 KB is a "long packet" (RTL8139C Rev. 1.4,
/// section 5.1; Linux 6.1 8139cp.c, RxErrLong).
pub(super) const MAX_FRAME_BYTES: usize = 4_096 - 4;

/// One of the chips, as its data sheet has it.
#[derive(Debug)]
pub struct Chip {
    /// The model's description.
    pub info: ModelInfo,
    /// PCI revision: 8139too refuses 0x20 and above, 8139cp what is below.
    pub(super) revision: u8,
    /// The bits of TxConfig that say which chip it is.
    pub(super) version: u32,
    /// It has the C+ mode.
    pub(super) cplus: bool,
    /// The causes of interrupts.
    pub(super) causes: u32,
    pub(super) window: &'static Window<{ regs::BYTES }>,
}

const fn info(
    name: &'static str,
    summary: &'static str,
    linux_drivers: &'static [&'static str],
    registers: &'static [Register],
) -> ModelInfo {
    let register_bar = regs::BAR;
    ModelInfo {
        name,
        summary,
        linux_drivers,
        register_bar,
        rx_queues: 1,
        max_frame_bytes: MAX_FRAME_BYTES,
        registers,
    }
}

static C_REGISTERS: regs::Registers = regs::C_REGISTERS;
static CPLUS_REGISTERS: regs::Registers = regs::CPLUS_REGISTERS;
static C_WINDOW: Window<{ regs::BYTES }> = Window::new(&C_REGISTERS);
static CPLUS_WINDOW: Window<{ regs::BYTES }> = Window::new(&CPLUS_REGISTERS);

/// RTL8139C.
pub static RTL8139: Chip = Chip {
    info: info(
        "rtl8139",
        "Realtek RTL8139C Fast Ethernet (PCI, receives into a ring of bytes, INTx)",
        &["8139too"],
        &C_REGISTERS,
    ),
    revision: regs::C_REVISION,
    version: regs::C_VERSION,
    cplus: false,
    causes: regs::C_CAUSES,
    window: &C_WINDOW,
};

/// RTL8139C+.
pub static RTL8139CP: Chip = Chip {
    info: info(
        "rtl8139cp",
        "Realtek RTL8139C+ Fast Ethernet (PCI, descriptor rings as well, checksums, TSO, INTx)",
        &["8139cp"],
        &CPLUS_REGISTERS,
    ),
    revision: regs::CPLUS_REVISION,
    version: regs::CPLUS_VERSION,
    cplus: true,
    causes: regs::C_CAUSES | regs::CPLUS_CAUSES,
    window: &CPLUS_WINDOW,
};

impl Chip {
    /// The chip of this name.
    pub fn named(name: &str) -> Option<&'static Chip> {
        [&RTL8139, &RTL8139CP].into_iter().find(|chip| chip.info.name == name)
    }
}

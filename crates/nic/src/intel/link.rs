//! The link, as STATUS tells it, and EECD (82574, 10.2.2.2 and 10.2.2.4; 82576, 8.2.2 and 8.4.1).

use super::regs::{self, Registers};
use crate::phy::Mode;

/// STATUS of a card whose MAC has a link in this mode.
pub(crate) fn status(file: &Registers, mode: Option<Mode>) -> u32 {
    let master = match file.get(regs::CTRL) & regs::CTRL_MASTER_DISABLE {
        0 => regs::STATUS_MASTER,
        _ => 0,
    };
    let Some(mode) = mode else { return master };
    let speed = match mode.mbps {
        1_000 => regs::STATUS_SPEED_1000,
        100 => regs::STATUS_SPEED_100,
        _ => 0,
    };
    let duplex = if mode.full_duplex { regs::STATUS_FULL_DUPLEX } else { 0 };
    master | speed | duplex | regs::STATUS_LINK_UP
}

// EECD.
const EECD_REQUEST: u32 = 1 << 6;
const EECD_GRANT: u32 = 1 << 7;
/// There is an EEPROM, it has been read, and its size.
const EECD_FIXED: u32 = 0x0000_7f00;
/// An EEPROM of 256 words is there, and has been read.
pub(crate) const EECD_INITIAL: u32 = 0x0000_1300;
/// An update of flash memory, which is done at once: there is none.
const EECD_UPDATE: u32 = 1 << 19;

/// What EECD reads as when this was written to it.
pub(crate) fn eecd(value: u32) -> u32 {
    let granted = if value & EECD_REQUEST != 0 { EECD_GRANT } else { 0 };
    value & !(EECD_FIXED | EECD_GRANT | EECD_UPDATE) | EECD_INITIAL | granted
}

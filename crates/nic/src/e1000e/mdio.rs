//! The PHY, as MDIC reaches it (82574, 10.2.2.8).
//!
//! It is a Marvell one: pages are selected in register 22, and register 17 of page 0 tells what was negotiated
//! (Linux 6.1, e1000e_read_phy_reg_bm2 and e1000e_get_phy_info_m88).

use crate::NicContext;
use crate::phy::{self, Phy};

/// OUI, model and revision of the PHY that Linux expects of this chip (BME1000_E_PHY_ID_R2).
pub(super) const SORT: phy::Sort = phy::Sort { id: 0x0141_0cb1, gigabit: true, page_select: 22 };
/// Where it is on the management bus.
const ADDRESS: u32 = 1;
const SPECIFIC_STATUS: usize = 17;

// MDIC.
const WRITE: u32 = 1 << 26;
const READ: u32 = 2 << 26;
const OPERATION: u32 = 3 << 26;
const READY: u32 = 1 << 28;
/// An interrupt is wanted when it is ready.
pub(super) const INTERRUPT: u32 = 1 << 29;
const ERROR: u32 = 1 << 30;
const DATA: u32 = 0xffff;

/// What MDIC reads as when this was written to it, and whether the link has changed.
pub(super) fn command(phy: &mut Phy, cx: &mut NicContext<'_>, command: u32) -> (u32, bool) {
    let register = (command >> 16 & 0x1f) as usize;
    let kept = command & !(READY | ERROR);
    if command >> 21 & 0x1f != ADDRESS {
        return (kept | READY | ERROR, false);
    }
    match command & OPERATION {
        WRITE => {
            let changed = phy.write(cx, register, (command & DATA) as u16);
            (kept | READY, changed)
        }
        READ => {
            let data = match (phy.page(), register) {
                (0, SPECIFIC_STATUS) => specific_status(phy),
                _ => phy.read(register),
            };
            (kept & !DATA | u32::from(data) | READY, false)
        }
        _ => (kept | READY | ERROR, false),
    }
}

/// Speed in bits 15:14, duplex, resolved, link; the shortest cable.
fn specific_status(phy: &Phy) -> u16 {
    let Some(mode) = phy.mode() else { return 0 };
    let speed = match mode.mbps {
        1_000 => 2 << 14,
        100 => 1 << 14,
        _ => 0,
    };
    speed | u16::from(mode.full_duplex) << 13 | 1 << 11 | 1 << 10
}

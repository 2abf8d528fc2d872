//! The PHY: a Marvell one. Pages are selected in register 22, and register 17 of page 0 tells what was negotiated
//! (Linux 6.1, e1000e_read_phy_reg_bm2 and e1000e_get_phy_info_m88).

use crate::intel::mdio::{COMMON, mode_bits};
use crate::phy::{Phy, Sort};

/// OUI, model and revision of the PHY that Linux expects of this chip (BME1000_E_PHY_ID_R2). Linux forces a speed by a
/// write of it and a reset "to commit changes" (e1000_phy_force_speed_duplex_m88), so that keeps it.
pub(super) const SORT: Sort = Sort {
    id: 0x0141_0cb1,
    gigabit: true,
    keeps_settings: true,
    common: COMMON,
    page_select: 22,
    page_shift: 0,
};
const SPECIFIC_STATUS: usize = 17;

/// What its own registers read as: speed in bits 15:14, duplex, resolved, link; the shortest cable.
pub(super) fn own(phy: &Phy, register: usize) -> Option<u16> {
    if (phy.page(), register) != (0, SPECIFIC_STATUS) {
        return None;
    }
    let said = phy
        .mode()
        .map(|mode| mode_bits(mode, 2) | u16::from(mode.full_duplex) << 13 | 1 << 11 | 1 << 10);
    Some(said.unwrap_or(0))
}

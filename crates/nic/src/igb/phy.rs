//! The PHY, which is in the chip (82576, 8.27): an IGP one. Pages are selected in register 31, and register 17 of page
//! 0 tells what was negotiated (Linux 6.12, igb_read_phy_reg_igp and igb_get_phy_info_igp).

use crate::intel::mdio::{COMMON, mode_bits};
use crate::phy::{Phy, Sort};

/// OUI, model and revision (Linux IGP03E1000_E_PHY_ID). Page select has the number of a register in its lower bits.
pub(super) const SORT: Sort = Sort {
    id: 0x02a8_0391,
    gigabit: true,
    keeps_settings: false,
    common: COMMON,
    page_select: 31,
    page_shift: 5,
};
/// Port status, in page 0.
const STATUS: usize = 17;
/// The gain of a pair, in pages of its own, from which drivers tell the length of the cable
/// (igb_get_cable_length_igp_2): that of a short one.
const GAIN: u16 = 4 << 9;

/// What its own registers read as.
pub(super) fn own(phy: &Phy, register: usize) -> Option<u16> {
    match (phy.page(), register) {
        (0, STATUS) => Some(
            phy.mode()
                .map_or(0, |mode| mode_bits(mode, 3) | u16::from(mode.full_duplex) << 9 | 1 << 10),
        ),
        (_, STATUS) => Some(GAIN),
        _ => None,
    }
}

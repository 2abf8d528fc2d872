//! The PHY, as MDIC reaches it (82574, 10.2.2.8; 82576, 8.2.4).

use crate::NicContext;
use crate::phy::{Mode, Phy};

/// Where it is on the management bus.
const ADDRESS: u32 = 1;

/// Registers that drivers access whichever page is selected (Linux, MAX_PHY_MULTI_PAGE_REG).
pub(crate) const COMMON: usize = 16;

// MDIC.
const WRITE: u32 = 1 << 26;
const READ: u32 = 2 << 26;
const OPERATION: u32 = 3 << 26;
const READY: u32 = 1 << 28;
/// An interrupt is wanted when it is ready.
pub(crate) const INTERRUPT: u32 = 1 << 29;
const ERROR: u32 = 1 << 30;
const DATA: u32 = 0xffff;

/// What MDIC reads as when this was written to it, and whether the link has changed. `own` says what a register of
/// this sort of PHY reads as, if that is not what was written there.
pub(crate) fn command(
    phy: &mut Phy,
    cx: &mut NicContext<'_>,
    command: u32,
    own: fn(&Phy, usize) -> Option<u16>,
) -> (u32, bool) {
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
            let data = own(phy, register).unwrap_or_else(|| phy.read(register));
            (kept & !DATA | u32::from(data) | READY, false)
        }
        _ => (kept | READY | ERROR, false),
    }
}

/// The speed in bits 15:14, as PHYs of either maker have it in register 17; `gigabit` stands for 1000 Mbit/s.
pub(crate) fn mode_bits(mode: Mode, gigabit: u16) -> u16 {
    match mode.mbps {
        1_000 => gigabit << 14,
        100 => 1 << 14,
        _ => 0,
    }
}

//! The tags of the timers, by which [`crate::NicModel::timer`] tells them apart.

use super::regs;

pub(super) const PHY: u32 = 0;
pub(super) const INTR: u32 = 1;
pub(super) const TX: u32 = 2;
/// Of the first receive queue; those of the others follow.
pub(super) const LATE: u32 = 3;
/// Behind the last.
pub(super) const LATE_END: u32 = LATE + regs::QUEUES as u32;

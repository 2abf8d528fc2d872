//! The tags of the timers, by which [`crate::NicModel::timer`] tells them apart.

pub(super) const PHY: u32 = 0;
pub(super) const MODERATION: u32 = 1;
pub(super) const COUNT: u32 = 2;
pub(super) const TX: u32 = 3;
pub(super) const LATE: u32 = 4;

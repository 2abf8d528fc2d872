//! The tags of the timers, by which [`crate::NicModel::timer`] tells them apart.

pub(super) const PHY: u32 = 0;
pub(super) const MODERATION: u32 = 1;
pub(super) const COUNT: u32 = 2;
pub(super) const TX_SLOTS: u32 = 3;
pub(super) const TX_RINGS: u32 = 4;
pub(super) const LATE_BYTES: u32 = 5;
pub(super) const LATE_DESCRIPTORS: u32 = 6;

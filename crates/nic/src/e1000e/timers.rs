//! The tags of the timers, by which [`crate::NicModel::timer`] tells them apart.

pub(super) const PHY: u32 = 0;
pub(super) const INTR: u32 = 1;
pub(super) const TX: u32 = 2;
/// Of the first receive queue; the other's follows.
pub(super) const LATE: u32 = 3;

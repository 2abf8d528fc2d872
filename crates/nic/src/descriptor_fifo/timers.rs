//! The tags of the timers, by which [`crate::NicModel::timer`] tells them apart.

pub(super) const TX: u32 = 0;
pub(super) const LATE: u32 = 1;
/// Of an alarm that is never set: no interrupt is moderated.
pub(super) const MODERATION: u32 = 2;

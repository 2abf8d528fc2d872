//! Interrupts: one vector, and nothing is held back.

use super::{regs, timers};
use crate::queue::Causes;

/// Nothing pending, everything masked. There are the causes `all`.
pub(super) fn causes(all: u32) -> Causes<0> {
    Causes::new(regs::VECTOR, all, [], timers::MODERATION)
}

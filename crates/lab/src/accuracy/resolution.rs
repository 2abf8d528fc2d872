//! How finely the loop that injects can tell times apart.
//!
//! Its clock is the time stamp counter, of which a tick is less than a nanosecond. But a deadline is
//! noticed, and an access of the driver is served, only when the loop comes by: between one look at
//! the clock and the next lies a pass that serves the target. That is the resolution of this timer,
//! and an interval that is off by no more than one pass is exact. It is measured, with the target at
//! rest as it is just before a deadline. The median is taken, because a longer pass is a
//! disturbance, and a disturbed machine must not count more intervals as exact.

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_measure::Samples;
use warikomi_target::{Target, TargetError};

/// Passes looked at.
const PASSES: usize = 20_000;

/// What can be told apart.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Resolution {
    /// A tick of the counter.
    pub(super) tick: Span,
    /// The median pass of the loop.
    pub(super) pass: Span,
}

/// Measures it, which takes some milliseconds; nothing in virtual time, where the loop is at each deadline in time.
pub(super) fn measure(target: &mut dyn Target) -> Result<Resolution, TargetError> {
    let tick = target.clock().resolution();
    if target.clock().is_virtual() {
        return Ok(Resolution { tick, pass: tick });
    }
    let mut passes = Samples::new();
    let mut last = target.poll()?;
    for _ in 0..PASSES {
        let pass = target.poll()?;
        if !last.worked {
            passes.record(pass.at.since(last.at));
        }
        last = pass;
    }
    let median_ns = passes.summary().map_or(0.0, |summary| summary.p50);
    Ok(Resolution { tick, pass: Span::from_ps((median_ns * 1e3) as u64).max(tick) })
}

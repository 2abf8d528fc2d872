//! Waiting, while the target is served.

use std::time::{Duration, Instant};

use crate::{Target, TargetError};

/// Polls `target` until `done` gives something; `None` when time is up.
pub fn until<T: Target + ?Sized, R>(
    target: &mut T,
    within: Duration,
    mut done: impl FnMut(&mut T) -> Option<R>,
) -> Result<Option<R>, TargetError> {
    const FIRST_PASSES: u32 = 256;
    const MOST_PASSES: u32 = 16_384;
    // What takes long is looked at less and less often: while we look at processes, the driver waits.
    let mut passes = FIRST_PASSES;
    let deadline = Instant::now() + within;
    loop {
        target.housekeep()?;
        if let Some(found) = done(target) {
            return Ok(Some(found));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        for _ in 0..passes {
            target.poll()?;
            if target.shares_a_core() {
                std::thread::yield_now();
                break;
            }
            std::hint::spin_loop();
        }
        passes = (2 * passes).min(MOST_PASSES);
    }
}

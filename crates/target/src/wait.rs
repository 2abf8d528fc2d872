//! Waiting, while the target is served.

use std::time::{Duration, Instant};

use crate::{Target, TargetError};

/// Polls `target` until `done` gives something; `None` when time is up.
pub(crate) fn until<T: Target + ?Sized, R>(
    target: &mut T,
    within: Duration,
    mut done: impl FnMut(&mut T) -> Option<R>,
) -> Result<Option<R>, TargetError> {
    const PASSES_BETWEEN_LOOKS: u32 = 256;
    let deadline = Instant::now() + within;
    loop {
        target.housekeep()?;
        if let Some(found) = done(target) {
            return Ok(Some(found));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        for _ in 0..PASSES_BETWEEN_LOOKS {
            target.poll()?;
            if target.shares_a_core() {
                std::thread::yield_now();
                break;
            }
            std::hint::spin_loop();
        }
    }
}

//! What is seen a little later than it happens.

use std::time::{Duration, Instant};

/// As long as it may take on the busiest machine.
const AT_MOST: Duration = Duration::from_secs(10);

/// Asks until it is so; false if it never is. The end of a connection is one such thing: a process that another test is
/// just starting has a copy of its socket, until it runs its own program.
#[must_use]
pub fn seen_at_last(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + AT_MOST;
    while !is_so() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

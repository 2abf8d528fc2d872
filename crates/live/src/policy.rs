//! How patient a supervisor is.

use warikomi_clock::{Span, Time};
use warikomi_target::process::Way;

/// How a device's drivers are replaced and watched.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How they follow one another.
    pub way: Way,
    /// Keep another driver started and warm, to be there at once when the running one dies.
    pub spare: bool,
    /// How long a new driver may take until it is warm.
    pub warm_within: Span,
    /// How long a driver may take to hand over once it was ordered to.
    pub hand_over_within: Span,
    /// How long a driver may take to accept the baton, and then to be ready.
    pub accept_within: Span,
    /// How long a driver's loop may stand still while it does not sleep.
    pub silent_for: Span,
    /// How long work may wait for a driver that takes none of it up.
    pub stuck_for: Span,
    /// What happens to a driver that keeps failing.
    pub backoff: Backoff,
}

impl Policy {
    /// What is usual for a way.
    pub fn of(way: Way) -> Policy {
        Policy {
            way,
            spare: way != Way::Reload,
            warm_within: Span::from_ms(5_000),
            hand_over_within: Span::from_ms(100),
            accept_within: Span::from_ms(100),
            silent_for: Span::from_ms(500),
            stuck_for: Span::from_ms(500),
            backoff: Backoff::default(),
        }
    }
}

/// Growing delays between restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay but one: the first restart comes at once.
    pub first: Span,
    /// The longest.
    pub longest: Span,
    /// Restarts in a row after which it is given up.
    pub give_up_after: u32,
    /// A driver that has run so long has succeeded: the next failure is the first again.
    pub success_after: Span,
    failures: u32,
    started: Time,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Span::from_ms(10),
            longest: Span::from_ms(5_000),
            give_up_after: 8,
            success_after: Span::from_ms(1_000),
            failures: 0,
            started: Time::ZERO,
        }
    }
}

impl Backoff {
    /// A driver has begun to run.
    pub fn started(&mut self, now: Time) {
        self.started = now;
    }

    /// A driver has failed: the delay before the next start, or `None` if it is given up.
    pub fn failed(&mut self, now: Time) -> Option<Span> {
        let _ = now;
        unimplemented!("helper target")
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

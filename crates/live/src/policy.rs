//! How patient a supervisor is.

use warikomi_clock::{Span, Time};
use warikomi_process::Way;

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
    /// The default policy of a way.
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
    /// Failures in a row after which it is given up.
    pub give_up_after: u32,
    /// A driver that has run so long has succeeded: the next failure is the first again.
    pub success_after: Span,
    failures: u32,
    /// Since when a driver runs, if one does.
    running: Option<Time>,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Span::from_ms(10),
            longest: Span::from_ms(5_000),
            give_up_after: 8,
            success_after: Span::from_ms(1_000),
            failures: 0,
            running: None,
        }
    }
}

impl Backoff {
    /// A driver has begun to run.
    pub fn started(&mut self, now: Time) {
        self.running = Some(now);
    }

    /// A driver has failed, or has not even begun to run: the delay before the next start, or `None` if it
    /// is given up.
    pub fn failed(&mut self, now: Time) -> Option<Span> {
        if self.has_succeeded(now) {
            self.failures = 0;
        }
        self.running = None;
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.give_up_after {
            return None;
        }
        let Some(doubled) = self.failures.checked_sub(2) else { return Some(Span::ZERO) };
        Some((self.first * 1u64.checked_shl(doubled).unwrap_or(u64::MAX)).min(self.longest))
    }

    /// Whether the driver that runs has done so for long enough.
    pub fn has_succeeded(&self, now: Time) -> bool {
        self.running.is_some_and(|started| now.since(started) >= self.success_after)
    }

    /// Somebody wants it to be tried anew.
    pub fn reset(&mut self) {
        (self.failures, self.running) = (0, None);
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(count: u64) -> Time {
        Time::ZERO + Span::from_ms(count)
    }

    #[test]
    fn delays_grow_to_the_longest_and_then_it_is_given_up() {
        let mut backoff = Backoff { give_up_after: 14, ..Backoff::default() };
        let delays: Vec<u64> = std::iter::from_fn(|| backoff.failed(ms(0)))
            .map(|delay| delay.as_ps() / 1_000_000_000)
            .collect();
        let expected = [0, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000, 5_000];
        assert_eq!(delays, expected);
        assert_eq!(backoff.failed(ms(1_000_000)), None, "it stays given up");
        backoff.reset();
        assert_eq!(backoff.failed(ms(0)), Some(Span::ZERO));
    }

    #[test]
    fn only_a_driver_that_has_run_for_long_begins_the_count_anew() {
        let mut backoff = Backoff::default();
        backoff.started(ms(0));
        assert_eq!(backoff.failed(ms(999)), Some(Span::ZERO));
        backoff.started(ms(1_000));
        assert_eq!(backoff.failed(ms(1_500)), Some(Span::from_ms(10)));
        assert_eq!(backoff.failed(ms(9_000)), Some(Span::from_ms(20)), "it has not even started");
        backoff.started(ms(10_000));
        assert!(backoff.has_succeeded(ms(11_000)) && !backoff.has_succeeded(ms(10_999)));
        assert_eq!(backoff.failed(ms(11_000)), Some(Span::ZERO));
    }

    proptest! {
        /// Without a success, delays never shrink, are never beyond the longest, and end.
        #[test]
        fn delays_are_bounded_and_end(
            first_ms in 0u64..1 << 40,
            longest_ms in 0u64..1 << 40,
            give_up_after in 0u32..200,
            runs_ms in prop::collection::vec(0u64..1_000, 1..200),
        ) {
            let mut backoff = Backoff {
                first: Span::from_ms(first_ms),
                longest: Span::from_ms(longest_ms),
                give_up_after,
                ..Backoff::default()
            };
            let (mut now, mut before) = (Time::ZERO, Span::ZERO);
            for (number, run_ms) in runs_ms.iter().enumerate() {
                backoff.started(now);
                now += Span::from_ms(*run_ms);
                let delay = backoff.failed(now);
                prop_assert_eq!(delay.is_none(), number as u32 + 1 >= give_up_after);
                let Some(delay) = delay else { break };
                prop_assert!(delay >= before && delay <= backoff.longest.max(Span::ZERO));
                before = delay;
            }
        }
    }
}

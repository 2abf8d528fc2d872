//! What holds the interrupts of a vector back.

use warikomi_clock::{Span, Time};

/// The least time between two interrupts of a vector (EITR and ITR: 82574, 10.2.4.7 and 10.2.4.2; 82576, 8.8.14).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttle {
    interval: Span,
    last: Option<Time>,
}

impl Throttle {
    pub(crate) const fn off() -> Self {
        Throttle { interval: Span::ZERO, last: None }
    }

    /// The driver sets it.
    pub(crate) fn set(&mut self, interval: Span) {
        self.interval = interval;
    }

    /// When the next interrupt may go out.
    pub(crate) fn opens(&self) -> Time {
        self.last.map_or(Time::ZERO, |last| last + self.interval)
    }

    /// One goes out.
    pub(crate) fn passed(&mut self, now: Time) {
        self.last = Some(now);
    }
}

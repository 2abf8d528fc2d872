//! The clock of a target: a counter that runs, or a calendar that is moved.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Span, Time, TscClock};

/// What the times of a target are taken from.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The processor's time stamp counter.
    Real(TscClock),
    /// A calendar: time is what was last said, and every cost is declared.
    Virtual(VirtualClock),
}

impl Clock {
    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Clock::Real(clock) => clock.now(),
            Clock::Virtual(clock) => clock.now(),
        }
    }

    /// The time at which a target's counter showed `ticks`. In virtual time that counter counts nanoseconds.
    #[inline]
    pub fn at(&self, ticks: u64) -> Time {
        match self {
            Clock::Real(clock) => clock.at(ticks),
            Clock::Virtual(clock) => clock.at(ticks),
        }
    }

    /// Ticks of a target's counter in a second.
    pub fn ticks_per_second(&self) -> f64 {
        match self {
            Clock::Real(clock) => clock.ticks_per_second(),
            Clock::Virtual(_) => 1e9,
        }
    }

    /// The finest difference that it can show.
    pub fn resolution(&self) -> Span {
        match self {
            Clock::Real(clock) => clock.resolution(),
            Clock::Virtual(_) => Span::from_ps(1),
        }
    }

    /// Whether time is virtual.
    #[inline]
    pub fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual(_))
    }
}

impl From<TscClock> for Clock {
    fn from(clock: TscClock) -> Clock {
        Clock::Real(clock)
    }
}

/// Virtual time: all copies of a clock show the same.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    shared: &'static Shared,
}

#[derive(Debug, Default)]
struct Shared {
    now_ps: AtomicU64,
    /// When the target's counter was at zero.
    counter_zero_ps: AtomicU64,
}

impl VirtualClock {
    /// A clock that shows zero. Its few bytes are never given back, because copies may outlive it.
    pub fn at_zero() -> VirtualClock {
        VirtualClock { shared: Box::leak(Box::default()) }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        Time::from_ps(self.shared.now_ps.load(Ordering::Relaxed))
    }

    /// Moves on to `at`, unless it is later already.
    pub fn advance_to(&self, at: Time) {
        self.shared.now_ps.fetch_max(at.as_ps(), Ordering::Relaxed);
    }

    /// The target's counter of nanoseconds shows this now.
    pub fn set_counter(&self, ticks: u64) {
        let zero = self.now() - Span::from_ns(ticks);
        self.shared.counter_zero_ps.store(zero.as_ps(), Ordering::Relaxed);
    }

    fn at(&self, ticks: u64) -> Time {
        Time::from_ps(self.shared.counter_zero_ps.load(Ordering::Relaxed)) + Span::from_ns(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a virtual clock's bytes are never given back: a leak to Miri")]
    fn virtual_time_is_one_for_all_copies_and_never_goes_back() {
        let clock = VirtualClock::at_zero();
        let copy = Clock::Virtual(clock);
        clock.advance_to(Time::from_ps(7));
        clock.advance_to(Time::from_ps(3));
        assert_eq!((copy.now(), copy.at(2)), (Time::from_ps(7), Time::from_ps(2_000)));
        assert_eq!(Clock::Virtual(VirtualClock::at_zero()).now(), Time::ZERO);
        clock.advance_to(Time::ZERO + Span::from_us(9));
        clock.set_counter(4_000);
        assert_eq!(copy.at(5_500), Time::ZERO + Span::from_ns(10_500));
    }
}

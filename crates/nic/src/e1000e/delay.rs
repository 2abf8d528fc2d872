//! The delay timers of either direction, which hold interrupts back besides the throttles.

use warikomi_clock::{Span, Time};

/// A delay since the last frame, and one since the first (RDTR and RADV, TIDV and TADV: 82574, 7.4.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    packet: Span,
    absolute: Span,
    /// When what is held goes out at the latest.
    latest: Time,
    due: Time,
}

/// The unit of the delay timers.
const DELAY_UNIT: Span = Span::from_ns(1_024);

/// Which of the two timers has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    Packet,
    Absolute,
}

impl Delay {
    pub(super) const fn off() -> Self {
        Delay { packet: Span::ZERO, absolute: Span::ZERO, latest: Time::NEVER, due: Time::NEVER }
    }

    /// The driver writes the registers; without a packet delay nothing is held.
    pub(super) fn set(&mut self, packet: u32, absolute: u32) {
        self.packet = DELAY_UNIT * u64::from(packet & 0xffff);
        self.absolute = DELAY_UNIT * u64::from(absolute & 0xffff);
    }

    /// Takes in a frame; whether it is to be told at once.
    pub(super) fn hold(&mut self, now: Time) -> bool {
        if self.packet == Span::ZERO {
            return true;
        }
        if self.due == Time::NEVER && self.absolute != Span::ZERO {
            self.latest = now + self.absolute;
        }
        self.due = (now + self.packet).min(self.latest);
        false
    }

    /// When what is held goes out; [`Time::NEVER`] if nothing is.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Whether what was held goes out now, and by which timer.
    pub(super) fn expire(&mut self, now: Time) -> Option<Expired> {
        if self.due > now {
            return None;
        }
        let by = if self.due == self.latest { Expired::Absolute } else { Expired::Packet };
        self.clear();
        Some(by)
    }

    /// Lets go of what is held; whether there was something.
    pub(super) fn clear(&mut self) -> bool {
        self.latest = Time::NEVER;
        std::mem::replace(&mut self.due, Time::NEVER) != Time::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + DELAY_UNIT * us
    }

    #[test]
    fn each_frame_puts_the_interrupt_off_until_the_absolute_delay_is_over() {
        let mut delay = Delay::off();
        assert!(delay.hold(us(0)));
        delay.set(8, 20);
        assert!(!delay.hold(us(100)));
        assert_eq!((delay.due(), delay.expire(us(107))), (us(108), None));
        assert!(!delay.hold(us(106)));
        assert_eq!(delay.due(), us(114));
        assert!(!delay.hold(us(113)));
        assert_eq!((delay.due(), delay.expire(us(120))), (us(120), Some(Expired::Absolute)));
        assert!(!delay.hold(us(130)));
        assert_eq!(delay.expire(us(138)), Some(Expired::Packet));
        assert_eq!(delay.expire(us(900)), None);
        assert!(!delay.clear());
    }
}

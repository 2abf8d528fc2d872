//! The count of a clock (TCTR), and the interrupt at one of its values (TimerInt).

use warikomi_clock::{Span, Time};

use crate::NicContext;
use crate::queue::Alarm;

/// A timer whose count goes up once a tick.
#[derive(Debug)]
pub(crate) struct Timer {
    tick: Span,
    /// When the count was 0.
    zero: Time,
    alarm: Alarm,
}

impl Timer {
    /// One that has just begun to count. Its timer has this tag.
    pub(crate) const fn new(tick: Span, tag: u32) -> Timer {
        Timer { tick, zero: Time::ZERO, alarm: Alarm::new(tag) }
    }

    /// The present count.
    pub(crate) fn count(&self, now: Time) -> u32 {
        (now.since(self.zero).as_ps() / self.tick.as_ps()) as u32
    }

    /// The count is 0 from now on, and the interrupt comes when it is `goal`.
    pub(crate) fn restart(&mut self, cx: &mut NicContext<'_>, goal: u32) {
        self.zero = cx.now();
        self.set_goal(cx, goal);
    }

    /// The interrupt comes when the count is `goal`; never for 0.
    pub(crate) fn set_goal(&mut self, cx: &mut NicContext<'_>, goal: u32) {
        if goal == 0 {
            return self.alarm.cancel();
        }
        let ticks = goal.wrapping_sub(self.count(cx.now()));
        self.alarm.set(cx, cx.now() + self.tick * u64::from(ticks.max(1)));
    }

    /// No interrupt comes.
    pub(crate) fn cancel(&mut self) {
        self.alarm.cancel();
    }

    /// To be called when an event with the tag comes: whether it is time for the interrupt.
    pub(crate) fn event(&mut self, cx: &mut NicContext<'_>) -> bool {
        self.alarm.event(cx)
    }
}

//! Interrupt moderation: reports of frames are held back until a time has passed since the first one
//! that was held, or until a number of frames has come together.

use warikomi_clock::{Span, Time};

/// The moderation of one cause of interrupts. Whoever keeps it sets an [`Alarm`](super::Alarm) to
/// [`due`](Self::due) and calls [`release_due`](Self::release_due) then.
#[derive(Clone, Copy, Debug)]
pub struct Moderation {
    /// Longest time to hold; zero holds nothing back.
    time: Span,
    /// Frames that end the wait; zero waits for the time alone.
    frames: u32,
    waiting: u32,
    due: Time,
}

impl Moderation {
    /// Nothing is held back.
    pub const fn off() -> Self {
        Moderation { time: Span::ZERO, frames: 0, waiting: 0, due: Time::NEVER }
    }

    /// Frames are held for at most `time`, nothing if that is zero; so many `frames` end the wait, unless
    /// that is zero. Whether something was held that is to be reported at once, so that no
    /// setting can leave it behind.
    #[must_use]
    pub fn set(&mut self, time: Span, frames: u32) -> bool {
        if (self.time, self.frames) == (time, frames) {
            return false;
        }
        (self.time, self.frames) = (time, frames);
        self.release()
    }

    /// Takes in `frames` frames. Whether they, and what was held before, are to be reported now.
    #[inline]
    #[must_use]
    pub fn hold(&mut self, now: Time, frames: u32) -> bool {
        if self.time == Span::ZERO {
            return true;
        }
        if self.waiting == 0 {
            self.due = now + self.time;
        }
        self.waiting = self.waiting.saturating_add(frames);
        self.is_enough() && self.release()
    }

    /// When what is held must be reported; [`Time::NEVER`] if nothing is.
    #[inline]
    pub fn due(&self) -> Time {
        self.due
    }

    /// Whether what was held is to be reported now.
    #[must_use]
    pub fn release_due(&mut self, now: Time) -> bool {
        self.due <= now && self.release()
    }

    fn is_enough(&self) -> bool {
        self.frames != 0 && self.waiting >= self.frames
    }

    /// Ends the wait; whether something was held.
    fn release(&mut self) -> bool {
        self.due = Time::NEVER;
        std::mem::take(&mut self.waiting) > 0
    }
}

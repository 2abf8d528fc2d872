//! One timer of the model.
//!
//! An alarm that is set again for a later time lets the event go by that comes too early, instead
//! of asking for another at every setting.

use warikomi_clock::Time;

use crate::NicContext;

/// One timer of a model, known by its tag.
#[derive(Debug)]
pub struct Alarm {
    tag: u32,
    due: Time,
    /// When the earliest event comes that is still in the queue.
    armed: Time,
}

impl Alarm {
    /// One that is not set. No other alarm of the model has its tag.
    pub const fn new(tag: u32) -> Self {
        Alarm { tag, due: Time::NEVER, armed: Time::NEVER }
    }

    /// The tag that it is known by.
    pub(crate) const fn tag(&self) -> u32 {
        self.tag
    }

    /// Rings at `due`, and not at the time that was set before.
    pub fn set(&mut self, cx: &mut NicContext<'_>, due: Time) {
        self.due = due;
        if due < self.armed {
            self.armed = due;
            cx.schedule(due.since(cx.now()), self.tag);
        }
    }

    /// Does not ring.
    pub fn cancel(&mut self) {
        self.due = Time::NEVER;
    }

    /// Whether it is going to ring.
    pub fn is_set(&self) -> bool {
        self.due != Time::NEVER
    }

    /// To be called when an event with this alarm's tag comes; whether the alarm rings.
    pub fn event(&mut self, cx: &mut NicContext<'_>) -> bool {
        let now = cx.now();
        if self.armed <= now {
            self.armed = Time::NEVER;
        }
        if self.due <= now {
            self.due = Time::NEVER;
            return true;
        }
        if self.is_set() {
            self.set(cx, self.due);
        }
        false
    }
}

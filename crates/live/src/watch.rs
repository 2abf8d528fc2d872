//! Whether a driver is alive.

use warikomi_clock::{Span, Time};
use warikomi_target::process::Seat;

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Well,
    /// Its process has ended, or says that it has failed.
    Over,
    /// Its loop stands still, and it does not sleep.
    Silent,
    /// Work waits, its loop goes round, and it takes none of it up.
    Stuck,
}

/// Watches one driver. What it says is only compared with what it said before.
#[derive(Clone, Debug)]
pub struct Watch {
    silent_for: Span,
    stuck_for: Span,
}

impl Watch {
    /// Begins to watch.
    pub fn new(silent_for: Span, stuck_for: Span) -> Watch {
        Watch { silent_for, stuck_for }
    }

    /// Looks at the driver; `work_waits` is what others know of its work.
    pub fn look(&mut self, now: Time, seat: &Seat, work_waits: bool) -> Verdict {
        let _ = (now, seat, work_waits, self.silent_for, self.stuck_for);
        unimplemented!("helper target")
    }
}

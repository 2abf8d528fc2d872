//! Which processes come first on the target's core, where we may say so.
//!
//! Parts of a live target share a core. The driver comes before what is above it, as drivers do in
//! microkernel systems; one that is being started comes after everything, because its start takes
//! milliseconds of the processor, unless somebody waits for it ([`Wanted`]). Both need a right that root has (CAP_SYS_NICE): to raise a process again.
//! Without it all parts are equal, and sends and replacements now and then wait for a start. Or each part has the
//! [priority](Priorities) that it was given, from its start on.

use std::ops::RangeInclusive;

use rustix::process::{Pid, setpriority_process};

/// Claims on a processor, as nice values: the lower comes first.
pub const NICE: RangeInclusive<i32> = -20..=19;
/// A driver's claim on a processor.
const SERVING: i32 = -10;
/// The claim of what is above a driver.
pub(crate) const EQUAL: i32 = 0;
/// The claim of a process that is being started.
const STARTING: i32 = 10;

/// What parts claim of the core that they share, each within [`NICE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priorities {
    /// Drivers, from their start on.
    pub drivers: i32,
    /// The stack.
    pub stack: i32,
    /// The application.
    pub application: i32,
    /// The data store, and its other clients.
    pub store: i32,
}

/// When a driver that is being started is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nobody waits for it: its start must disturb no other part.
    Later,
    /// A request waits for it, while another driver serves the device.
    Soon,
    /// No driver serves the device.
    AtOnce,
}

/// How claims come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    /// All parts are equal.
    Equal,
    /// The driver that serves the device comes first, and one that is being started last.
    DriversFirst,
    /// As they were given.
    Given(Priorities),
}

impl Claims {
    /// Those of a target whose drivers follow one another.
    pub(crate) fn of_live(given: Option<Priorities>) -> Claims {
        match given {
            Some(priorities) => Claims::Given(priorities),
            None if may_be_raised() => Claims::DriversFirst,
            None => Claims::Equal,
        }
    }

    /// With which claim a part that is no driver is started, by its name.
    pub(crate) fn at_start(self, part: &str) -> Option<i32> {
        let Claims::Given(priorities) = self else { return None };
        Some(match part {
            "stack" => priorities.stack,
            "application" => priorities.application,
            _ => priorities.store,
        })
    }

    /// With which claim a driver is started.
    pub(crate) fn of_driver(self, wanted: Wanted) -> Option<i32> {
        match (self, wanted) {
            (Claims::Given(priorities), _) => Some(priorities.drivers),
            (Claims::DriversFirst, Wanted::Later) => Some(STARTING),
            (Claims::DriversFirst, Wanted::AtOnce) => Some(SERVING),
            (Claims::DriversFirst, Wanted::Soon) | (Claims::Equal, _) => None,
        }
    }

    /// The claim of a driver that has the device, or is about to get it, if it is another.
    pub(crate) fn at_device(self) -> Option<i32> {
        (self == Claims::DriversFirst).then_some(SERVING)
    }
}

/// Whether processes may be raised.
pub fn may_be_raised() -> bool {
    // In a thread of its own, whose claim ends with it.
    std::thread::spawn(|| setpriority_process(None, SERVING).is_ok()).join().unwrap_or(false)
}

/// Gives the calling thread this claim, and whatever process it starts.
pub fn claim_for_this_thread(nice: i32) {
    let _ = setpriority_process(None, nice);
}

/// Gives a process this claim.
pub(crate) fn claim(process_id: u32, nice: i32) {
    if let Some(pid) = i32::try_from(process_id).ok().and_then(Pid::from_raw) {
        // One that has ended needs none.
        let _ = setpriority_process(Some(pid), nice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_starts_with_the_claim_that_it_was_given() {
        let given = Priorities { drivers: 1, stack: 2, application: 3, store: 4 };
        let claims = Claims::of_live(Some(given));
        let parts = ["stack", "application", "store", "store-client"];
        assert_eq!(parts.map(|part| claims.at_start(part)), [2, 3, 4, 4].map(Some));
        for wanted in [Wanted::Later, Wanted::Soon, Wanted::AtOnce] {
            assert_eq!(claims.of_driver(wanted), Some(1));
        }
        assert_eq!(claims.at_device(), None);
    }

    #[test]
    fn unless_it_is_said_only_drivers_have_a_claim_and_only_where_they_may() {
        let first = Claims::DriversFirst;
        assert!(first.of_driver(Wanted::Later) > Some(0) && first.at_device() < Some(0));
        let others = (first.at_start("stack"), Claims::Equal.of_driver(Wanted::AtOnce));
        assert_eq!(others, (None, None));
        assert_eq!(Claims::Equal.at_device(), None);
    }

    #[test]
    fn a_driver_that_somebody_waits_for_does_not_come_last() {
        let first = Claims::DriversFirst;
        assert_eq!(
            first.of_driver(Wanted::Soon),
            None,
            "as the application that it shares a core with"
        );
        assert_eq!(first.of_driver(Wanted::AtOnce), first.at_device());
    }
}

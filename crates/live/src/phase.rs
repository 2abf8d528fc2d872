//! Where a supervisor is.

use warikomi_clock::Time;
use warikomi_process::{Baton, How, Program};

use crate::Kind;

/// A driver process by its generation, and what it runs.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) generation: u32,
    pub(crate) program: Program,
}

/// One driver that is to come into the place of another.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) kind: Kind,
    pub(crate) to: Driver,
    /// The driver that has the device lives, and goes on if this comes to nothing.
    pub(crate) from_lives: bool,
    /// How the new one comes by the baton.
    pub(crate) how: How,
    /// It was asked for, or the death was seen.
    pub(crate) requested: Time,
    /// Since when the new driver's process has been waited for.
    pub(crate) creating: Time,
    /// It was seen to be warm.
    pub(crate) warm: Option<Time>,
    /// The order went out, or the death was seen.
    pub(crate) begun: Time,
    /// The old driver's process was gone, if it had to be.
    pub(crate) gone: Option<Time>,
    /// When what is going on now must be over.
    pub(crate) until: Time,
}

impl Attempt {
    /// One that was asked for, or became necessary, at `requested`. Nothing is known of the old driver, and the
    /// new one has no time.
    pub(crate) fn new(kind: Kind, to: Driver, how: How, requested: Time) -> Attempt {
        Attempt {
            kind,
            to,
            from_lives: false,
            how,
            requested,
            creating: requested,
            warm: None,
            begun: requested,
            gone: None,
            until: requested,
        }
    }
}

/// One driver that has to go before another can begin.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    pub(crate) generation: u32,
    pub(crate) why: String,
    /// When it was seen that it has to go.
    pub(crate) begun: Time,
    /// One that was on its way to take its place.
    pub(crate) candidate: Option<Driver>,
    /// It had taken over from a dead one, and got no further than that.
    pub(crate) had_just_taken_over: bool,
}

/// What is to come after a driver's death.
#[derive(Clone, Debug)]
pub(crate) struct Restart {
    pub(crate) at: Time,
    pub(crate) program: Program,
    pub(crate) candidate: Option<Driver>,
    pub(crate) how: How,
    pub(crate) begun: Time,
    pub(crate) gone: Time,
}

impl Restart {
    /// Whether the driver that is to come has been given the device by the one that died.
    pub(crate) fn is_given(&self, baton: Baton) -> bool {
        self.candidate.as_ref().is_some_and(|driver| driver.generation == baton.generation)
    }
}

/// The state of a supervisor.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// A driver serves the device.
    Running,
    /// A new driver is getting warm.
    Warming(Attempt),
    /// The new driver is warm, and rehearses.
    Rehearsing(Attempt),
    /// The old driver is told to be awake.
    Waking(Attempt),
    /// The old driver has been ordered to hand over.
    HandingOver(Attempt),
    /// The order has been taken back. The old driver may have seen it before; it has not once it has told
    /// twice more that its loop goes round.
    Withdrawing { attempt: Attempt, why: String, heartbeat: u64, beats: u32 },
    /// The old driver has been ordered to stop, before the new one is started.
    Stopping { program: Program, begun: Time, until: Time },
    /// The new driver has the baton.
    Accepting(Attempt),
    /// The new driver has accepted, and makes its first pass.
    Settling(Attempt),
    /// The new driver is no good: once its process is gone, the baton goes back.
    TakingBack { attempt: Attempt, why: String },
    /// The driver is no good: once its process is gone, another one takes over.
    CleaningUp(Cleanup),
    /// The next driver is started when its time has come.
    Waiting(Restart),
    /// Nothing is started any more until a user asks for it.
    GivenUp(String),
}

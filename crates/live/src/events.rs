//! What a supervisor tells.

use warikomi_clock::{Span, Time};
use warikomi_process::Program;

/// Why one driver followed another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A user asked for it.
    Planned,
    /// The running driver died, hung, or left work lying.
    Recovery,
}

impl Kind {
    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Planned => "planned",
            Kind::Recovery => "recovery",
        }
    }
}

/// One replacement, from the request to its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Why the driver was replaced.
    pub kind: Kind,
    /// The generation that was replaced.
    pub from: u32,
    /// The one that runs now.
    pub to: u32,
    /// The device was reset, and what the old driver had went back.
    pub reset: bool,
    /// The supervisor was asked for it, or saw the death.
    pub requested: Time,
    /// Since when the new driver's process was waited for: the request, unless the old one had to be gone first.
    pub creating: Time,
    /// The new driver's process had mapped everything and waited for the baton.
    pub warm: Time,
    /// The order went out, or the death was seen.
    pub begun: Time,
    /// The old driver saw the order.
    pub order_seen: Option<Time>,
    /// The old driver let go of the device (of one that died: its process was gone).
    pub handed_over: Time,
    /// The new driver saw the baton.
    pub awake: Time,
    /// It had read and accepted what was left.
    pub accepted: Time,
    /// Its first pass had served the device.
    pub served: Time,
    /// The supervisor had the result.
    pub returned: Time,
    /// How often the application got the processor during the reads that the new process's creation waited for.
    pub read_dispatches: Option<u64>,
}

impl Replacement {
    /// Time to replace by the published clock: from the request to the return of its result, the new process's
    /// creation included.
    pub fn replace(&self) -> Span {
        self.returned.since(self.requested)
    }

    /// Step "create": until the new driver's process waits for the device. Next to nothing if one was kept ready.
    pub fn create(&self) -> Span {
        self.warm.since(self.creating)
    }

    /// Step "write state": from the order until the old driver has left everything in order.
    pub fn write_state(&self) -> Option<Span> {
        (!self.reset).then(|| self.handed_over.since(self.begun))
    }

    /// Step "start": until the new driver runs with the device given to it.
    pub fn start(&self) -> Span {
        self.awake.since(self.handed_over.max(self.warm))
    }

    /// Step "read state": until the new driver has accepted what the old one left.
    pub fn read_state(&self) -> Option<Span> {
        (!self.reset).then(|| self.accepted.since(self.awake))
    }

    /// Time to switch: from the order to the new driver at work.
    pub fn swap(&self) -> Span {
        self.served.since(self.begun)
    }

    /// How long no driver served the device.
    pub fn outage(&self) -> Span {
        self.served.since(self.order_seen.unwrap_or(self.begun))
    }
}

/// What has happened in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new driver serves the device.
    Replaced(Replacement),
    /// A planned replacement was called off, and the old driver goes on.
    RolledBack {
        /// The generation that keeps the device.
        kept: u32,
        /// The generation that was refused.
        refused: u32,
        /// Why it was refused.
        why: String,
    },
    /// The driver died, hung, or left work lying; another is on its way after this delay.
    Failed {
        /// The generation.
        generation: u32,
        /// The failure that was seen.
        why: String,
        /// When the next one is started.
        next_after: Span,
    },
    /// The driver that was kept ready, or was to be, comes to nothing; the one that serves goes on.
    SpareFailed {
        /// Why.
        why: String,
        /// The next one is started after this delay, or not before the next replacement.
        next_after: Option<Span>,
    },
    /// Too many failures in a row: nothing is started any more until a user asks for it.
    GivenUp {
        /// The last failure.
        why: String,
    },
}

/// Why a replacement cannot be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another replacement has not ended yet.
    #[error("a replacement is going on; ask again when it has ended")]
    Busy,
    /// There is nothing to go back to.
    #[error("no driver ran before this one, so there is nothing to go back to")]
    NothingBefore,
}

/// The state of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// A driver serves the device.
    Running,
    /// One is being replaced by this generation.
    Replacing(u32),
    /// The driver has failed; the next is started at this time.
    Waiting(Time),
    /// See the reason.
    GivenUp(String),
}

/// What can be said about it all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The state of the service.
    pub service: Service,
    /// The generation that is served, its program, and its process.
    pub generation: u32,
    /// The program of the driver that serves the device.
    pub program: Program,
    /// Process id of that driver.
    pub process_id: u32,
    /// Since when it runs.
    pub since: Time,
    /// The program before, to which a rollback would go.
    pub before: Option<Program>,
    /// The generation that is kept warm, if there is one.
    pub spare: Option<u32>,
    /// Planned replacements that succeeded.
    pub planned: u64,
    /// Recoveries that succeeded.
    pub recovered: u64,
    /// Planned replacements that were called off.
    pub rolled_back: u64,
    /// Failures in a row.
    pub failures: u32,
    /// Accesses of fenced drivers.
    pub fenced_accesses: u64,
}

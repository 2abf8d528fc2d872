//! Where a driver runs: how it is started, attached to a NIC, watched and stopped.

pub mod cores;
mod error;
mod interrupted;
pub mod kernel;
mod pass;

pub use error::{ConsoleTail, TargetError};
pub use interrupted::Interrupted;
pub use pass::Pass;

use warikomi_clock::TscClock;
use warikomi_nic::Nic;
use warikomi_pci::Host;

/// A place where a driver runs, attached to a NIC.
///
/// Nothing happens between calls: the driver's register accesses are answered, and its interrupts
/// go out, inside [`poll`](Target::poll). Whoever waits for something polls while waiting.
pub trait Target {
    /// Serves what the driver has done since the last call, a bounded amount of it. The error says
    /// how the target ended, if it has.
    fn poll(&mut self) -> Result<Pass, TargetError>;

    /// Everything that is worth doing but not on every pass: looking at the connection, the
    /// processes, the console, Ctrl-C. It takes some microseconds; call it when nothing is due
    /// soon.
    fn housekeep(&mut self) -> Result<(), TargetError>;

    /// The NIC, and what it is attached to.
    fn nic(&mut self) -> (&mut dyn Nic, Host<'_>);

    /// The clock that times are taken from.
    fn clock(&self) -> TscClock;

    /// What the target has written to its console lately.
    fn console(&self) -> ConsoleTail;

    /// Counts since the start.
    fn counters(&self) -> TargetCounters;

    /// Ends the target and waits until all of it is gone.
    fn stop(&mut self) -> Result<(), TargetError>;
}

/// What a target counts about the way to and from the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCounters {
    /// Register and configuration accesses served.
    pub accesses: u64,
    /// Accesses that made no sense and were dropped.
    pub malformed: u64,
    /// Fills of a BAR (`memset_io`) that came as configuration writes, and were taken for what they
    /// were meant to be.
    pub disguised_fills: u64,
    /// Interrupts handed to the target.
    pub interrupts_sent: u64,
    /// How many had to wait: the target had no buffer free for them, or the driver was transmitting
    /// and the moment not safe.
    pub interrupts_delayed: u64,
    /// Interrupts lost because more waited than any sane driver lets pile up.
    pub interrupts_dropped: u64,
    /// Times that the target had to be woken a second time for an interrupt that it had slept
    /// through.
    pub resignalled: u64,
    /// INTx changes that this target cannot deliver.
    pub intx_undeliverable: u64,
}

impl TargetCounters {
    /// Both counts together.
    pub fn with(&self, other: &TargetCounters) -> TargetCounters {
        self.combine(other, u64::saturating_add)
    }

    /// What has been counted since `earlier`.
    pub fn since(&self, earlier: &TargetCounters) -> TargetCounters {
        self.combine(earlier, u64::saturating_sub)
    }

    fn combine(&self, other: &TargetCounters, f: fn(u64, u64) -> u64) -> TargetCounters {
        TargetCounters {
            accesses: f(self.accesses, other.accesses),
            malformed: f(self.malformed, other.malformed),
            disguised_fills: f(self.disguised_fills, other.disguised_fills),
            interrupts_sent: f(self.interrupts_sent, other.interrupts_sent),
            interrupts_delayed: f(self.interrupts_delayed, other.interrupts_delayed),
            interrupts_dropped: f(self.interrupts_dropped, other.interrupts_dropped),
            resignalled: f(self.resignalled, other.resignalled),
            intx_undeliverable: f(self.intx_undeliverable, other.intx_undeliverable),
        }
    }
}

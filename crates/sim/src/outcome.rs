//! What came of it, or why nothing did.

use serde::Serialize;
use warikomi_clock::{Span, Time};
use warikomi_inject::PlanError;
use warikomi_measure::{Distribution, Samples};
use warikomi_nic::RxOutcome;

/// Packets and whatever else is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that were to come.
    pub planned: u64,
    /// Frames that came.
    pub injected: u64,
    /// Of these: no descriptor was free.
    pub no_descriptor: u64,
    /// Of these: on the ring.
    pub on_ring: u64,
    /// Of these: on the ring with an error mark, for which the driver refuses them.
    pub damaged: u64,
    /// Of these: the receiver was off, the device at fault, or the filter let them not in.
    pub refused_by_device: u64,
    /// Packets that the application has.
    pub delivered: u64,
    /// Frames on the ring, and packets, that were lost with a part that died.
    pub lost_by_kill: u64,
    /// Interrupts that the NIC sent.
    pub interrupts: u64,
    /// Interrupts that the driver handled.
    pub handled: u64,
    /// Times that the driver slept.
    pub sleeps: u64,
    /// Looks at the ring that found something.
    pub polls_with_frames: u64,
    /// Times that the driver gave up because of what its device reported.
    pub failures: u64,
    /// Parts that were started again.
    pub restarts: u32,
}

impl Counts {
    pub(crate) fn arrived(&mut self, outcome: RxOutcome) {
        self.injected += 1;
        match outcome {
            RxOutcome::OnRing => self.on_ring += 1,
            RxOutcome::OnRingDamaged => {
                self.on_ring += 1;
                self.damaged += 1;
            }
            RxOutcome::NoDescriptor => self.no_descriptor += 1,
            RxOutcome::Filtered
            | RxOutcome::NotReceiving
            | RxOutcome::DmaError
            | RxOutcome::NotCompleted => self.refused_by_device += 1,
        }
    }

    /// The share of the frames that the application never had.
    pub fn lost_share(&self) -> f64 {
        1.0 - self.delivered as f64 / self.planned.max(1) as f64
    }
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// BLAKE3 of all events, in hexadecimal digits.
    pub digest: String,
    /// Events in all.
    pub events: u64,
    /// Virtual time from the first burst to the end.
    pub elapsed: Span,
    /// The share of the core that receiving took: without a competing job, what it used; with one,
    /// what the job did not get.
    pub cpu_share: f64,
    /// Switches between processes.
    pub switches: u64,
    /// Counts of the run.
    pub counts: Counts,
    /// From the time at which the last frame of a burst is in memory until the application has it.
    pub delays: Samples,
}

impl Outcome {
    /// The delays summed up. Random histories do without: it takes as long as a tenth of one.
    pub fn delay(&self) -> Option<Distribution> {
        self.delays.summary()
    }
}

/// Why a run could not take place, or not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum VirtualError {
    /// The traffic makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The system gave no memory.
    #[error("cannot get memory for the receive buffers: {0}")]
    Memory(#[from] std::io::Error),
    /// Something is out of range.
    #[error("{what} = {got} is not possible: choose {range}")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// The value that was asked for.
        got: String,
        /// The values that are possible.
        range: &'static str,
    },
    /// There is no such driver.
    #[error("there is no card with a driver called {0}")]
    Driver(String),
    /// A driver found nothing that it could drive.
    #[error("a driver cannot begin: {0}")]
    NoStart(#[from] warikomi_driver::run::RunError),
    /// A part dies again and again.
    #[error("a part of the target was started {0} times; its device does not recover")]
    Restarts(u32),
    /// The target does not come to rest.
    #[error(
        "waited {waited} of virtual time for {what}; no frame comes any more, and nothing that was planned \
         holds it up"
    )]
    NoRest {
        /// How long.
        waited: Span,
        /// For what.
        what: String,
    },
    /// What happens takes no time.
    #[error(
        "{events} things have happened at {:.3} µs of virtual time, which does not go on: give the costs of a \
         driver's looks and steps, which must take some time",
        at.as_ns() / 1e3
    )]
    NoTime {
        /// How much has happened.
        events: u64,
        /// When.
        at: Time,
    },
    /// Messages cannot be sent and answered.
    #[error("there are no round trips: {0}")]
    RoundTrips(String),
}

//! What goes wrong on purpose.
//!
//! A [`Fault`] is an entry of a plan, written as one line: `interrupt-dropped:probability=0.01`. A
//! [`FaultSchedule`] decides when it strikes: once, at a time since the first deadline, or by chance,
//! frame by frame or interrupt by interrupt, from the plan's seed. [`Faulty`] is a NIC around the NIC
//! that does what was decided, so that neither the model nor the driver knows of it. Faults of descriptors are
//! those of the model's queue (`RxFault`). An interrupt that no healthy device would send goes out by
//! `IntrLine::signal_any_time`: a guest may have to be stopped for it.

mod faulty;
mod schedule;
mod text;

use std::fmt;

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_nic::RxError;

pub use faulty::Faulty;
pub use schedule::{FaultCount, FaultSchedule, FaultTrigger};
pub use text::{FAULT_FORMS, FaultForm, ParseFaultError};

/// The most faults that one plan may have.
pub const MAX_FAULTS: usize = 32;

/// The latest time of a fault, after the first deadline.
pub const MAX_FAULT_TIME: Span = Span::from_ms(3_600_000);

/// The longest that a fault lasts, or delays anything.
pub const MAX_FAULT_LENGTH: Span = Span::from_ms(10_000);

/// The most interrupts of one storm.
pub const MAX_STORM: u32 = 1_000_000;

/// The highest vector that a NIC can have: MSI-X has 2,048 (PCI 3.0, 6.8.2.3).
const MAX_VECTOR: u16 = 2_047;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An interrupt never reaches the target. The NIC does not repeat it: a message is sent when the
    /// level rises, and the level stays.
    InterruptDropped,
    /// An interrupt reaches the target later.
    InterruptDelayed {
        /// The delay.
        by: Span,
    },
    /// An interrupt reaches the target twice.
    InterruptDuplicated,
    /// The target gets an interrupt for which there is no reason.
    InterruptSpurious {
        /// On which of the NIC's vectors.
        vector: u16,
    },
    /// The target gets many such interrupts.
    InterruptStorm {
        /// On which of the NIC's vectors.
        vector: u16,
        /// Number of interrupts.
        count: u32,
        /// The time between two.
        every: Span,
    },
    /// A frame is in memory, and its descriptor never the driver's.
    DescriptorNeverCompleted,
    /// A frame is in memory, and its descriptor the driver's only later.
    DescriptorCompletedLate {
        /// The delay.
        by: Span,
    },
    /// A descriptor says that its frame has this error.
    DescriptorError(RxError),
    /// A descriptor says that its frame has another length than it has.
    DescriptorLength {
        /// What it says, in bytes with check sequence.
        bytes: u16,
    },
    /// The cable is pulled, and plugged in again with a gigabit partner.
    LinkFlap {
        /// How long it is out; after that the ends negotiate.
        down_for: Span,
    },
    /// The memory of the target does not answer while a frame is written.
    DmaError,
    /// The device is there no more: reads give all ones, and nothing else happens.
    DeviceGone,
    /// The same, and the target is told that the card was pulled out; later a card that has just been powered
    /// on is plugged in.
    DeviceUnplugged {
        /// How long the slot is empty.
        out_for: Span,
    },
}

impl FaultKind {
    /// Whether the target must have a slot that cards can be pulled out of while it runs.
    pub fn needs_hotplug(self) -> bool {
        matches!(self, FaultKind::DeviceUnplugged { .. })
    }

    /// The vector that the fault names; `None` for faults that have none.
    pub fn vector(self) -> Option<u16> {
        match self {
            FaultKind::InterruptSpurious { vector } | FaultKind::InterruptStorm { vector, .. } => {
                Some(vector)
            }
            _ => None,
        }
    }
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once: at this time after the first deadline, or the first occasion from then on.
    At(Span),
    /// On each occasion with this probability.
    Probability(Probability),
}

/// A probability in billionths, so that what is written is what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability {
    per_billion: u32,
}

impl Probability {
    /// So many times in a billion; `None` for never and for more often than always.
    pub fn from_billionths(per_billion: u32) -> Option<Probability> {
        (1..=1_000_000_000).contains(&per_billion).then_some(Probability { per_billion })
    }

    /// How often in a billion.
    pub fn billionths(self) -> u32 {
        self.per_billion
    }
}

/// A fault of a plan. As text, in plans and on the command line, see [`FAULT_FORMS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// When it strikes.
    pub when: When,
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.per_billion == 1_000_000_000 {
            return f.write_str("1");
        }
        let digits = format!("{:09}", self.per_billion);
        write!(f, "0.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What the loop is made of: what it works on, what it keeps, and what its steps say.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaMemory;
use warikomi_shared::Woken;

use super::attachment::Attachment;
use super::counted::Up;
use super::error::RunError;
use super::succession::{Opening, Succession};
use crate::device::SupportGone;
use crate::state::Held;
use crate::strategy::Receiver;
use crate::{NicDriver, Transmit};

/// What a step works on: driver, device and the layer above.
pub struct Parts<'a, A, U> {
    /// The device, with the driver's window.
    pub device: &'a mut A,
    /// The memory that the device reaches by DMA.
    pub memory: &'a dyn DmaMemory,
    /// The driver.
    pub driver: &'a mut dyn NicDriver,
    /// The layer that the frames are for.
    pub upper: &'a mut U,
}

impl<A: Attachment, U> Parts<'_, A, U> {
    #[inline]
    pub(super) fn order(&self, word: usize) -> u64 {
        self.device.window().order(word)
    }

    #[inline]
    pub(super) fn report(&self, word: usize, value: u64) {
        self.device.window().report(word, value);
    }

    /// Stamps a step of a change of hands.
    pub(super) fn stamp(&self, step: usize) {
        self.device.window().stamp(step, self.device.ticks());
    }
}

/// The device for one call of the driver.
macro_rules! hardware {
    ($parts:ident) => {
        &mut Hardware { mmio: $parts.device.registers(), memory: $parts.memory }
    };
}

pub(super) use hardware;

/// What the caller must do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next step.
    Again,
    /// Others are to run, and then the next step.
    Yield,
    /// The driver sleeps until its window's bell rings or its upper's [`wakeup`](Upper::wakeup) comes, or for
    /// so long. [`DriverLoop::woke`] says which, and then comes the next step.
    Sleep {
        /// The longest time.
        longest: Span,
    },
    /// The driver waits while the baton is this generation's, or until it is woken; for
    /// [`HEARTBEAT`](super::HEARTBEAT) at most. Then comes the next step.
    AwaitBaton {
        /// Generation of the baton while the driver waits.
        generation: u32,
    },
    /// There is no next step.
    Ended {
        /// The driver was told to stop when it had not, or no more, the device.
        waiting: bool,
    },
}

/// What the machine does next.
pub(super) enum Phase {
    /// It waits for the baton.
    Waiting,
    /// It sets the device up, or takes it over.
    Opening(Opening),
    /// It has found what a predecessor left, and accepts it.
    Accepting(Held),
    /// One look at everything. The first of a turn is reported.
    Pass {
        first: bool,
    },
    /// The rest of a pass that has handled interrupts.
    Look {
        handled: u64,
    },
    /// The strategy is asked about a look that has found so much.
    Decide {
        found: usize,
    },
    /// It arms the interrupt, because it is going to sleep.
    Arm {
        budget: usize,
    },
    /// It has armed its interrupt and looks at the rings once more.
    LastLook {
        budget: usize,
    },
    Asleep,
    /// It does not sleep after all.
    Awake,
    /// Its record is written: it gives the device to this generation.
    Giving(u32),
    /// The orders say stop.
    Stopping,
    /// It has failed, and nobody goes on with its device.
    Failing(RunError),
    Ended,
}

/// A driver's loop over time and calls: the machine that a driver process runs against a clock and real bells,
/// and virtual time on a calendar.
pub struct DriverLoop {
    pub(super) phase: Phase,
    pub(super) receiver: Receiver,
    pub(super) counts: Counts,
    pub(super) received: Up,
    /// A frame that is not on the ring yet: there is no room, or it cannot be sent and others are before it.
    pub(super) waiting: Option<Transmit>,
    /// Frames that are on the ring.
    pub(super) unsent: u64,
    pub(super) link_changed: bool,
    pub(super) passes: u64,
    /// When the last pass or step of a rest began, and what it had to do; `None` if something came between that takes long.
    pub(super) passed: Option<Time>,
    pub(super) worked: u64,
    pub(super) active: Time,
    pub(super) reported: Time,
    pub(super) looked: Time,
    pub(super) rest: Rest,
    pub(super) woken: Result<Woken, SupportGone>,
    /// Others drive the device before and after; `None` if nobody else does.
    pub(super) succession: Option<Succession>,
    /// The last order to hand over that was looked at, and the last to be awake.
    pub(super) answered: u64,
    pub(super) alert: u64,
    /// Until then it does not sleep, because of that.
    pub(super) awake_until: Time,
}

/// Counts of the loop since it began, beside those of received packets.
#[derive(Default)]
pub(super) struct Counts {
    /// Of drivers before this one.
    pub(super) rx_errors_before: u64,
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    pub(super) tx_errors: u64,
    pub(super) polls: u64,
    pub(super) empty_polls: u64,
    pub(super) sleeps: u64,
    pub(super) slept: Span,
    pub(super) hiccups: u64,
    pub(super) hiccup_time: Span,
}

/// A rest, from when the interrupt is armed until the driver is awake again.
#[derive(Clone, Copy, Default)]
pub(super) struct Rest {
    pub(super) from: Time,
    pub(super) found: usize,
    pub(super) slept: bool,
    /// The processor time taken before, if that of this sleep is measured.
    pub(super) processor_before: Option<Span>,
}

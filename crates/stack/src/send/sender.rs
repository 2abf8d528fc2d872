//! The sender, a step at a time.

use warikomi_clock::Time;
use warikomi_driver::transmit::Course;
use warikomi_driver::{DriverError, Hardware, NicDriver};
use warikomi_guest::answers::Sent;

use super::{PlanError, SendPlan};
use crate::datagram::Station;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next step, at once.
    Again,
    /// Nothing can be done before this time (a pace), unless an interrupt comes first.
    Until(Time),
    /// There is no room, interrupts are on and armed, and the device was asked once more: nothing can be
    /// done before the next interrupt.
    Interrupt,
    /// There is no room, and no interrupt will come: nothing will ever be done again.
    DeadLocked,
    /// Everything is sent and reclaimed, and the pools are full.
    Finished,
}

/// The sender.
pub struct Sender {
    _plan: SendPlan,
}

impl Sender {
    /// A sender over a device that has been set up, whose buffers are in the DMA memory of so many bytes
    /// from this bus address on.
    pub fn new(
        _plan: &SendPlan,
        _station: Station,
        _destination: ([u8; 6], std::net::Ipv4Addr, u16),
        _memory: (u64, u64),
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut impl Course,
    ) -> Result<Sender, SenderError> {
        unimplemented!("helper stack")
    }

    /// Does the next thing: takes the interrupt, if one has come, and sends at most one message.
    pub fn step<C: Course>(
        &mut self,
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut C,
        _interrupted: bool,
    ) -> Result<Step, DriverError> {
        unimplemented!("helper stack")
    }

    /// What has come of it. Behind [`Step::Finished`] or [`Step::DeadLocked`].
    pub fn sent(&self) -> Sent {
        unimplemented!("helper stack")
    }
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The driver gave up.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

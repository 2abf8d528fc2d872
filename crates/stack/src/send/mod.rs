//! Sending as fast as it goes, or at a pace: application, socket, UDP/IP, buffers and the driver's
//! transmitter in one thread, as in one kernel.
//!
//! The same [`Sender`] runs in a process of its own, in real time (`process::programs::sender`), and in virtual
//! time (`warikomi_sim`).

mod account;
mod application;
mod plan;
mod receive;
mod sender;
mod socket;
mod transport;

use warikomi_clock::{Time, TscClock};
use warikomi_driver::transmit::{CostClock, Work};

pub use plan::{LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES, PlanError, SendPlan};
pub use receive::RECEIVED_FRAME_BYTES;
pub use sender::{Sender, SenderError, Step};
pub use socket::SendSocket;
pub use transport::{ParseTransportError, Transport};

/// Time as it passes by itself: nothing is charged.
#[derive(Clone, Copy, Debug)]
pub struct RealTime(pub TscClock);

impl CostClock for RealTime {
    #[inline]
    fn now(&mut self) -> Time {
        self.0.now()
    }

    #[inline]
    fn spend(&mut self, _work: Work) {}
}

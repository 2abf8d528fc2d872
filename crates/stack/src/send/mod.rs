//! Sending as fast as it goes, or at a pace: application, socket, UDP/IP, buffers and the driver's
//! transmitter in one thread, as in one kernel.
//!
//! The same [`Sender`] runs in a process of its own, in real time (`programs::sender`), and in virtual
//! time (`warikomi_lab::virtual_time`).

mod account;
mod application;
mod plan;
mod sender;
mod socket;

pub use plan::{LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES, PlanError, SendPlan};
pub use sender::{Sender, SenderError, Step};
pub use socket::SendSocket;

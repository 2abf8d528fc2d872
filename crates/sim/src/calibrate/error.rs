//! Why nothing could be measured.

use warikomi_clock::TscUnusable;
use warikomi_driver::DriverError;
use warikomi_inject::PlanError;

use crate::transmit::TransmitError;

/// Why it could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The clock cannot be used.
    #[error(transparent)]
    Clock(#[from] TscUnusable),
    /// Memory, threads or sockets.
    #[error("cannot set up what is to be measured: {0}")]
    System(#[from] std::io::Error),
    /// The driver did not like the model.
    #[error("the driver failed while it was measured: {0}")]
    Driver(#[from] DriverError),
    /// The frame to measure with cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The sender did not come about.
    #[error("the sender failed while it was measured: {0}")]
    Send(#[from] TransmitError),
}

//! Why a driver could not attach itself.

use std::io;

use warikomi_pci::attach::layout;

/// Why a device cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Not started by a support side.
    #[error(
        "there is no socket to the support side: {} {problem}; a driver is started by \
         `warikomi ... --target process`",
        layout::SOCKET_VARIABLE
    )]
    NoSocket {
        /// What is wrong with the variable.
        problem: &'static str,
    },
    /// The first message did not come, or was none.
    #[error("the support side did not hand a region over: {0}")]
    NoRegion(String),
    /// The region makes no sense.
    #[error("the region that was handed over cannot be used: {0}")]
    BadRegion(String),
    /// The system refused something.
    #[error("the region that was handed over cannot be mapped: {0}")]
    Map(#[from] io::Error),
}

pub(super) fn bad(what: impl Into<String>) -> AttachError {
    AttachError::BadRegion(what.into())
}

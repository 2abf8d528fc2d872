//! Why something could not be replayed.

use warikomi_inject::capture::CaptureError;
use warikomi_inject::trace::TraceError;

use crate::inject::InjectError;

/// Why nothing could be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file is a trace, and no good one.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file is a capture, and no good one.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The file could not be read.
    #[error("it cannot be read: {0}")]
    Io(std::io::Error),
    /// The injection failed.
    #[error(transparent)]
    Inject(#[from] InjectError),
}

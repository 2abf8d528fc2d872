//! Why a trace could not be exported.

use std::io;

use crate::TraceError;

/// Why a trace could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace is no good one.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file could not be written.
    #[error("writing failed: {0}")]
    Write(io::Error),
}

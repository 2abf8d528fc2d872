use warikomi_shared::Corrupt;

use crate::memory::MemoryError;

/// Why a part of the packet path cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The process of this name has ended.
    #[error("{0} is gone: its process has ended, which its own output explains")]
    Gone(&'static str),
    /// A neighbour has written nonsense.
    #[error("a neighbour's {0}; it has a bug, or something writes over packet memory")]
    Corrupt(#[from] Corrupt),
    /// Packet memory cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The system refused.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
    /// Not started the way it must be.
    #[error("{0}; this program is started by warikomi, not by hand")]
    Invitation(String),
    /// Whoever supports us is no neighbour that we know.
    #[error("the driver failed: {0}")]
    Driver(String),
}

//! Why a state area is of no use.

/// Why a state area is not what a driver can go on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Nobody has set it up, or it has a version that this driver does not know.
    #[error("{0}")]
    Unreadable(String),
    /// A part's checksum does not match its words.
    #[error(
        "the {what} of the state area was only half written, or written by another process: its checksum is \
         {found:#018x}, and should be {expected:#018x}"
    )]
    Checksum {
        /// The part of the state area.
        what: &'static str,
        /// The checksum of its words.
        found: u64,
        /// The checksum that is stored.
        expected: u64,
    },
    /// It contradicts itself, or the rings.
    #[error("the state area makes no sense: {0}")]
    Nonsense(String),
}

impl StateError {
    /// A descriptor that was not given to the device, though one behind it was.
    pub(crate) fn not_the_last(ring: &str, index: usize) -> StateError {
        let what = "is empty, and those behind it are not";
        StateError::Nonsense(format!("descriptor {index} of the {ring} ring {what}"))
    }
}

pub(super) fn invalid<T>(what: String) -> Result<T, StateError> {
    Err(StateError::Nonsense(what))
}

/// Holds the checksum of a part against the one that is written there.
pub(super) fn verify(what: &'static str, found: u64, expected: u64) -> Result<(), StateError> {
    if found == expected { Ok(()) } else { Err(StateError::Checksum { what, found, expected }) }
}

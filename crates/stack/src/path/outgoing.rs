//! What a connection has yet to send.

use crate::entry::Slice;

/// A buffer of the application that a stream waits to be sent from.
pub(super) struct Outgoing {
    pub(super) slice: Slice,
    /// Bytes of it that were taken.
    pub(super) done: u16,
    /// The connection that it asks for was tried.
    pub(super) tried: bool,
}

/// What becomes of the buffer that is to be sent from next.
pub(super) enum Turn {
    /// It waits, and its turn is not over.
    Waits,
    Done,
    Failed,
}

impl Outgoing {
    pub(super) fn new(slice: Slice) -> Outgoing {
        Outgoing { slice, done: 0, tried: false }
    }

    pub(super) fn token(&self) -> u32 {
        self.slice.token
    }
}

//! Tells an observer what happens, and adds it to the digest.

use warikomi_clock::Time;

use crate::trace::{Digest, Event, Observer};

/// Where the driver's rings are on the bus, and the buffers behind them.
pub(super) const RINGS: u64 = 0x10_0000;

/// Frames of a run carry this, so that what an earlier one left in a buffer is not taken for its own.
pub(super) const RUN_ID: u32 = 1;

/// Tells the digest and an observer what happens.
pub(super) struct Recorder<'o> {
    pub(super) now: Time,
    pub(super) digest: Digest,
    pub(super) observer: &'o mut dyn Observer,
}

impl Recorder<'_> {
    #[inline]
    pub(super) fn emit(&mut self, event: &Event) {
        self.digest.event(self.now, event);
        self.observer.event(self.now, event);
    }
}

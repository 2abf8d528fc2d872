//! Counts what goes up.

use crate::{Buffer, Received, RxSink, Upper};

/// Frames that went to the layer above.
#[derive(Default)]
pub(super) struct Up {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Up {
    /// The layer above, and what goes there is counted.
    #[inline]
    pub(super) fn counted<'a, U>(&'a mut self, upper: &'a mut U) -> Counted<'a, U> {
        Counted { upper, up: self }
    }
}

/// Counts what goes up.
pub(super) struct Counted<'a, U> {
    upper: &'a mut U,
    up: &'a mut Up,
}

impl<U: Upper> RxSink for Counted<'_, U> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        self.upper.buffer()
    }

    #[inline]
    fn received(&mut self, buffer: Buffer, frame: Received) {
        self.up.packets += 1;
        self.up.bytes += u64::from(frame.bytes);
        self.upper.received(buffer, frame);
    }

    fn returned(&mut self, buffer: Buffer) {
        self.upper.returned(buffer);
    }

    fn named(&self, token: u32) -> Option<Buffer> {
        self.upper.named(token)
    }
}

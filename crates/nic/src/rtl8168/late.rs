//! Completing descriptors late: the fault [`RxFault::CompletedLate`](crate::RxFault::CompletedLate).

use super::Rtl8168;
use crate::NicContext;

/// A frame that waits for its completion.
#[derive(Debug)]
pub(super) struct LateFrame {
    pub(super) index: u16,
    /// Its descriptor's address.
    pub(super) at: u64,
    /// The first two words that go there.
    pub(super) words: [u32; 2],
    /// Its status bits, for the counters.
    pub(super) status: u32,
}

impl Rtl8168 {
    /// The alarm: completes what is due. One that can no longer be written stays the chip's.
    pub(super) fn complete_late(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.late.event(cx) {
            return;
        }
        while let Some(frame) = self.rx.late.take_due(cx) {
            let [opts1, opts2] = frame.words;
            let written = cx
                .dma_write(frame.at.wrapping_add(4), &opts2.to_le_bytes())
                .and_then(|()| cx.dma_store_u32(frame.at, opts1));
            let status = frame.status;
            if written.is_err() {
                self.rx.late.keep(frame);
            }
            self.received(cx, written.map(|()| true), status);
        }
    }
}

//! What becomes of a frame from the wire.
//!
//! The check sequence is not stored, and not recomputed: the caller that damages a frame says so
//! ([`RxFault`]). A frame is in memory, and its completion written, when the call that it arrives in
//! returns.

use warikomi_pci::{DmaError, Pieces};

use super::device::DescriptorFifo;
use super::regs;
use super::rx_queue::{CHECKSUMS_GOOD, Receiver, TOO_LONG};
use crate::queue::Placement;
use crate::{Frame, NicContext, RxError, RxFault, RxOutcome, checksum};

impl DescriptorFifo {
    /// A frame from the wire. Of the errors that hardware may report wrongly an entry has a bit for one:
    /// too long. A frame with any other is dropped.
    pub(super) fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> RxOutcome {
        if self.rx.queue.is_halted() {
            return RxOutcome::DmaError;
        }
        if !self.rx.queue.is_enabled() || !self.link {
            return RxOutcome::NotReceiving;
        }
        let bytes = frame.bytes;
        let least_bytes = self.card.sheet.framing.least_bytes();
        let possible = (least_bytes..=self.rx.max_frame_bytes).contains(&bytes.len());
        let dropped = match fault {
            Some(RxFault::Crc | RxFault::Alignment) => true,
            Some(RxFault::Reported(error)) => error != RxError::TooLong,
            _ => false,
        };
        if !possible || dropped || !bytes.first_chunk().is_some_and(Receiver::admits) {
            return RxOutcome::Filtered;
        }
        let good = checksum::judge(bytes).is_some_and(checksum::Verdict::is_good);
        let status = if good { CHECKSUMS_GOOD } else { 0 };
        let queue = &mut self.rx.queue;
        let placed = match fault {
            None => queue.place(cx, &Pieces::whole(bytes), status),
            Some(RxFault::Reported(_)) => queue.place(cx, &Pieces::whole(bytes), status | TOO_LONG),
            Some(fault) => queue.place_with_fault(cx, &Pieces::whole(bytes), status, fault),
        };
        match self.received(cx, placed) {
            RxOutcome::OnRing if matches!(fault, Some(RxFault::Reported(_))) => {
                RxOutcome::OnRingDamaged
            }
            outcome => outcome,
        }
    }

    fn received(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<Placement, DmaError>,
    ) -> RxOutcome {
        match placed {
            Ok(Placement::Completed) => self.intr.report(cx, regs::RX_DONE),
            Ok(Placement::CompletedLate) => {}
            Ok(Placement::NeverCompleted) => return RxOutcome::NotCompleted,
            Ok(Placement::NoDescriptor) => {
                self.intr.report(cx, regs::RX_MISSED);
                return RxOutcome::NoDescriptor;
            }
            Err(_) => {
                self.system_error(cx);
                return RxOutcome::DmaError;
            }
        }
        RxOutcome::OnRing
    }

    /// The timer of late completions: writes what is due.
    pub(super) fn complete_late(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.queue.timer(cx) {
            return;
        }
        while let Some(done) = self.rx.queue.complete_late(cx) {
            self.received(cx, done.map(|_| Placement::Completed));
        }
    }
}

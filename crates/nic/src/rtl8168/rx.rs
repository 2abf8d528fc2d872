//! What becomes of a frame from the wire.
//!
//! The chip's receive FIFO is not modelled: a frame that finds no descriptor is missed at once,
//! counted in RxMissed and reported as RDU (RxOverflow); RxFIFOOver is therefore never reported.

use warikomi_pci::{DmaError, Pieces};
use warikomi_wire::HEADER_BYTES;

use super::device::Rtl8168;
use super::rx_queue::LENGTH;
use super::verdict::verdict;
use super::{intr, regs};
use crate::queue::Placement;
use crate::realtek::errors;
use crate::realtek::filter::Destination;
use crate::realtek::stored::stored;
use crate::{FCS_BYTES, Frame, MIN_FRAME_BYTES, NicContext, RxFault, RxOutcome};

// Receive status (RTL8169 Rev. 1.21, pages 55 to 57).
const MULTICAST: u32 = 1 << 27;
const PHYSICAL_MATCH: u32 = 1 << 26;
const BROADCAST: u32 = 1 << 25;
const TOO_LONG: u32 = 1 << 22;
const ERROR: u32 = 1 << 21;
const RUNT: u32 = 1 << 20;
const BAD_CRC: u32 = 1 << 19;

/// What the status says of whom a frame is for.
#[inline]
fn marks(destination: Destination) -> u32 {
    match destination {
        Destination::Own => PHYSICAL_MATCH,
        Destination::Other => 0,
        Destination::Multicast => MULTICAST,
        Destination::Broadcast => BROADCAST,
    }
}

/// Whom a frame is for, of which the status says this.
#[inline]
fn destination(status: u32) -> Destination {
    match () {
        () if status & BROADCAST != 0 => Destination::Broadcast,
        () if status & MULTICAST != 0 => Destination::Multicast,
        () if status & PHYSICAL_MATCH != 0 => Destination::Own,
        () => Destination::Other,
    }
}

impl Rtl8168 {
    /// Receives a frame from the wire.
    #[inline]
    pub(super) fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> RxOutcome {
        let queue = &self.rx.queue;
        if !(queue.is_open() && self.rx.link) {
            let halted = queue.is_halted();
            return if halted { RxOutcome::DmaError } else { RxOutcome::NotReceiving };
        }
        let bytes = frame.bytes;
        let (Some(destination), true) = (bytes.first_chunk(), bytes.len() >= HEADER_BYTES) else {
            return self.refuse();
        };
        let Some(admitted) = self.rx.filter.admits(destination) else {
            return RxOutcome::Filtered;
        };
        let mut status = marks(admitted);
        let faulty = errors::damages(fault)
            || bytes.len() < MIN_FRAME_BYTES
            || bytes.len() + FCS_BYTES > self.rx.max_bytes;
        if faulty {
            match self.judge(bytes.len(), fault) {
                Some(errors) => status |= errors,
                None => return self.refuse(),
            }
        }
        if self.rx.check && !faulty {
            status |= self.rx.said.of(bytes, verdict);
        }
        let (pieces, opts2) = stored(frame, self.rx.strip_tag);
        let status = [status, opts2];
        match fault {
            None => {
                let placed = self.rx.queue.place(cx, &pieces, status);
                self.received(cx, placed, status)
            }
            Some(fault) => self.receive_with_fault(cx, &pieces, status, fault),
        }
    }

    #[cold]
    fn receive_with_fault(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        status: [u32; 2],
        fault: RxFault,
    ) -> RxOutcome {
        let placed = self.rx.queue.place_with_fault(cx, pieces, status, fault);
        let unwanted = errors::is_unwanted(self.rx.filter.accept, fault);
        match self.received(cx, placed, status) {
            RxOutcome::OnRing if unwanted => RxOutcome::OnRingDamaged,
            outcome => outcome,
        }
    }

    /// The status bits of a frame with an error, if the filter lets such in.
    #[cold]
    fn judge(&mut self, bytes: usize, fault: Option<RxFault>) -> Option<u32> {
        if bytes + FCS_BYTES > LENGTH as usize {
            return None;
        }
        let found = errors::judge(self.rx.filter.accept, self.rx.max_bytes, bytes, fault)?;
        if found.alignment {
            self.tally.align_errors = self.tally.align_errors.wrapping_add(1);
        }
        let bits = [(found.too_long, TOO_LONG), (found.runt, RUNT), (found.crc, BAD_CRC)];
        let set = bits.into_iter().filter(|(is, _)| *is).map(|(_, bit)| bit | ERROR);
        Some(set.fold(0, |all, bit| all | bit))
    }

    #[cold]
    fn refuse(&mut self) -> RxOutcome {
        self.tally.rx_errors = self.tally.rx_errors.wrapping_add(1);
        RxOutcome::Filtered
    }

    #[inline]
    fn received(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<Placement, DmaError>,
        [status, _]: [u32; 2],
    ) -> RxOutcome {
        if placed != Ok(Placement::Completed) {
            return self.not_completed(cx, placed);
        }
        if status & ERROR != 0 {
            self.tally.rx_errors = self.tally.rx_errors.wrapping_add(1);
            self.intr.report(cx, regs::RX_ERR);
        } else {
            self.tally.received(destination(status));
            self.intr.report_frames(cx, intr::RX, 1);
        }
        RxOutcome::OnRing
    }

    #[cold]
    fn not_completed(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<Placement, DmaError>,
    ) -> RxOutcome {
        match placed {
            Ok(Placement::Completed | Placement::CompletedLate) => RxOutcome::OnRing,
            Ok(Placement::NeverCompleted) => RxOutcome::NotCompleted,
            Ok(Placement::NoDescriptor) => self.missed(cx),
            Err(_) => {
                self.rx.queue.halt();
                self.intr.report(cx, regs::SYS_ERR);
                RxOutcome::DmaError
            }
        }
    }

    /// The timer of late completions.
    pub(super) fn complete_late(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.queue.timer(cx) {
            return;
        }
        while let Some(done) = self.rx.queue.complete_late(cx) {
            let status = done.unwrap_or_default();
            self.received(cx, done.map(|_| Placement::Completed), status);
        }
    }

    #[cold]
    fn missed(&mut self, cx: &mut NicContext<'_>) -> RxOutcome {
        self.tally.rx_missed = self.tally.rx_missed.wrapping_add(1);
        let missed = (self.file.u32(regs::RX_MISSED) + 1) & 0x00ff_ffff;
        self.file.set(regs::RX_MISSED, missed.into());
        self.intr.report(cx, regs::RX_OVERFLOW);
        RxOutcome::NoDescriptor
    }
}

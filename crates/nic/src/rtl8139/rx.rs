//! What becomes of a frame from the wire.
//!
//! The chip's receive FIFO is not modelled: a frame that finds no room is missed at once, counted in MPC and reported
//! as an overflow of the receive buffer, or, in C+ mode, as a lack of descriptors, which is the same bit.

use warikomi_pci::DmaError;
use warikomi_wire::HEADER_BYTES;

use super::device::Rtl8139;
use super::regs;
use super::rx_queue::LENGTH;
use super::verdict::verdict;
use crate::queue::Placement;
use crate::realtek::errors::{self, FrameErrors};
use crate::realtek::filter::Destination;
use crate::realtek::stored::stored;
use crate::{FCS_BYTES, Frame, MIN_FRAME_BYTES, NicContext, RxFault, RxOutcome};

/// Status in the header of a frame in the ring of bytes (RTL8139C Rev. 1.4, section 5.1).
mod header {
    pub(super) const MULTICAST: u16 = 0x8000;
    pub(super) const PHYSICAL_MATCH: u16 = 0x4000;
    pub(super) const BROADCAST: u16 = 0x2000;
    pub(super) const RUNT: u16 = 0x0010;
    pub(super) const TOO_LONG: u16 = 0x0008;
    pub(super) const BAD_CRC: u16 = 0x0004;
    pub(super) const ALIGNMENT: u16 = 0x0002;
    pub(super) const OK: u16 = 0x0001;
}

/// Status in a descriptor of the C+ mode (Linux 6.1 8139cp.c, "Tx and Rx status descriptors"; marks of destinations
/// one below those of RTL8169 Rev. 1.21, page 57, as the named ones are).
mod descriptor {
    pub(super) const ALIGNMENT: u32 = 1 << 27;
    pub(super) const MULTICAST: u32 = 1 << 26;
    pub(super) const PHYSICAL_MATCH: u32 = 1 << 25;
    pub(super) const BROADCAST: u32 = 1 << 24;
    pub(super) const TOO_LONG: u32 = 1 << 21;
    pub(super) const ERROR: u32 = 1 << 20;
    pub(super) const RUNT: u32 = 1 << 19;
    pub(super) const BAD_CRC: u32 = 1 << 18;
}

/// What the chip found about a frame.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    destination: Destination,
    errors: FrameErrors,
}

impl Arrival {
    fn is_damaged(self) -> bool {
        self.errors != FrameErrors::default()
    }

    /// The header's status.
    fn header(self) -> u16 {
        let FrameErrors { crc, alignment, runt, too_long } = self.errors;
        let bit = |is: bool, bit| if is { bit } else { 0 };
        let destination = match self.destination {
            Destination::Own => header::PHYSICAL_MATCH,
            Destination::Other => 0,
            Destination::Multicast => header::MULTICAST,
            Destination::Broadcast => header::BROADCAST,
        };
        destination
            | bit(crc, header::BAD_CRC)
            | bit(alignment, header::ALIGNMENT)
            | bit(runt, header::RUNT)
            | bit(too_long, header::TOO_LONG)
            | bit(!self.is_damaged(), header::OK)
    }

    /// The first word's status.
    fn descriptor(self) -> u32 {
        let FrameErrors { crc, alignment, runt, too_long } = self.errors;
        let bit = |is: bool, bit| if is { bit } else { 0 };
        let destination = match self.destination {
            Destination::Own => descriptor::PHYSICAL_MATCH,
            Destination::Other => 0,
            Destination::Multicast => descriptor::MULTICAST,
            Destination::Broadcast => descriptor::BROADCAST,
        };
        destination
            | bit(crc, descriptor::BAD_CRC)
            | bit(alignment, descriptor::ALIGNMENT)
            | bit(runt, descriptor::RUNT)
            | bit(too_long, descriptor::TOO_LONG)
            | bit(self.is_damaged(), descriptor::ERROR)
    }
}

/// Whether a frame was good, and whom it was for, of which the header says this.
fn of_header(status: u16) -> Option<Destination> {
    (status & header::OK != 0).then_some(match () {
        () if status & header::BROADCAST != 0 => Destination::Broadcast,
        () if status & header::MULTICAST != 0 => Destination::Multicast,
        () => Destination::Own,
    })
}

/// The same of a descriptor's first word.
fn of_descriptor(status: u32) -> Option<Destination> {
    (status & descriptor::ERROR == 0).then_some(match () {
        () if status & descriptor::BROADCAST != 0 => Destination::Broadcast,
        () if status & descriptor::MULTICAST != 0 => Destination::Multicast,
        () => Destination::Own,
    })
}

impl Rtl8139 {
    /// Receives a frame from the wire.
    pub(super) fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> RxOutcome {
        if !self.rx.is_placing() {
            let halted = self.rx.is_halted();
            return if halted { RxOutcome::DmaError } else { RxOutcome::NotReceiving };
        }
        let bytes = frame.bytes;
        let (Some(destination), true) = (bytes.first_chunk(), bytes.len() >= HEADER_BYTES) else {
            return self.refuse();
        };
        let Some(destination) = self.rx.filter.admits(destination) else {
            return RxOutcome::Filtered;
        };
        let mut arrival = Arrival { destination, errors: FrameErrors::default() };
        if errors::damages(fault)
            || bytes.len() < MIN_FRAME_BYTES
            || bytes.len() + FCS_BYTES > self.rx.max_bytes
        {
            match self.judge(bytes.len(), fault) {
                Some(errors) => arrival.errors = errors,
                None => return self.refuse(),
            }
        }
        let outcome = self.place(cx, frame, arrival, fault);
        match fault {
            Some(fault) if errors::is_unwanted(self.rx.filter.accept, fault) => match outcome {
                RxOutcome::OnRing => RxOutcome::OnRingDamaged,
                other => other,
            },
            _ => outcome,
        }
    }

    /// Puts a frame where the driver wants it.
    fn place(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        arrival: Arrival,
        fault: Option<RxFault>,
    ) -> RxOutcome {
        if !self.rx.is_cplus() {
            let (queue, status) = (&mut self.rx.bytes, arrival.header());
            let (pieces, _) = stored(frame, false);
            let placed = match fault {
                None => queue.place(cx, &pieces, status),
                Some(fault) => queue.place_with_fault(cx, &pieces, status, fault),
            };
            return self.received(cx, placed, of_header(status));
        }
        let mut status = arrival.descriptor();
        if self.rx.check && !arrival.is_damaged() {
            status |= verdict(frame.bytes);
        }
        let (pieces, opts2) = stored(frame, self.rx.strip_tag);
        let (queue, words) = (&mut self.rx.ring, [status, opts2]);
        let placed = match fault {
            None => queue.place(cx, &pieces, words),
            Some(fault) => queue.place_with_fault(cx, &pieces, words, fault),
        };
        self.received(cx, placed, of_descriptor(status))
    }

    /// The errors of a frame that has some, if the filter lets such in.
    #[cold]
    fn judge(&mut self, bytes: usize, fault: Option<RxFault>) -> Option<FrameErrors> {
        if bytes + FCS_BYTES > LENGTH as usize {
            return None;
        }
        let found = errors::judge(self.rx.filter.accept, self.rx.max_bytes, bytes, fault)?;
        if found.alignment {
            self.tally.align_errors = self.tally.align_errors.wrapping_add(1);
        }
        Some(found)
    }

    #[cold]
    fn refuse(&mut self) -> RxOutcome {
        self.tally.rx_errors = self.tally.rx_errors.wrapping_add(1);
        RxOutcome::Filtered
    }

    /// What follows from a placement; `good` says whom a frame without errors was for.
    fn received(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<Placement, DmaError>,
        good: Option<Destination>,
    ) -> RxOutcome {
        match placed {
            Ok(Placement::Completed) => {}
            Ok(Placement::CompletedLate) => return RxOutcome::OnRing,
            Ok(Placement::NeverCompleted) => return RxOutcome::NotCompleted,
            Ok(Placement::NoDescriptor) => return self.missed(cx),
            Err(_) => {
                self.rx.halt();
                self.intr.report(cx, regs::SYS_ERR);
                return RxOutcome::DmaError;
            }
        }
        if let Some(destination) = good {
            self.tally.received(destination);
            self.intr.report(cx, regs::RX_OK);
        } else {
            self.tally.rx_errors = self.tally.rx_errors.wrapping_add(1);
            self.intr.report(cx, regs::RX_ERR);
        }
        RxOutcome::OnRing
    }

    /// The timer of late completions in the ring of bytes.
    pub(super) fn complete_late_bytes(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.bytes.timer(cx) {
            return;
        }
        while let Some(done) = self.rx.bytes.complete_late(cx) {
            let good = of_header(done.unwrap_or_default());
            self.received(cx, done.map(|_| Placement::Completed), good);
        }
    }

    /// The same of the C+ mode's ring.
    pub(super) fn complete_late_descriptors(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.ring.timer(cx) {
            return;
        }
        while let Some(done) = self.rx.ring.complete_late(cx) {
            let good = of_descriptor(done.unwrap_or_default()[0]);
            self.received(cx, done.map(|_| Placement::Completed), good);
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

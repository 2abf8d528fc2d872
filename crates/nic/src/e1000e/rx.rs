//! What becomes of a frame from the wire.
//!
//! The receive FIFO is not modelled: a frame that finds no descriptor is missed at once, counted in MPC and RNBC,
//! and told by RXO.

use warikomi_pci::DmaError;

use super::device::E1000e;
use super::regs::{self, Registers};
use super::rss::{self, Steered};
use super::rx_queue::{LONG_BYTES, Status};
use crate::checksum::{Network, TCP, UDP};
use crate::intel::admission::{
    Admitted, ERRORS, Limits, USUAL_BYTES, admit, count_reported, stored, stores_bad,
};
use crate::intel::filter::{Destination, Places};
use crate::intel::stamps::{self, Messages};
use crate::intel::stats;
use crate::intel::verdict::{packet_sum, verdict};
use crate::queue::Placement;
use crate::{FCS_BYTES, Frame, NicContext, Reception, RxFault, RxOutcome};

// Status (82574, 7.1.5.2).
const TAGGED: u32 = 1 << 3;
const STAMPED: u32 = 1 << 8;

/// The registers with the station's addresses (10.2.5.15).
const ADDRESSES: [Places; 1] = [(regs::RAL, regs::RA_END)];

/// A frame that was let in, on its way to a queue.
#[derive(Clone, Copy, Debug)]
struct Received {
    destination: Destination,
    status: Status,
    queue: u16,
    /// Its tag is taken out.
    stripped: bool,
}

impl E1000e {
    /// Receives a frame from the wire.
    #[inline]
    pub(super) fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> Reception {
        if self.rx.iter().any(|queue| queue.is_halted()) {
            return Reception::first(RxOutcome::DmaError);
        }
        if !self.rx[0].is_enabled() || !self.link {
            return Reception::first(RxOutcome::NotReceiving);
        }
        let bytes = frame.bytes;
        stats::seen(&mut self.file, bytes.len());
        let Some(admitted) = self.admit(cx, bytes, fault) else {
            return Reception::first(RxOutcome::Filtered);
        };
        let Received { queue, mut status, stripped, .. } = admitted;
        let pieces = stored(&self.file, frame, stripped);
        let ring = &mut self.rx[usize::from(queue)];
        if ring.format.splits() {
            let header = header(bytes).map(|header| header - if stripped { 4 } else { 0 });
            status.header = header.filter(|&header| header <= ring.format.first_buffer());
            ring.format.header = status.header;
        }
        let head = ring.head();
        let placed = match fault {
            None => ring.place(cx, &pieces, status),
            Some(fault) => ring.place_with_fault(cx, &pieces, status, fault),
        };
        let outcome = self.received(cx, placed, (&admitted, bytes.len()), fault);
        if outcome.is_on_ring() {
            self.check_threshold(cx, queue, head);
        }
        Reception { queue, outcome }
    }

    /// Looks at whether a frame is let in, and what is said of it.
    #[inline]
    fn admit(
        &mut self,
        cx: &mut NicContext<'_>,
        bytes: &[u8],
        fault: Option<RxFault>,
    ) -> Option<Received> {
        let file = &mut self.file;
        let long = file.get(regs::RCTL) & regs::RCTL_LONG != 0;
        let longest = if long { LONG_BYTES } else { USUAL_BYTES };
        let limits = Limits { addresses: &ADDRESSES, longest, most: self.setup.max_frame_bytes };
        let Admitted { destination, errors, tag } = admit(file, &limits, bytes, fault)?;
        let Steered { queue, kind, hash } = rss::steer(file, bytes);
        let mut status = Status {
            bits: errors,
            hash: [kind | u32::from(queue) << 8, hash],
            ..Status::default()
        };
        if errors == 0 {
            status.bits |= verdict(file, bytes);
        }
        if file.get(regs::RXCSUM) & regs::RXCSUM_NO_PACKET_SUM == 0 {
            status.hash[1] = packet_sum(file, bytes);
        }
        if stamps::received(file, &self.time, cx.now(), bytes, messages) {
            status.bits |= STAMPED;
        }
        let tag = tag.filter(|_| file.get(regs::CTRL) & regs::CTRL_VLAN != 0 && bytes.len() >= 18);
        if let Some(tag) = tag {
            (status.bits, status.tag) = (status.bits | TAGGED, tag);
        }
        Some(Received { destination, status, queue, stripped: tag.is_some() })
    }

    #[inline]
    fn received(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<Placement, DmaError>,
        (admitted, bytes): (&Received, usize),
        fault: Option<RxFault>,
    ) -> RxOutcome {
        if placed != Ok(Placement::Completed) {
            return self.not_completed(cx, placed);
        }
        self.intr.report_received(cx, admitted.queue);
        if admitted.status.bits & ERRORS != 0 {
            count_reported(&mut self.file, fault);
            let wanted = stores_bad(&self.file);
            return if wanted { RxOutcome::OnRing } else { RxOutcome::OnRingDamaged };
        }
        stats::received(&mut self.file, bytes, admitted.destination);
        if bytes + FCS_BYTES <= self.file.get(regs::RSRPD) as usize {
            self.intr.report(cx, regs::SRPD);
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
            Ok(Placement::NoDescriptor) => {
                for counter in [regs::MPC, regs::RNBC, regs::ICRXOC] {
                    stats::add(&mut self.file, counter, 1);
                }
                self.intr.report(cx, regs::RXO);
                RxOutcome::NoDescriptor
            }
            Err(_) => {
                self.rx.iter_mut().for_each(|queue| queue.halt());
                RxOutcome::DmaError
            }
        }
    }

    /// Reports that descriptors run out, when the last ones but a part of the ring are used (10.2.5.1, RDMTS).
    #[inline]
    fn check_threshold(&mut self, cx: &mut NicContext<'_>, queue: u16, before: u16) {
        let ring = &self.rx[usize::from(queue)];
        let shift = 1 + (self.file.get(regs::RCTL) >> regs::RCTL_THRESHOLD_SHIFT & 3);
        let least = ring.format.count() >> shift;
        if ring.format.free(ring.head()) <= least && ring.format.free(before) > least {
            stats::add(&mut self.file, regs::ICRXDMTC, 1);
            self.intr.report(cx, regs::RXDMT0);
        }
    }

    /// The timer of late completions of a queue.
    pub(super) fn complete_late(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        if !self.rx[usize::from(queue)].timer(cx) {
            return;
        }
        while let Some(done) = self.rx[usize::from(queue)].complete_late(cx) {
            match done {
                Ok(_) => self.intr.report_received(cx, queue),
                Err(_) => self.rx.iter_mut().for_each(|queue| queue.halt()),
            }
        }
    }
}

/// What RXMTRL and RXUDP say of messages that are to be stamped; the port is as it stands in a frame (10.2.9).
fn messages(file: &Registers) -> Messages {
    let [ether_low, ether_high, v1, v2] = file.get(regs::RXMTRL).to_le_bytes();
    let ether_type = u16::from_le_bytes([ether_low, ether_high]);
    let port = (file.get(regs::RXUDP) as u16).swap_bytes();
    Messages { ether_type: Some(ether_type), port: Some(port), v1, v2 }
}

/// Bytes of a frame up to what TCP or UDP carries, of a packet that is whole (7.1.6).
fn header(frame: &[u8]) -> Option<usize> {
    const UDP_HEADER: usize = 8;
    const TCP_LENGTH: usize = 12;
    let network = Network::find(frame).filter(|network| !network.fragment)?;
    let transport = match network.protocol {
        UDP => UDP_HEADER,
        TCP => usize::from(frame.get(network.payload + TCP_LENGTH)? >> 4) * 4,
        _ => return None,
    };
    let end = network.payload + transport;
    (end <= network.end).then_some(end)
}

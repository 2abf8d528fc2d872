//! What becomes of a frame from the wire.
//!
//! The receive FIFO is not modelled: a frame that finds no descriptor is missed at once. If its queue drops such frames
//! it is counted there (RQDPC), otherwise in MPC and RNBC, and told by RXO.

use warikomi_pci::DmaError;

use super::device::Igb;
use super::queues::{self, at};
use super::regs::{self, Registers};
use super::rss::{self, Steered};
use super::rx_queue::Status;
use crate::checksum::{Network, SCTP, TCP, UDP};
use crate::intel::admission::{
    Admitted, ERRORS, Limits, USUAL_BYTES, admit, count_reported, stored, stores_bad,
};
use crate::intel::filter::{Destination, Places};
use crate::intel::stamps::{self, Messages};
use crate::intel::stats;
use crate::intel::verdict::{packet_sum, verdict_with_sctp};
use crate::queue::Placement;
use crate::{FCS_BYTES, Frame, NicContext, Reception, RxFault, RxOutcome};

// Status (82576, 7.1.5.2).
const TAGGED: u32 = 1 << 3;
const STAMPED: u32 = 1 << 16;

// Types of packets, in the first word.
const IPV4: u32 = 1 << 4;
const IPV6: u32 = 1 << 6;
const HAS_TCP: u32 = 1 << 8;
const HAS_UDP: u32 = 1 << 9;
const HAS_SCTP: u32 = 1 << 10;

/// The registers with the station's addresses (8.11.2).
const ADDRESSES: [Places; 2] = [(regs::RAL, regs::RA_END), (regs::RA2, regs::RA2_END)];

/// Frames that a queue can count as dropped (8.10.19).
const MOST_DROPPED: u32 = 0xfff;

/// A frame that was let in, on its way to a queue.
#[derive(Clone, Copy, Debug)]
struct Received {
    destination: Destination,
    status: Status,
    queue: u16,
    /// Its tag is taken out.
    stripped: bool,
}

impl Igb {
    /// Receives a frame from the wire.
    #[inline]
    pub(super) fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> Reception {
        if self.rx[0].is_halted() {
            return Reception::first(RxOutcome::DmaError);
        }
        if self.file.get(regs::RCTL) & regs::RCTL_ENABLE == 0 || !self.link {
            return Reception::first(RxOutcome::NotReceiving);
        }
        let bytes = frame.bytes;
        stats::seen(&mut self.file, bytes.len());
        let Some(received) = self.admit(cx, bytes, fault) else {
            return Reception::first(RxOutcome::Filtered);
        };
        let Received { queue, status, stripped, .. } = received;
        let pieces = stored(&self.file, frame, stripped);
        let ring = &mut self.rx[usize::from(queue)];
        if !ring.is_enabled() {
            return Reception { queue, outcome: RxOutcome::NotReceiving };
        }
        let head = ring.head();
        let placed = match fault {
            None => ring.place(cx, &pieces, status),
            Some(fault) => ring.place_with_fault(cx, &pieces, status, fault),
        };
        let outcome = self.received(cx, placed, (&received, bytes.len()), fault);
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
        let longest = if long { file.get(regs::RLPML) as usize } else { USUAL_BYTES };
        let limits = Limits { addresses: &ADDRESSES, longest, most: self.setup.max_frame_bytes };
        let Admitted { destination, errors, tag } = admit(file, &limits, bytes, fault)?;
        let Steered { queue, kind, hash } = rss::steer(file, bytes);
        let mut status =
            Status { bits: errors, words: [kind | packet_kind(bytes), hash], ..Status::default() };
        if errors == 0 {
            status.bits |= verdict_with_sctp(file, bytes);
        }
        if file.get(regs::RXCSUM) & regs::RXCSUM_NO_PACKET_SUM == 0 {
            status.words[1] = packet_sum(file, bytes);
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
        (received, bytes): (&Received, usize),
        fault: Option<RxFault>,
    ) -> RxOutcome {
        if placed != Ok(Placement::Completed) {
            return self.not_completed(cx, placed, (received, bytes));
        }
        self.intr.report_received(cx, received.queue);
        if received.status.bits & ERRORS != 0 {
            count_reported(&mut self.file, fault);
            let wanted = stores_bad(&self.file);
            return if wanted { RxOutcome::OnRing } else { RxOutcome::OnRingDamaged };
        }
        stats::received(&mut self.file, bytes, received.destination);
        stats::add(&mut self.file, regs::RPTHC, 1);
        stats::add_bytes(&mut self.file, regs::HGORCL, bytes + FCS_BYTES);
        RxOutcome::OnRing
    }

    #[cold]
    fn not_completed(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<Placement, DmaError>,
        (received, bytes): (&Received, usize),
    ) -> RxOutcome {
        match placed {
            Ok(Placement::Completed | Placement::CompletedLate) => RxOutcome::OnRing,
            Ok(Placement::NeverCompleted) => RxOutcome::NotCompleted,
            Ok(Placement::NoDescriptor) => {
                if self.rx[usize::from(received.queue)].format.drops {
                    self.dropped(received, bytes);
                } else {
                    stats::add(&mut self.file, regs::MPC, 1);
                    stats::add(&mut self.file, regs::RNBC, 1);
                    self.intr.report(cx, regs::RXO);
                }
                RxOutcome::NoDescriptor
            }
            Err(_) => {
                self.rx.iter_mut().for_each(|queue| queue.halt());
                RxOutcome::DmaError
            }
        }
    }

    /// A queue has dropped a frame: the MAC has received it all the same, and the host has not (i210, figure 7-24,
    /// 8.18.66).
    fn dropped(&mut self, received: &Received, bytes: usize) {
        let counter = queues::register(queues::RX, received.queue, at::DROPPED);
        let count = (self.file.get(counter) + 1).min(MOST_DROPPED);
        self.file.set(counter, count);
        if received.status.bits & ERRORS == 0 {
            stats::received(&mut self.file, bytes, received.destination);
            stats::add_bytes(&mut self.file, regs::HGORCL, bytes + FCS_BYTES);
        }
    }

    /// Reports that the descriptors of a queue run out (8.10.2, RDMTS).
    #[inline]
    fn check_threshold(&mut self, cx: &mut NicContext<'_>, queue: u16, before: u16) {
        let ring = &self.rx[usize::from(queue)];
        let least = ring.format.threshold;
        if least > 0 && ring.format.free(ring.head()) <= least && ring.format.free(before) > least {
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

/// What a descriptor says that a frame holds.
fn packet_kind(frame: &[u8]) -> u32 {
    let Some(network) = Network::find(frame) else { return 0 };
    let ip = if network.version == 4 { IPV4 } else { IPV6 };
    ip | match network.protocol {
        _ if network.fragment => 0,
        TCP => HAS_TCP,
        UDP => HAS_UDP,
        SCTP => HAS_SCTP,
        _ => 0,
    }
}

/// Which messages are to be stamped: those of an Ethernet type that a filter has for that (ETQF), and those to the port
/// of a filter of packets (FTQF and IMIR, the port as it stands in a frame); of version 1 or 2 as TSYNCRXCFG says.
fn messages(file: &Registers) -> Messages {
    const ETQF_ON: u32 = 1 << 26 | 1 << 30;
    const FTQF_STAMPS: u32 = 1 << 27;
    let filters = (0..8).map(|index| 4 * index);
    let ether_type = filters.clone().map(|at| file.get(regs::ETQF + at));
    let ether_type = ether_type.into_iter().find(|filter| filter & ETQF_ON == ETQF_ON);
    let mut ports = filters.filter(|at| file.get(regs::FTQF + at) & FTQF_STAMPS != 0);
    let port = ports.next().map(|at| (file.get(regs::IMIR + at) as u16).swap_bytes());
    let [v1, v2, ..] = file.get(regs::TSYNCRXCFG).to_le_bytes();
    Messages { ether_type: ether_type.map(|filter| filter as u16), port, v1, v2 }
}

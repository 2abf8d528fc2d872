//! The receive ring.
//!
//! The chip's receive FIFO is not modelled: a frame that finds no descriptor is missed at once,
//! counted in RxMissed and reported as RDU (RxOverflow); RxFIFOOver is therefore never reported.
//! The check sequence is not recomputed, which would cost more than the rest of the reception:
//! whoever damages a frame says so ([`RxFault`]).

use warikomi_pci::DmaError;

use super::filter::Filter;
use super::verdict::verdict;
use super::{Rtl8168, TIMER_LATE, intr, regs};
use crate::checksum;
use crate::queue::{Completion, Found, Placement, RxDescriptor, RxFormat, RxQueue};
use crate::{Frame, MIN_FRAME_BYTES, NicContext, RxError, RxFault, RxOutcome};
use warikomi_wire::HEADER_BYTES;

// Receive descriptor (RTL8169 Rev. 1.21, pages 55 to 57).
pub(super) const OWN: u32 = 1 << 31;
pub(super) const RING_END: u32 = 1 << 30;
pub(super) const FIRST: u32 = 1 << 29;
pub(super) const LAST: u32 = 1 << 28;
const TOO_LONG: u32 = 1 << 22;
pub(super) const ERROR: u32 = 1 << 21;
const RUNT: u32 = 1 << 20;
const BAD_CRC: u32 = 1 << 19;
/// Size of a buffer, and length of a frame.
const LENGTH: u32 = 0x3fff;
const TAG_AVAILABLE: u32 = 1 << 16;

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: u64 = 16;
/// Descriptors that a ring has at most; a ring without an end mark wraps here.
pub(super) const RING_LIMIT: u16 = 1_024;
/// Rings start at multiples of this.
const RING_ALIGNMENT: u64 = 256;
const FCS_BYTES: usize = 4;

/// The address of descriptor `index` of the ring at `base`.
#[inline]
pub(super) fn descriptor(base: u64, index: u16) -> u64 {
    base.wrapping_add(DESCRIPTOR * u64::from(index))
}

/// The descriptor after `index`, whose first word is `opts1`.
#[inline]
pub(super) fn following(index: u16, opts1: u32) -> u16 {
    if opts1 & RING_END != 0 || index + 1 >= RING_LIMIT { 0 } else { index + 1 }
}

/// The ring, as the chip knows it.
#[derive(Debug)]
pub(super) struct RxRing {
    base: u64,
}

impl RxFormat for RxRing {
    type Place = u16;
    /// The first two words, as they were read.
    type Words = [u32; 2];
    /// What goes there, but for the length and the marks.
    type Status = [u32; 2];

    const DESCRIPTORS: usize = RING_LIMIT as usize;
    const CHAINS: bool = true;

    #[inline]
    fn load(&self, cx: &mut NicContext<'_>, place: u16) -> Found<RxDescriptor<u16, [u32; 2]>> {
        let [opts1, opts2, low, high] = cx.dma_load_descriptor(descriptor(self.base, place))?;
        Ok((opts1 & OWN != 0).then(|| RxDescriptor {
            place,
            next: following(place, opts1),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (opts1 & LENGTH) as usize,
            words: [opts1, opts2],
        }))
    }

    /// The second word is written only where it changes, because every transfer costs and the driver
    /// clears it. The length of the frame is told with its last descriptor.
    #[inline]
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u16, [u32; 2]>,
        completion: Completion,
        [status, opts2]: [u32; 2],
    ) -> Result<(), DmaError> {
        let at = descriptor(self.base, found.place);
        if found.words[1] != opts2 {
            cx.dma_write(at.wrapping_add(4), &opts2.to_le_bytes())?;
        }
        let first = if completion.first { FIRST } else { 0 };
        let (last, bytes) = match completion.last {
            true => (LAST, completion.frame_bytes),
            false => (0, completion.bytes),
        };
        let opts1 = found.words[0] & RING_END | first | last | status | bytes as u32 & LENGTH;
        cx.dma_store_u32(at, opts1)
    }

    /// The driver has given the descriptor back, or has cleared it because it has no buffer for it yet.
    fn is_taken(&self, cx: &NicContext<'_>, place: u16) -> bool {
        let word = cx.peek_u32(descriptor(self.base, place));
        word.is_some_and(|word| word & OWN != 0 || word & !RING_END == 0)
    }

    fn behind_free(&self, cx: &NicContext<'_>, place: u16) -> Option<u16> {
        let opts1 = cx.peek_u32(descriptor(self.base, place))?;
        (opts1 & OWN != 0).then(|| following(place, opts1))
    }

    #[inline]
    fn is_reused(earlier: u16, place: u16) -> bool {
        earlier == place
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) filter: Filter,
    pub(super) queue: RxQueue<RxRing>,
    link: bool,
    strip_tag: bool,
    check: bool,
    /// The longest frame with check sequence that the driver lets in, and that any driver can.
    max_bytes: usize,
    longest_bytes: usize,
}

impl Receiver {
    /// One for frames of up to so many bytes without check sequence.
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        let longest_bytes = max_frame_bytes.saturating_add(FCS_BYTES).min(LENGTH as usize);
        Receiver {
            filter: Filter::new(),
            queue: RxQueue::new(RxRing { base: 0 }, TIMER_LATE),
            link: true,
            strip_tag: false,
            check: false,
            max_bytes: longest_bytes,
            longest_bytes,
        }
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link = up;
    }

    /// The driver names a ring; reception starts at its first descriptor.
    pub(super) fn set_ring(&mut self, cx: &NicContext<'_>, base: u64) {
        self.queue.restart(cx);
        self.queue.format.base = base & !(RING_ALIGNMENT - 1);
    }

    /// RxMaxSize, as the driver writes it: only 14 bits can take effect, and a driver that writes
    /// one more than they can hold, or 0, wants no limit.
    pub(super) fn set_max_size(&mut self, value: u16) {
        let limit = usize::from(value).min(self.longest_bytes);
        self.max_bytes = if limit == 0 { self.longest_bytes } else { limit };
    }

    pub(super) fn set_offload(&mut self, cplus: u16) {
        self.strip_tag = cplus & regs::CPLUS_RX_VLAN != 0;
        self.check = cplus & regs::CPLUS_RX_CHECKSUM != 0;
    }

    /// Whether frames that pass the filter are taken.
    pub(super) fn is_open(&self) -> bool {
        self.queue.is_open() && self.link && self.filter.accept & 0x0f != 0
    }
}

impl Rtl8168 {
    /// A frame from the wire.
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
        let Some(mut status) = self.rx.filter.admits(destination) else {
            return RxOutcome::Filtered;
        };
        let damaged =
            matches!(fault, Some(RxFault::Crc | RxFault::Alignment | RxFault::Reported(_)));
        let faulty =
            damaged || bytes.len() < MIN_FRAME_BYTES || bytes.len() + FCS_BYTES > self.rx.max_bytes;
        if faulty {
            match self.judge(bytes.len(), fault) {
                Some(errors) => status |= errors,
                None => return self.refuse(),
            }
        }
        if self.rx.check && !faulty {
            status |= verdict(bytes);
        }
        let fcs = frame.fcs.to_le_bytes();
        let tagged = self.rx.strip_tag
            && bytes.len() >= HEADER_BYTES + 4
            && bytes[checksum::ETHER_TYPE..checksum::ETHER_TYPE + 2] == checksum::VLAN_TYPE;
        let (pieces, opts2): ([&[u8]; 3], u32) = if tagged {
            // The tag as it stood in the frame: its first byte is the lower one.
            let tag = u16::from_le_bytes([bytes[14], bytes[15]]);
            ([&bytes[..12], &bytes[16..], &fcs], TAG_AVAILABLE | u32::from(tag))
        } else {
            ([bytes, &fcs, &[]], 0)
        };
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
        pieces: &[&[u8]],
        status: [u32; 2],
        fault: RxFault,
    ) -> RxOutcome {
        let placed = self.rx.queue.place_with_fault(cx, pieces, status, fault);
        let accept = self.rx.filter.accept;
        let unwanted = match fault {
            RxFault::Reported(RxError::Crc) => accept & regs::ACCEPT_ERR == 0,
            RxFault::Reported(RxError::Runt) => accept & regs::ACCEPT_RUNT == 0,
            RxFault::Reported(RxError::TooLong) => true,
            _ => false,
        };
        match self.received(cx, placed, status) {
            RxOutcome::OnRing if unwanted => RxOutcome::OnRingDamaged,
            outcome => outcome,
        }
    }

    /// The status bits of a frame with an error, if the filter lets such in.
    #[cold]
    fn judge(&mut self, bytes: usize, fault: Option<RxFault>) -> Option<u32> {
        let accept = self.rx.filter.accept;
        if bytes + FCS_BYTES > LENGTH as usize {
            return None;
        }
        let (mut errors, mut let_in) = (0, true);
        if bytes + FCS_BYTES > self.rx.max_bytes {
            errors |= TOO_LONG | ERROR;
            let_in &= accept & regs::ACCEPT_ERR != 0;
        }
        if bytes < MIN_FRAME_BYTES {
            errors |= RUNT | ERROR;
            let_in &= accept & regs::ACCEPT_RUNT != 0;
        }
        match fault {
            Some(RxFault::Crc | RxFault::Alignment) => {
                errors |= BAD_CRC | ERROR;
                let_in &= accept & regs::ACCEPT_ERR != 0;
                if fault == Some(RxFault::Alignment) {
                    self.tally.align_errors = self.tally.align_errors.wrapping_add(1);
                }
            }
            Some(RxFault::Reported(RxError::Crc)) => errors |= BAD_CRC | ERROR,
            Some(RxFault::Reported(RxError::Runt)) => errors |= RUNT | ERROR,
            Some(RxFault::Reported(RxError::TooLong)) => errors |= TOO_LONG | ERROR,
            _ => {}
        }
        let_in.then_some(errors)
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
            self.tally.received(status);
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

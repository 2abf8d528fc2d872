//! The receive ring.
//!
//! The chip's receive FIFO is not modelled: a frame that finds no descriptor is missed at once,
//! counted in RxMissed and reported as RDU (RxOverflow); RxFIFOOver is therefore never reported.
//! The check sequence is not recomputed, which would cost more than the rest of the reception:
//! whoever damages a frame says so ([`RxFault`]).

use std::collections::VecDeque;

use warikomi_pci::DmaError;

use super::filter::Filter;
use super::late::LateFrame;
use super::verdict::verdict;
use super::{Rtl8168, TIMER_LATE, regs};
use crate::checksum;
use crate::frame::HEADER_BYTES;
use crate::late::Late;
use crate::{Frame, MIN_FRAME_BYTES, NicContext, RxCounters, RxError, RxFault, RxOutcome};

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

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) filter: Filter,
    enabled: bool,
    halted: bool,
    link: bool,
    /// All of the above say that frames may come in.
    open: bool,
    strip_tag: bool,
    check: bool,
    /// The longest frame with check sequence that the driver lets in, and that any driver can.
    max_bytes: usize,
    longest_bytes: usize,
    base: u64,
    head: u16,
    /// For each frame that is with the driver, in order, its last descriptor.
    outstanding: VecDeque<u16>,
    /// Frames in memory whose descriptors are still the chip's, because of a fault.
    pub(super) late: Late<LateFrame>,
    counters: RxCounters,
}

/// Where a frame goes: the first word of its descriptor, and the rest.
struct Slot {
    index: u16,
    opts1: u32,
    opts2: u32,
    buffer: u64,
}

impl Slot {
    fn size(&self) -> usize {
        (self.opts1 & LENGTH) as usize
    }
}

/// The pieces that end up one behind the other in memory.
type Pieces<'a> = [&'a [u8]; 3];

impl Receiver {
    /// One for frames of up to so many bytes without check sequence.
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        let longest_bytes = max_frame_bytes.saturating_add(FCS_BYTES).min(LENGTH as usize);
        Receiver {
            longest_bytes,
            filter: Filter::new(),
            enabled: false,
            halted: false,
            link: true,
            open: false,
            strip_tag: false,
            check: false,
            max_bytes: longest_bytes,
            base: 0,
            head: 0,
            outstanding: VecDeque::with_capacity(RING_LIMIT.into()),
            late: Late::new(TIMER_LATE),
            counters: RxCounters::default(),
        }
    }

    fn reconsider(&mut self) {
        self.open = self.enabled && !self.halted && self.link;
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link = up;
        self.reconsider();
    }

    /// The driver switches the receiver on or off. Off settles the account of the ring.
    pub(super) fn enable(&mut self, cx: &NicContext<'_>, on: bool) {
        if self.enabled && !on {
            self.settle(cx);
        }
        self.enabled = on;
        self.reconsider();
    }

    /// The driver names a ring; reception starts at its first descriptor.
    pub(super) fn set_ring(&mut self, cx: &NicContext<'_>, base: u64) {
        self.settle(cx);
        (self.base, self.head) = (base & !(RING_ALIGNMENT - 1), 0);
    }

    pub(super) fn reset(&mut self, cx: &NicContext<'_>) {
        self.settle(cx);
        (self.enabled, self.halted, self.head) = (false, false, 0);
        self.reconsider();
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
        self.open && self.filter.accept & 0x0f != 0
    }

    /// Takes over another receiver's account: counts never go back.
    pub(super) fn keep_counters(&mut self, other: &Receiver) {
        self.counters = other.counters;
    }

    pub(super) fn counters(&self) -> RxCounters {
        self.counters
    }

    /// Counts the frames at the head of the line whose descriptors the driver has given back, or has
    /// cleared because it has no buffer for them yet.
    pub(super) fn progress(&mut self, cx: &NicContext<'_>, limit: usize) {
        for _ in 0..limit {
            let Some(&index) = self.outstanding.front() else { return };
            let word = cx.peek_u32(descriptor(self.base, index));
            let taken = word.is_some_and(|word| word & OWN != 0 || word & !RING_END == 0);
            if !taken || self.late.holds(|frame| frame.index == index) {
                return;
            }
            self.outstanding.pop_front();
            self.counters.accepted += 1;
        }
    }

    /// The ring goes away: what the driver has not given back by now, it never will.
    fn settle(&mut self, cx: &NicContext<'_>) {
        self.progress(cx, usize::MAX);
        self.counters.abandoned += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.late.clear();
    }

    /// Descriptors in a row, from the head on, that belong to the chip.
    pub(super) fn free(&self, cx: &NicContext<'_>, limit: usize) -> usize {
        let mut index = self.head;
        for count in 0..limit.min(RING_LIMIT.into()) {
            match cx.peek_u32(descriptor(self.base, index)) {
                Some(opts1)
                    if opts1 & OWN != 0 && !self.late.holds(|frame| frame.index == index) =>
                {
                    index = following(index, opts1);
                }
                _ => return count,
            }
            if index == self.head {
                return count + 1;
            }
        }
        limit.min(RING_LIMIT.into())
    }

    /// Reads descriptor `index`; `None` if it belongs to the driver.
    #[inline]
    fn slot(&self, cx: &mut NicContext<'_>, index: u16) -> Result<Option<Slot>, DmaError> {
        let at = descriptor(self.base, index);
        let [opts1, opts2, low, high] = cx.dma_load_descriptor(at)?;
        if opts1 & OWN == 0 || self.late.holds(|frame| frame.index == index) {
            return Ok(None);
        }
        let buffer = u64::from(high) << 32 | u64::from(low);
        Ok(Some(Slot { index, opts1, opts2, buffer }))
    }

    /// Hands a filled descriptor over. The second word is written only where it changes, because
    /// every transfer costs and the driver clears it.
    #[inline]
    fn hand_over(
        &mut self,
        cx: &mut NicContext<'_>,
        slot: &Slot,
        opts1: u32,
        opts2: u32,
    ) -> Result<(), DmaError> {
        let at = descriptor(self.base, slot.index);
        if slot.opts2 != opts2 {
            cx.dma_write(at.wrapping_add(4), &opts2.to_le_bytes())?;
        }
        cx.dma_store_u32(at, slot.opts1 & RING_END | opts1)?;
        self.head = following(slot.index, slot.opts1);
        Ok(())
    }

    /// A descriptor that the driver owned one lap ago is ours again: it has taken the frame.
    #[inline]
    fn lapped(&mut self, index: u16) {
        if self.outstanding.front() == Some(&index) {
            self.outstanding.pop_front();
            self.counters.accepted += 1;
        }
    }

    #[inline]
    fn placed(&mut self, last: u16) {
        if self.outstanding.len() >= usize::from(RING_LIMIT) {
            // Only a driver that moves the ring's end around gets here.
            self.outstanding.pop_front();
            self.counters.abandoned += 1;
        }
        self.outstanding.push_back(last);
        self.counters.on_ring += 1;
    }

    /// Writes a frame into as many descriptors as it takes. `false`: there are too few.
    #[inline]
    fn place(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        status: u32,
        opts2: u32,
    ) -> Result<bool, DmaError> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Some(slot) = self.slot(cx, self.head)? else { return Ok(false) };
        if total > slot.size() {
            return self.place_in_many(cx, pieces, status, opts2);
        }
        self.lapped(slot.index);
        fill(cx, &slot, pieces)?;
        self.hand_over(cx, &slot, FIRST | LAST | status | total as u32, opts2)?;
        self.placed(slot.index);
        Ok(true)
    }

    /// Writes a frame into one descriptor's buffer, and completes it as the fault wants it. `None`:
    /// this frame goes the way of all others.
    fn place_oddly(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        (status, opts2): (u32, u32),
        fault: RxFault,
    ) -> Result<Option<Odd>, DmaError> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Some(slot) = self.slot(cx, self.head)? else { return Ok(None) };
        if total > slot.size() {
            return Ok(None);
        }
        let opts1 = FIRST | LAST | status;
        match fault {
            RxFault::Length(bytes) => {
                self.lapped(slot.index);
                fill(cx, &slot, pieces)?;
                self.hand_over(cx, &slot, opts1 | u32::from(bytes) & LENGTH, opts2)?;
                self.placed(slot.index);
                Ok(Some(Odd::Placed))
            }
            RxFault::NeverCompleted => {
                self.lapped(slot.index);
                fill(cx, &slot, pieces)?;
                self.head = following(slot.index, slot.opts1);
                Ok(Some(Odd::Never))
            }
            RxFault::CompletedLate(by) => {
                self.lapped(slot.index);
                fill(cx, &slot, pieces)?;
                let at = descriptor(self.base, slot.index);
                let words = [slot.opts1 & RING_END | opts1 | total as u32, opts2];
                self.late.add(cx, by, LateFrame { index: slot.index, at, words, status });
                self.head = following(slot.index, slot.opts1);
                self.placed(slot.index);
                Ok(Some(Odd::Late))
            }
            RxFault::Crc | RxFault::Alignment | RxFault::Reported(_) => Ok(None),
        }
    }

    /// A frame longer than the first buffer. Nothing is written unless there is room for all.
    fn place_in_many(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        status: u32,
        opts2: u32,
    ) -> Result<bool, DmaError> {
        let whole = pieces.concat();
        let (mut slots, mut room, mut index) = (Vec::new(), 0, self.head);
        while room < whole.len() {
            let Some(slot) = self.slot(cx, index)? else { return Ok(false) };
            room += slot.size();
            index = following(index, slot.opts1);
            slots.push(slot);
            if room < whole.len() && (index == self.head || slots.len() >= RING_LIMIT.into()) {
                return Ok(false);
            }
        }
        let (mut rest, last) = (&whole[..], slots.len() - 1);
        for (i, slot) in slots.iter().enumerate() {
            let (piece, behind) = rest.split_at(slot.size().min(rest.len()));
            rest = behind;
            self.lapped(slot.index);
            if !piece.is_empty() {
                cx.dma_write(slot.buffer, piece)?;
            }
            // The length of the frame is told with its last descriptor.
            let (first, length) = (if i == 0 { FIRST } else { 0 }, piece.len() as u32);
            let mark = if i == last { LAST | whole.len() as u32 } else { length };
            self.hand_over(cx, slot, first | mark | status, opts2)?;
        }
        self.placed(slots[last].index);
        Ok(true)
    }
}

/// Copies a frame into a descriptor's buffer.
#[inline]
fn fill(cx: &mut NicContext<'_>, slot: &Slot, pieces: &Pieces<'_>) -> Result<(), DmaError> {
    cx.dma_write_pieces(slot.buffer, pieces)
}

/// What became of a frame that was not placed as usual.
enum Odd {
    Placed,
    Never,
    Late,
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
        if !self.rx.open {
            return if self.rx.halted { RxOutcome::DmaError } else { RxOutcome::NotReceiving };
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
        let (pieces, opts2): (Pieces<'_>, u32) = if tagged {
            // The tag as it stood in the frame: its first byte is the lower one.
            let tag = u16::from_le_bytes([bytes[14], bytes[15]]);
            ([&bytes[..12], &bytes[16..], &fcs], TAG_AVAILABLE | u32::from(tag))
        } else {
            ([bytes, &fcs, &[]], 0)
        };
        if let Some(fault) = fault {
            return self.receive_oddly(cx, &pieces, (status, opts2), fault);
        }
        let placed = self.rx.place(cx, &pieces, status, opts2);
        self.received(cx, placed, status)
    }

    #[cold]
    fn receive_oddly(
        &mut self,
        cx: &mut NicContext<'_>,
        pieces: &Pieces<'_>,
        (status, opts2): (u32, u32),
        fault: RxFault,
    ) -> RxOutcome {
        let placed = match self.rx.place_oddly(cx, pieces, (status, opts2), fault) {
            Ok(Some(Odd::Never)) => return RxOutcome::NotCompleted,
            Ok(Some(Odd::Late)) => return RxOutcome::OnRing,
            Ok(Some(Odd::Placed)) => Ok(true),
            Ok(None) => self.rx.place(cx, pieces, status, opts2),
            Err(error) => Err(error),
        };
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
    pub(super) fn received(
        &mut self,
        cx: &mut NicContext<'_>,
        placed: Result<bool, DmaError>,
        status: u32,
    ) -> RxOutcome {
        match placed {
            Ok(true) if status & ERROR != 0 => {
                self.tally.rx_errors = self.tally.rx_errors.wrapping_add(1);
                self.intr.report(cx, regs::RX_ERR);
            }
            Ok(true) => {
                self.tally.received(status);
                self.intr.received(cx);
            }
            Ok(false) => return self.missed(cx),
            Err(_) => {
                self.rx.halted = true;
                self.rx.reconsider();
                self.intr.report(cx, regs::SYS_ERR);
                return RxOutcome::DmaError;
            }
        }
        RxOutcome::OnRing
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

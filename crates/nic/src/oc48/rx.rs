//! Receiving: the FIFO of empty buffers, and the completion ring.
//!
//! The check sequence is not stored, and not recomputed: whoever damages a frame says so
//! ([`RxFault`]). A frame is in memory, and its completion written, when the call that it arrives in
//! returns.

use std::collections::VecDeque;

use warikomi_pci::DmaError;

use super::{Oc48, TIMER_LATE, regs};
use crate::frame::HEADER_BYTES;
use crate::late::Late;
use crate::{Frame, NicContext, RxCounters, RxError, RxFault, RxOutcome, checksum};

// An entry of the completion ring.
const DONE: u32 = 1 << 31;
const TOO_LONG: u32 = 1 << 30;
const CHECKSUMS_GOOD: u32 = 1 << 29;
/// Bytes of an entry.
const ENTRY: u64 = 4;
const ENTRIES: u64 = regs::FIFO as u64;

/// A buffer that the driver has pushed.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    /// How many were pushed before it since RESET.
    number: u64,
    address: u64,
    bytes: usize,
}

/// A frame whose completion comes late.
#[derive(Debug)]
pub(super) struct LateEntry {
    number: u64,
    entry: u32,
}

#[derive(Debug)]
pub(super) struct Receiver {
    enabled: bool,
    halted: bool,
    address: u64,
    ring: u64,
    fifo: VecDeque<Buffer>,
    /// Buffers pushed since RESET.
    pushed: u64,
    /// For each frame that is with the driver, in order, its buffer's number.
    outstanding: VecDeque<u64>,
    late: Late<LateEntry>,
    counters: RxCounters,
    max_frame_bytes: usize,
}

impl Receiver {
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        Receiver {
            enabled: false,
            halted: false,
            address: 0,
            ring: 0,
            fifo: VecDeque::with_capacity(regs::FIFO),
            pushed: 0,
            outstanding: VecDeque::with_capacity(regs::FIFO),
            late: Late::new(TIMER_LATE),
            counters: RxCounters::default(),
            max_frame_bytes,
        }
    }

    /// Takes over another receiver's account: counts never go back.
    pub(super) fn keep_counters(&mut self, other: &Receiver) {
        self.counters = other.counters;
    }

    pub(super) fn counters(&self) -> RxCounters {
        self.counters
    }

    pub(super) fn reset(&mut self, cx: &NicContext<'_>) {
        self.settle(cx);
        (self.enabled, self.halted) = (false, false);
        (self.address, self.ring, self.pushed) = (0, 0, 0);
        self.fifo.clear();
    }

    /// A DMA transfer failed, here or at the transmitter.
    pub(super) fn halt(&mut self) {
        self.halted = true;
    }

    /// The driver switches the receiver on or off. Off settles the account of the ring.
    pub(super) fn enable(&mut self, cx: &NicContext<'_>, on: bool) {
        if self.enabled && !on {
            self.settle(cx);
        }
        self.enabled = on;
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether frames are taken, if the cable is in.
    pub(super) fn is_open(&self) -> bool {
        self.enabled && !self.halted
    }

    /// RX_ADDRESS.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn set_address(&mut self, address: u64) {
        self.address = address;
    }

    /// RX_RING.
    pub(super) fn ring(&self) -> u64 {
        self.ring
    }

    pub(super) fn set_ring(&mut self, cx: &NicContext<'_>, base: u64) {
        self.settle(cx);
        self.ring = base & !(regs::RING_ALIGNMENT - 1);
    }

    /// RX_REMAINING.
    pub(super) fn remaining(&self) -> usize {
        self.fifo.len()
    }

    /// RX_PUSH. One for which there is no room is lost.
    pub(super) fn push(&mut self, command: u32) {
        if self.fifo.len() < regs::FIFO {
            let bytes = (command & regs::LENGTH) as usize;
            self.fifo.push_back(Buffer { number: self.pushed, address: self.address, bytes });
            self.pushed += 1;
        }
    }

    /// The address of the completion of buffer `number`.
    fn entry(&self, number: u64) -> u64 {
        self.ring.wrapping_add(ENTRY * (number % ENTRIES))
    }

    /// Counts the frames at the head of the line whose entries the driver has cleared.
    pub(super) fn progress(&mut self, cx: &NicContext<'_>, limit: usize) {
        for _ in 0..limit {
            let Some(&number) = self.outstanding.front() else { return };
            let entry = cx.peek_u32(self.entry(number));
            let late = self.late.holds(|late| late.number == number);
            if late || entry.is_none_or(|entry| entry & DONE != 0) {
                return;
            }
            self.outstanding.pop_front();
            self.counters.accepted += 1;
        }
    }

    /// The ring goes away: what the driver has not taken by now, it never will.
    fn settle(&mut self, cx: &NicContext<'_>) {
        self.progress(cx, usize::MAX);
        self.counters.abandoned += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.late.clear();
    }

    /// A frame is with the driver, or will be. Whatever was in the same entry it has taken.
    fn placed(&mut self, number: u64) {
        while self.outstanding.front().is_some_and(|&first| first + ENTRIES <= number) {
            self.outstanding.pop_front();
            self.counters.accepted += 1;
        }
        self.outstanding.push_back(number);
        self.counters.on_ring += 1;
    }

    /// Whether frames for this address are taken: the station's own, broadcast and multicast.
    fn admits(destination: &[u8; 6]) -> bool {
        destination[0] & 1 != 0 || *destination == regs::station()
    }

    /// Writes a frame into the next buffer, and says so in the ring, or does what the fault wants.
    /// `None`: there is no buffer.
    fn place(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: &[u8],
        fault: Option<RxFault>,
    ) -> Result<Option<RxOutcome>, DmaError> {
        let Some(buffer) = self.fifo.pop_front() else { return Ok(None) };
        let written = frame.len().min(buffer.bytes);
        if written > 0 {
            cx.dma_write(buffer.address, &frame[..written])?;
        }
        let mut entry = DONE | written as u32;
        if written < frame.len() {
            entry |= TOO_LONG;
        } else if checksum::judge(frame).is_some_and(checksum::Verdict::is_good) {
            entry |= CHECKSUMS_GOOD;
        }
        match fault {
            Some(RxFault::NeverCompleted) => return Ok(Some(RxOutcome::NotCompleted)),
            Some(RxFault::CompletedLate(by)) => {
                self.late.add(cx, by, LateEntry { number: buffer.number, entry });
                self.placed(buffer.number);
                return Ok(Some(RxOutcome::OnRing));
            }
            Some(RxFault::Length(bytes)) => entry = entry & !regs::LENGTH | u32::from(bytes),
            Some(RxFault::Reported(_)) => entry |= TOO_LONG,
            _ => {}
        }
        cx.dma_store_u32(self.entry(buffer.number), entry)?;
        self.placed(buffer.number);
        let damaged = matches!(fault, Some(RxFault::Reported(_)));
        Ok(Some(if damaged { RxOutcome::OnRingDamaged } else { RxOutcome::OnRing }))
    }
}

impl Oc48 {
    /// A frame from the wire. Of the errors that hardware may report wrongly an entry has a bit for one:
    /// too long. A frame with any other is dropped.
    pub(super) fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> RxOutcome {
        if self.rx.halted {
            return RxOutcome::DmaError;
        }
        if !self.rx.enabled || !self.link {
            return RxOutcome::NotReceiving;
        }
        let bytes = frame.bytes;
        let possible = (HEADER_BYTES..=self.rx.max_frame_bytes).contains(&bytes.len());
        let dropped = match fault {
            Some(RxFault::Crc | RxFault::Alignment) => true,
            Some(RxFault::Reported(error)) => error != RxError::TooLong,
            _ => false,
        };
        if !possible || dropped || !bytes.first_chunk().is_some_and(Receiver::admits) {
            return RxOutcome::Filtered;
        }
        match self.rx.place(cx, bytes, fault) {
            Ok(None) => {
                self.intr.report(cx, regs::RX_MISSED);
                RxOutcome::NoDescriptor
            }
            Ok(Some(outcome)) => {
                let silent =
                    matches!(fault, Some(RxFault::NeverCompleted | RxFault::CompletedLate(_)));
                if !silent {
                    self.intr.report(cx, regs::RX_DONE);
                }
                outcome
            }
            Err(_) => {
                self.system_error(cx);
                RxOutcome::DmaError
            }
        }
    }

    /// The timer of late completions: writes what is due.
    pub(super) fn complete_late(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.late.event(cx) {
            return;
        }
        while let Some(frame) = self.rx.late.take_due(cx) {
            if cx.dma_store_u32(self.rx.entry(frame.number), frame.entry).is_ok() {
                self.intr.report(cx, regs::RX_DONE);
            } else {
                self.rx.late.keep(frame);
                self.system_error(cx);
            }
        }
    }
}

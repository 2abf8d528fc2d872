//! The four transmit slots, which are registers, and the memory that frames are put together in.

use std::collections::VecDeque;

use warikomi_pci::{DmaMemory, Mmio, Width};

use super::regs;
use crate::access::write32;
use crate::{DriverError, TxFrame};

/// How many there are.
pub(super) const SLOTS: usize = 4;
/// Bytes of memory of each.
const SLOT_BYTES: u64 = 2 << 10;
pub(super) const BUFFERS_BYTES: u64 = SLOTS as u64 * SLOT_BYTES;
/// The longest frame (TSD, size), and the shortest: the device does not pad.
pub(super) const MAX_FRAME_BYTES: usize = 1_792;
const MIN_FRAME_BYTES: usize = 60;

#[derive(Debug, Default)]
pub(super) struct Transmitter {
    buffers: u64,
    /// Frames from slot `tail` on: name and length of each, the oldest first.
    frames: VecDeque<(u32, u32)>,
    tail: usize,
    /// Of these, those that the device has been told of.
    rung: usize,
    frame: Vec<u8>,
}

impl Transmitter {
    /// Empty slots, whose memory is at `buffers`.
    pub(super) fn set_up(&mut self, buffers: u64) {
        *self = Transmitter { buffers, ..Transmitter::default() };
    }

    /// Where the memory of a slot is.
    pub(super) fn buffer(&self, slot: usize) -> u64 {
        self.buffers + SLOT_BYTES * slot as u64
    }

    /// Whether the device has frames that it has not given back.
    pub(super) fn outstanding(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Slots that hold nothing.
    pub(super) fn room(&self) -> usize {
        SLOTS - self.frames.len()
    }

    /// Puts a frame together; `false` if there is no room at present.
    pub(super) fn put(
        &mut self,
        memory: &dyn DmaMemory,
        frame: TxFrame<'_>,
    ) -> Result<bool, DriverError> {
        check(frame)?;
        if self.room() == 0 {
            return Ok(false);
        }
        self.frame.clear();
        for &(address, bytes) in frame.pieces {
            let begin = self.frame.len();
            self.frame.resize(begin + bytes as usize, 0);
            memory.read(address, &mut self.frame[begin..])?;
        }
        let padded = self.frame.len().max(MIN_FRAME_BYTES);
        self.frame.resize(padded, 0);
        let slot = (self.tail + self.frames.len()) % SLOTS;
        memory.write(self.buffer(slot), &self.frame)?;
        self.frames.push_back((frame.token, padded as u32));
        Ok(true)
    }

    /// Tells the device of what was put together since.
    pub(super) fn ring(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        while let Some((_, bytes)) = self.frames.get(self.rung) {
            let slot = (self.tail + self.rung) % SLOTS;
            let register = regs::TX_STATUS_0 + 4 * slot as u64;
            write32(mmio, register, regs::TX_THRESHOLD | bytes)?;
            self.rung += 1;
        }
        Ok(())
    }

    /// Gives back the names of the frames that the device is done with; how many.
    pub(super) fn reclaim(
        &mut self,
        mmio: &mut dyn Mmio,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        if self.rung == 0 {
            return Ok(0);
        }
        let summary = mmio.read(regs::TX_SUMMARY, Width::B2)? as u16;
        let (mut frames, mut aborted) = (0, false);
        while self.rung > 0 && summary >> self.tail & 1 != 0 {
            aborted |= summary >> (SLOTS + self.tail) & 1 != 0;
            if let Some((token, _)) = self.frames.pop_front() {
                sent(token);
            }
            (self.tail, self.rung) = ((self.tail + 1) % SLOTS, self.rung - 1);
            frames += 1;
        }
        if aborted {
            write32(mmio, regs::TX_CONFIG, regs::TX_CONFIG_VALUE | regs::TX_CLEAR_ABORT)?;
        }
        Ok(frames)
    }

    /// The slots are emptied; every name goes back.
    pub(super) fn give_back(&mut self, sent: &mut dyn FnMut(u32)) {
        self.frames.drain(..).for_each(|(token, _)| sent(token));
        (self.tail, self.rung) = (0, 0);
    }
}

fn check(frame: TxFrame<'_>) -> Result<(), DriverError> {
    let pieces = frame.pieces.iter().map(|&(_, bytes)| bytes as usize);
    let empty = pieces.clone().any(|bytes| bytes == 0);
    let bytes = pieces.fold(0, usize::saturating_add);
    if frame.segments.is_some() || empty || !(1..=MAX_FRAME_BYTES).contains(&bytes) {
        return Err(DriverError::Invalid(format!(
            "a frame of {} pieces and {bytes} bytes cannot be sent: pieces must not be empty, a frame has at most \
             {MAX_FRAME_BYTES} bytes, and this device makes no segments",
            frame.pieces.len()
        )));
    }
    Ok(())
}

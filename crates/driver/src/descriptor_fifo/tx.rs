//! The transmit FIFO: what was pushed, and what of it the device still has.
//!
//! The device tells one number, how many descriptors it has not transferred. Whatever was pushed before
//! those has been sent.

use std::collections::VecDeque;

use warikomi_pci::{Mmio, Width};

use super::regs;
use crate::access::{write32, write64};
use crate::model::most_bytes;
use crate::{DriverError, Segments, TxFrame};

#[derive(Debug, Default)]
pub(super) struct Transmitter {
    /// Each frame that the device has: its name, and its descriptors that are not transferred.
    frames: VecDeque<(u32, usize)>,
    /// Descriptors pushed and not known to be transferred, of so many that fit.
    pushed: usize,
    capacity: usize,
    max_frame_bytes: usize,
    /// Bytes of payload of a segment at most; 0 if the device cuts none.
    most_segment_bytes: u16,
}

impl Transmitter {
    /// An empty FIFO.
    pub(super) fn set_up(
        &mut self,
        capacity: usize,
        max_frame_bytes: usize,
        most_segment_bytes: u16,
    ) {
        let frames = VecDeque::with_capacity(capacity);
        *self = Transmitter { frames, pushed: 0, capacity, max_frame_bytes, most_segment_bytes };
    }

    /// Descriptors that fit.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.capacity - self.pushed
    }

    /// Whether the device has frames that it has not given back.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.pushed > 0
    }

    /// Pushes a frame; `false` if there is no room at present.
    #[inline]
    pub(super) fn put(
        &mut self,
        mmio: &mut dyn Mmio,
        frame: TxFrame<'_>,
    ) -> Result<bool, DriverError> {
        self.check(frame)?;
        let count = frame.pieces.len();
        if count > self.room() {
            return Ok(false);
        }
        if let Some(Segments { tcp_offset, bytes }) = frame.segments {
            let request = u32::from(tcp_offset) << regs::SEGMENT_HEADER_SHIFT | u32::from(bytes);
            write32(mmio, regs::TX_SEGMENT, request)?;
        }
        for (number, &(address, bytes)) in frame.pieces.iter().enumerate() {
            let first = if number == 0 { regs::FIRST } else { 0 };
            let last = if number + 1 == count { regs::LAST } else { 0 };
            write64(mmio, regs::TX_ADDRESS, address)?;
            write32(mmio, regs::TX_PUSH, bytes | first | last)?;
        }
        self.frames.push_back((frame.token, count));
        self.pushed += count;
        Ok(true)
    }

    /// Asks the device, and gives back the names of the frames that it is done with; how many.
    #[inline]
    pub(super) fn reclaim(
        &mut self,
        mmio: &mut dyn Mmio,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        if self.pushed == 0 {
            return Ok(0);
        }
        let remaining = mmio.read(regs::TX_REMAINING, Width::B4)? as usize;
        let mut done = self.pushed.checked_sub(remaining).ok_or_else(|| {
            DriverError::Invalid(format!(
                "the device says that {remaining} descriptors remain, and it has only {}",
                self.pushed
            ))
        })?;
        self.pushed = remaining;
        let mut count = 0;
        while let Some((token, left)) = self.frames.front_mut() {
            if *left > done {
                *left -= done;
                break;
            }
            done -= *left;
            sent(*token);
            self.frames.pop_front();
            count += 1;
        }
        Ok(count)
    }

    /// The FIFO goes away; every name goes back.
    pub(super) fn give_back(&mut self, sent: &mut dyn FnMut(u32)) {
        self.frames.drain(..).for_each(|(token, _)| sent(token));
        self.pushed = 0;
    }

    #[inline]
    fn check(&self, frame: TxFrame<'_>) -> Result<(), DriverError> {
        let bytes: u64 = frame.pieces.iter().map(|piece| u64::from(piece.1)).sum();
        let count = frame.pieces.len();
        let empty = frame.pieces.iter().any(|piece| piece.1 == 0);
        let most = most_bytes(frame.segments, self.max_frame_bytes, self.most_segment_bytes)?;
        if count == 0 || empty || bytes > most as u64 || count > self.capacity {
            return Err(DriverError::Invalid(format!(
                "a frame of {count} pieces and {bytes} bytes cannot be sent: pieces must not be empty, \
                 and a frame has at most {most} bytes in at most {} pieces",
                self.capacity
            )));
        }
        Ok(())
    }
}

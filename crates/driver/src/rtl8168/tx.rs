//! The transmit ring.

use warikomi_pci::DmaMemory;

use super::regs;
use crate::{DriverError, TxFrame};

/// Descriptors of the ring.
pub(super) const DESCRIPTORS: usize = 1_024;
/// The longest frame, without its check sequence.
pub(super) const MAX_FRAME_BYTES: usize =
    regs::TX_PACKET_UNITS as usize * regs::TX_PACKET_UNIT_BYTES;

#[derive(Debug, Default)]
pub(super) struct Transmitter {
    ring: u64,
    /// For the last descriptor of each frame that the device has, the frame's name.
    tokens: Vec<Option<u32>>,
    /// The next descriptor to fill, and the first that the device has.
    head: usize,
    tail: usize,
    used: usize,
    rung: bool,
}

impl Transmitter {
    /// An empty ring at `ring`.
    pub(super) fn set_up(&mut self, memory: &dyn DmaMemory, ring: u64) -> Result<(), DriverError> {
        *self = Transmitter {
            ring,
            tokens: vec![None; DESCRIPTORS],
            rung: true,
            ..Transmitter::default()
        };
        for index in 0..DESCRIPTORS {
            memory.write(self.at(index), &[0; regs::DESCRIPTOR_BYTES as usize])?;
        }
        Ok(())
    }

    #[inline]
    fn at(&self, index: usize) -> u64 {
        self.ring + regs::DESCRIPTOR_BYTES * index as u64
    }

    /// Whether the device has frames that it has not given back.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.used > 0
    }

    /// Descriptors that hold nothing.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.tokens.len() - self.used
    }

    /// Puts a frame on the ring; `false` if there is no room at present.
    ///
    /// The first descriptor changes hands last: the device never sees a part of a frame.
    #[inline]
    pub(super) fn put(
        &mut self,
        memory: &dyn DmaMemory,
        frame: TxFrame<'_>,
    ) -> Result<bool, DriverError> {
        check(frame)?;
        let count = frame.pieces.len();
        if count > self.room() {
            return Ok(false);
        }
        let mut first_word = 0;
        for (number, &(address, bytes)) in frame.pieces.iter().enumerate() {
            let index = (self.head + number) % DESCRIPTORS;
            let mut word = bytes;
            word |= if index + 1 == DESCRIPTORS { regs::RING_END } else { 0 };
            word |= if number + 1 == count { regs::LAST_FRAG } else { 0 };
            let mut rest = [0; 12];
            rest[4..].copy_from_slice(&address.to_le_bytes());
            memory.write(self.at(index) + 4, &rest)?;
            if number == 0 {
                first_word = word | regs::FIRST_FRAG | regs::DESC_OWN;
            } else {
                memory.store_u32(self.at(index), word | regs::DESC_OWN)?;
            }
        }
        memory.store_u32(self.at(self.head), first_word)?;
        self.tokens[(self.head + count - 1) % DESCRIPTORS] = Some(frame.token);
        self.head = (self.head + count) % DESCRIPTORS;
        self.used += count;
        self.rung = false;
        Ok(true)
    }

    /// Whether the doorbell must be rung for what was put on the ring.
    #[inline]
    pub(super) fn ring_bell(&mut self) -> bool {
        !std::mem::replace(&mut self.rung, true)
    }

    /// Gives back the names of the frames that the device is done with; how many.
    #[inline]
    pub(super) fn reclaim(
        &mut self,
        memory: &dyn DmaMemory,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        let mut frames = 0;
        while self.used > 0 && memory.load_u32(self.at(self.tail))? & regs::DESC_OWN == 0 {
            if let Some(token) = self.tokens[self.tail].take() {
                sent(token);
                frames += 1;
            }
            self.tail = (self.tail + 1) % DESCRIPTORS;
            self.used -= 1;
        }
        Ok(frames)
    }

    /// The ring goes away; every name goes back.
    pub(super) fn give_back(&mut self, sent: &mut dyn FnMut(u32)) {
        while self.used > 0 {
            if let Some(token) = self.tokens[self.tail].take() {
                sent(token);
            }
            self.tail = (self.tail + 1) % DESCRIPTORS;
            self.used -= 1;
        }
    }
}

#[inline]
fn check(frame: TxFrame<'_>) -> Result<(), DriverError> {
    let mut bytes = 0_usize;
    for &(_, piece) in frame.pieces {
        if piece == 0 {
            bytes = 0;
            break;
        }
        bytes = bytes.saturating_add(piece as usize);
    }
    if bytes == 0 || bytes > MAX_FRAME_BYTES || frame.pieces.len() >= DESCRIPTORS {
        return Err(DriverError::Invalid(format!(
            "a frame of {} pieces and {bytes} bytes cannot be sent: pieces must not be empty, and a \
             frame has at most {MAX_FRAME_BYTES} bytes in fewer than {DESCRIPTORS} pieces",
            frame.pieces.len()
        )));
    }
    Ok(())
}

//! The transmit ring.
//!
//! A driver that can be replaced notes each frame in a slot; its frames have one piece each, so that
//! descriptor and frame are the same thing for a successor.

use std::collections::VecDeque;

use warikomi_pci::DmaMemory;

use super::regs;
use crate::model::most_bytes;
use crate::state::{InUse, Progress, Slots};
use crate::{DriverError, Segments, TxFrame};

/// Descriptors of the ring.
pub(super) const DESCRIPTORS: usize = 1_024;
/// The longest frame, without its check sequence.
pub(super) const MAX_FRAME_BYTES: usize =
    regs::TX_PACKET_UNITS as usize * regs::TX_PACKET_UNIT_BYTES;

#[derive(Debug, Default)]
pub(super) struct Transmitter {
    ring: u64,
    /// 0 before there is a ring.
    descriptors: usize,
    /// The frames that the device has, in order. Not one place for each descriptor, as with the receiver's buffers.
    frames: VecDeque<Frame>,
    /// Where a successor finds the same.
    slots: Option<Slots>,
    /// Count of the frame at `tail`, if there are slots.
    given: u64,
    /// The next descriptor to fill, and the first that the device has.
    head: usize,
    tail: usize,
    used: usize,
    rung: bool,
}

/// A frame on the ring.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Its last descriptor.
    last: usize,
    token: u32,
}

impl Transmitter {
    /// An empty ring at `ring`. `given` frames have been given back as sent before.
    pub(super) fn set_up(
        &mut self,
        memory: &dyn DmaMemory,
        ring: u64,
        (slots, given): (Option<Slots>, u64),
    ) -> Result<(), DriverError> {
        if let Some(slots) = &slots {
            slots.clear();
        }
        *self = Transmitter {
            ring,
            descriptors: DESCRIPTORS,
            frames: VecDeque::with_capacity(DESCRIPTORS),
            slots,
            given,
            rung: true,
            ..Transmitter::default()
        };
        for index in 0..DESCRIPTORS {
            memory.write(self.at(index), &[0; regs::DESCRIPTOR_BYTES as usize])?;
        }
        Ok(())
    }

    /// A predecessor's ring, of which this is in use. Nothing is stored.
    pub(super) fn take_over(ring: u64, slots: Slots, in_use: InUse) -> Transmitter {
        let InUse { first, index, tokens } = in_use;
        let used = tokens.len();
        let frame = |(number, token)| Frame { last: (index + number) % DESCRIPTORS, token };
        let mut frames = VecDeque::with_capacity(DESCRIPTORS);
        frames.extend(tokens.into_iter().enumerate().map(frame));
        Transmitter {
            ring,
            descriptors: DESCRIPTORS,
            frames,
            slots: Some(slots),
            given: first,
            head: (index + used) % DESCRIPTORS,
            tail: index,
            used,
            ..Transmitter::default()
        }
    }

    /// The names of the frames on the ring, in order.
    pub(super) fn tokens(&self) -> Vec<u32> {
        self.frames.iter().map(|frame| frame.token).collect()
    }

    pub(super) fn progress(&self) -> Progress {
        let taken = self.given.wrapping_add(self.used as u64);
        Progress { given: self.given, taken, index: self.tail }
    }

    /// Where its slots are, if it has any.
    pub(super) fn slots(&self) -> Option<&Slots> {
        self.slots.as_ref()
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

    /// Whether the device has not got to the last of its frames: it may lack a doorbell.
    pub(super) fn is_under_way(&self, memory: &dyn DmaMemory) -> Result<bool, DriverError> {
        let Some(last) = self.frames.back() else { return Ok(false) };
        Ok(memory.load_u32(self.at(last.last))? & regs::DESC_OWN != 0)
    }

    /// Descriptors that hold nothing.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.descriptors - self.used
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
        if let Err(error) = check(frame, self.slots.is_some()) {
            // With nothing before it, the layer above gets it back at once; it counts like any other.
            self.given = self.given.wrapping_add(u64::from(self.used == 0));
            return Err(error);
        }
        let count = frame.pieces.len();
        if count > self.room() {
            return Ok(false);
        }
        if let Some(slots) = &self.slots {
            // Empty first: a successor that finds the new slot must not take the frame before for this one.
            memory.store_u32(self.at(self.head), 0)?;
            slots.set(self.head, self.given.wrapping_add(self.used as u64), frame.token)?;
        }
        let requests = frame.segments.map_or([0; 2], requests);
        let mut first_word = 0;
        for (number, &(address, bytes)) in frame.pieces.iter().enumerate() {
            let index = (self.head + number) % DESCRIPTORS;
            let mut word = bytes;
            word |= if index + 1 == DESCRIPTORS { regs::RING_END } else { 0 };
            word |= if number + 1 == count { regs::LAST_FRAG } else { 0 };
            let mut rest = [0; 12];
            word |= requests[0];
            rest[..4].copy_from_slice(&requests[1].to_le_bytes());
            rest[4..].copy_from_slice(&address.to_le_bytes());
            memory.write(self.at(index) + 4, &rest)?;
            if number == 0 {
                first_word = word | regs::FIRST_FRAG | regs::DESC_OWN;
            } else {
                memory.store_u32(self.at(index), word | regs::DESC_OWN)?;
            }
        }
        memory.store_u32(self.at(self.head), first_word)?;
        let last = (self.head + count - 1) % DESCRIPTORS;
        self.frames.push_back(Frame { last, token: frame.token });
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
            if let Some(frame) = self.frames.pop_front_if(|frame| frame.last == self.tail) {
                sent(frame.token);
                frames += 1;
            }
            self.given = self.given.wrapping_add(1);
            self.tail = (self.tail + 1) % DESCRIPTORS;
            self.used -= 1;
        }
        Ok(frames)
    }

    /// The ring goes away; every name goes back.
    pub(super) fn give_back(&mut self, sent: &mut dyn FnMut(u32)) {
        self.frames.drain(..).for_each(|frame| sent(frame.token));
        (self.tail, self.used) = (self.head, 0);
    }
}

/// What both words of each descriptor ask for (rtl8169_tso_csum_v2).
fn requests(Segments { tcp_offset, bytes }: Segments) -> [u32; 2] {
    let offset = u32::from(tcp_offset) << regs::GIANT_OFFSET_SHIFT;
    [regs::GIANT_SEND_V4 | offset, u32::from(bytes) << regs::MSS_SHIFT]
}

#[inline]
fn check(frame: TxFrame<'_>, in_one_piece: bool) -> Result<(), DriverError> {
    if in_one_piece && frame.pieces.len() != 1 {
        return Err(DriverError::Invalid(format!(
            "a frame of {} pieces cannot be sent by a driver that can be replaced: it must have one",
            frame.pieces.len()
        )));
    }
    let mut bytes = 0_usize;
    for &(_, piece) in frame.pieces {
        if piece == 0 {
            bytes = 0;
            break;
        }
        bytes = bytes.saturating_add(piece as usize);
    }
    let most = most_bytes(frame.segments, MAX_FRAME_BYTES, regs::MSS_MAX as u16)?;
    if bytes == 0 || bytes > most || frame.pieces.len() >= DESCRIPTORS {
        return Err(DriverError::Invalid(format!(
            "a frame of {} pieces and {bytes} bytes cannot be sent: pieces must not be empty, and a \
             frame has at most {most} bytes in fewer than {DESCRIPTORS} pieces",
            frame.pieces.len()
        )));
    }
    Ok(())
}

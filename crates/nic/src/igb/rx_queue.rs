//! The receive rings (82576, 7.1.4 and 7.1.5): head and tail say which descriptors are the card's, SRRCTL of which kind
//! they are.

use warikomi_pci::DmaError;

use super::queues::{self, at};
use super::regs::{self, Registers};
use crate::NicContext;
use crate::intel::ring::Ring;
use crate::queue::{Completion, RxDescriptor, RxFormat};
use crate::strict::Look;

// Status, in the lowest byte of the word that has status and errors.
const DONE: u32 = 1 << 0;
const END_OF_PACKET: u32 = 1 << 1;

// SRRCTL.
const BUFFER: u32 = 0x7f;
const BUFFER_UNIT: usize = 1_024;
const THRESHOLD_SHIFT: u32 = 20;
const THRESHOLD: u32 = 0x1f;
const THRESHOLD_UNIT: u16 = 16;
const KIND: u32 = 7 << 25;
const DROPS: u32 = 1 << 31;

const DESCRIPTOR_BYTES: u32 = 16;
/// Descriptors that the length of a ring can stand for (82576, 8.10.7).
const MOST: u32 = 1 << 15;

/// What the card says of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// Status in bits 19:0, errors in 31:20.
    pub(super) bits: u32,
    /// The tag that was taken out.
    pub(super) tag: u16,
    /// Types of the hash and of the packet; the hash, or the checksum in the upper half and the number of the IP
    /// packet.
    pub(super) words: [u32; 2],
}

/// A ring, as the card knows it.
#[derive(Debug)]
pub(super) struct RxRing {
    ring: Ring,
    /// Descriptors are of the old kind.
    legacy: bool,
    /// Bytes of a buffer.
    size: usize,
    /// Frames for which there is no descriptor are dropped here, and do not hold others up.
    pub(super) drops: bool,
    /// Descriptors that are left when the driver is to be told; 0 if it is not.
    pub(super) threshold: u16,
    /// The longest frame that can come.
    longest: usize,
}

impl RxRing {
    /// The ring of this queue, as the registers say.
    pub(super) fn new(file: &Registers, queue: u16) -> Self {
        let place = |register| queues::register(queues::RX, queue, register);
        let split = file.get(place(at::SPLIT));
        let size = match (split & BUFFER) as usize {
            0 => 2_048 >> (file.get(regs::RCTL) >> regs::RCTL_SIZE_SHIFT & 3),
            units => BUFFER_UNIT * units,
        };
        let bytes = file.get(place(at::LENGTH)) & 0x000f_ff80;
        RxRing {
            ring: Ring {
                base: file.pair(place(at::BASE)) & !0xf,
                count: (bytes / DESCRIPTOR_BYTES).min(MOST) as u16,
                tail: file.get(place(at::TAIL)) as u16,
            },
            legacy: split & KIND == 0,
            size,
            drops: split & DROPS != 0,
            threshold: (split >> THRESHOLD_SHIFT & THRESHOLD) as u16 * THRESHOLD_UNIT,
            longest: file.get(regs::RLPML) as usize,
        }
    }

    /// Whether descriptors are elsewhere, or of another kind, than in this ring.
    pub(super) fn differs(&self, other: &RxRing) -> bool {
        let (ours, theirs) = (self.ring, other.ring);
        (ours.base, ours.count, self.legacy) != (theirs.base, theirs.count, other.legacy)
    }

    /// The driver moves the tail.
    pub(super) fn set_tail(&mut self, register: u32) {
        self.ring.tail = register as u16;
    }

    /// Descriptors that are the card's while its head is here.
    pub(super) fn free(&self, head: u16) -> u16 {
        self.ring.free(head)
    }
}

fn address(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl RxFormat for RxRing {
    type Place = u16;
    type Words = ();
    type Status = Status;

    const SOURCE: &'static str = "82576 (321027), sections 7.1.4 and 7.1.5, receive descriptors";
    const DESCRIPTORS: usize = MOST as usize;
    const CHAINS: bool = true;

    #[inline]
    fn at(&self, place: u16) -> u64 {
        self.ring.at(place, DESCRIPTOR_BYTES)
    }

    #[inline]
    fn is_owned(&self, place: u16) -> bool {
        self.ring.is_owned(place)
    }

    #[inline]
    fn descriptor(
        &self,
        place: u16,
        _bytes: usize,
        [[low, high, ..], _]: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u16, ()>> {
        let (buffer, next) = (address(low, high), self.ring.following(place));
        Some(RxDescriptor { place, next, buffer, bytes: self.size, words: () })
    }

    /// The word with the length is written last: by that, or by the DONE bit in the word before it, a driver knows
    /// that the rest stands.
    #[inline]
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u16, ()>,
        completion: Completion,
        status: Status,
    ) -> Result<(), DmaError> {
        let at = self.at(found.place);
        let bits = DONE | if completion.last { END_OF_PACKET | status.bits } else { 0 };
        let Status { tag, words: [kinds, hash], .. } = status;
        let (length, tag) = (completion.bytes as u32 & 0xffff, u32::from(tag) << 16);
        if self.legacy {
            cx.dma_store_u32(at.wrapping_add(8), length | hash & 0xffff_0000)?;
            let word = bits & 0xff | bits >> 24 << 8 | tag;
            return cx.dma_give(at.wrapping_add(12), word);
        }
        let said = (u64::from(hash) << 32 | u64::from(kinds)).to_le_bytes();
        cx.dma_write(at, &said)?;
        cx.dma_store_u32(at.wrapping_add(8), bits)?;
        cx.dma_give(at.wrapping_add(12), length | tag)
    }

    /// The driver has cleared the length, as Linux does when it has taken the frame (igb_alloc_rx_buffers); or the
    /// status of a descriptor of the old kind.
    fn is_taken(&self, cx: &NicContext<'_>, place: u16) -> bool {
        let marks = if self.legacy { DONE } else { 0xffff };
        let word = cx.peek_u32(self.at(place).wrapping_add(12));
        word.is_some_and(|word| word & marks == 0)
    }

    /// No more of a buffer is looked at than a frame can fill: a driver of usual frames gives shorter ones than it
    /// says.
    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        let next = self.ring.following(place);
        let words = cx.peek_descriptor(self.at(place))?;
        let [low, high, ..] = words;
        let bytes = self.size.min(self.longest);
        Some(Look { next, buffer: address(low, high), bytes, first: true, last: true, words })
    }

    fn is_set(&self) -> bool {
        // A receiver may be switched on before it has a ring, as long as it is given no descriptor.
        self.ring.base != 0 || self.ring.tail == 0
    }

    #[inline]
    fn is_reused(earlier: u16, place: u16) -> bool {
        earlier == place
    }
}

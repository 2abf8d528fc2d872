//! The receive rings (82574, 7.1.4 to 7.1.7): head and tail say which descriptors are the card's, RCTL and RFCTL of
//! which kind they are.

use warikomi_pci::{DmaError, Pieces};

use super::regs::{self, Registers};
use crate::NicContext;
use crate::intel::admission::USUAL_BYTES;
use crate::intel::ring::Ring;
use crate::queue::{Completion, RxDescriptor, RxFormat};
use crate::strict::Look;

/// The longest frame of all with check sequence (10.2.5.1, LPE).
pub(super) const LONG_BYTES: usize = 16_384;

// Status, in the lowest byte of the word that has status and errors (7.1.4 and 7.1.5).
const DONE: u32 = 1 << 0;
const END_OF_PACKET: u32 = 1 << 1;

/// The header was split off: in the word behind a completion (7.1.6).
const SPLIT: u16 = 1 << 15;

/// What the card says of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// Status in bits 19:0, errors in 31:20, as extended descriptors have them.
    pub(super) bits: u32,
    /// The tag that was taken out.
    pub(super) tag: u16,
    /// Type of the hash and queue; the hash, or the checksum in the upper half and the number of the IP packet.
    pub(super) hash: [u32; 2],
    /// Bytes of its header, if that is split off.
    pub(super) header: Option<usize>,
}

/// Kinds of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Legacy,
    Extended,
    /// Four buffers, the first one for headers.
    Split,
}

/// A ring, as the card knows it.
#[derive(Debug)]
pub(super) struct RxRing {
    ring: Ring,
    kind: Kind,
    /// Bytes of each buffer that a descriptor names.
    sizes: [usize; 4],
    /// The longest frame that can come.
    longest: usize,
    /// Bytes of the header of the frame that is placed next, to be split off.
    pub(super) header: Option<usize>,
}

impl RxRing {
    /// The ring of this queue, as the registers say.
    pub(super) fn new(file: &Registers, queue: u16) -> Self {
        let at = |register| register + regs::QUEUE_STRIDE * queue;
        let rctl = file.get(regs::RCTL);
        let extended = file.get(regs::RFCTL) & regs::RFCTL_EXTENDED != 0;
        let split = rctl & regs::RCTL_TYPE == regs::RCTL_TYPE_SPLIT;
        let (kind, sizes) = match (split, extended) {
            (true, _) => (Kind::Split, split_sizes(file.get(regs::PSRCTL))),
            (false, true) => (Kind::Extended, [buffer_bytes(rctl), 0, 0, 0]),
            (false, false) => (Kind::Legacy, [buffer_bytes(rctl), 0, 0, 0]),
        };
        let base = file.pair(at(regs::RDBAL)) & !0xf;
        let mut ring = RxRing {
            ring: Ring { base, count: 0, tail: 0 },
            kind,
            sizes,
            longest: if rctl & regs::RCTL_LONG != 0 { LONG_BYTES } else { USUAL_BYTES },
            header: None,
        };
        let bytes = file.get(at(regs::RDLEN)) & 0x000f_ff80;
        ring.ring.count = (bytes / ring.descriptor_bytes()) as u16;
        ring.ring.tail = ring.place_of(file.get(at(regs::RDT)));
        ring
    }

    /// Whether descriptors are elsewhere, or of another kind, than in this ring.
    pub(super) fn differs(&self, other: &RxRing) -> bool {
        let (ours, theirs) = (self.ring, other.ring);
        (ours.base, ours.count, self.kind) != (theirs.base, theirs.count, other.kind)
    }

    /// Bytes that the first buffer of a descriptor has room for.
    pub(super) fn first_buffer(&self) -> usize {
        self.sizes[0]
    }

    pub(super) fn splits(&self) -> bool {
        self.kind == Kind::Split
    }

    /// The place that a head or a tail says: they count in units of 16 bytes, also where a descriptor has 32 (Linux 6.1,
    /// e1000_alloc_rx_buffers_ps).
    pub(super) fn place_of(&self, register: u32) -> u16 {
        (register & 0xffff) as u16 / self.units() as u16
    }

    /// What a head reads as.
    pub(super) fn register_of(&self, place: u16) -> u32 {
        u32::from(place) * self.units() as u32
    }

    /// The driver moves the tail.
    pub(super) fn set_tail(&mut self, register: u32) {
        self.ring.tail = self.place_of(register);
    }

    fn descriptor_bytes(&self) -> u32 {
        16 * self.units() as u32
    }

    /// Descriptors of the ring.
    pub(super) fn count(&self) -> u16 {
        self.ring.count
    }

    /// Descriptors that are the card's while its head is here.
    pub(super) fn free(&self, head: u16) -> u16 {
        self.ring.free(head)
    }

    fn following(&self, place: u16) -> u16 {
        self.ring.following(place)
    }

    /// Bytes that go to each buffer of `bytes` bytes in one descriptor, of a frame with this header.
    fn shares(&self, bytes: usize, header: Option<usize>) -> [usize; 4] {
        let mut left = bytes;
        let first = header.unwrap_or(self.sizes[0]);
        [first, self.sizes[1], self.sizes[2], self.sizes[3]].map(|size| {
            let share = size.min(left);
            left -= share;
            share
        })
    }

    /// What a descriptor with four buffers says behind its first 16 bytes.
    fn completion_of_buffers(&self, bytes: usize, header: Option<usize>) -> [u8; 8] {
        let [first, rest @ ..] = self.shares(bytes, header);
        let header = header.map_or(0, |_| SPLIT | first as u16 & 0x3ff);
        let words = [header, rest[0] as u16, rest[1] as u16, rest[2] as u16];
        let mut out = [0; 8];
        for (place, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        out
    }
}

/// Size of a buffer (10.2.5.1, BSIZE and BSEX).
fn buffer_bytes(rctl: u32) -> usize {
    let bytes = 2_048 >> (rctl >> regs::RCTL_SIZE_SHIFT & 3);
    match rctl & regs::RCTL_SIZE_EXTENSION {
        0 => bytes,
        _ => (bytes * 16).min(LONG_BYTES),
    }
}

/// Sizes of the four buffers (10.2.5.4). The one for headers must have one.
fn split_sizes(psrctl: u32) -> [usize; 4] {
    let field = |shift: u32, mask: u32| (psrctl >> shift & mask) as usize;
    [
        128 * field(0, 0x7f).max(1),
        1_024 * field(8, 0x3f),
        1_024 * field(16, 0x3f),
        1_024 * field(24, 0x3f),
    ]
}

fn address([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl RxFormat for RxRing {
    type Place = u16;
    /// Addresses of the buffers behind the first.
    type Words = [u64; 3];
    type Status = Status;

    const SOURCE: &'static str = "82574 (317694), sections 7.1.4 to 7.1.7, receive descriptors";
    const DESCRIPTORS: usize = 1 << 16;
    const CHAINS: bool = true;

    #[inline]
    fn units(&self) -> usize {
        if self.splits() { 2 } else { 1 }
    }

    #[inline]
    fn at(&self, place: u16) -> u64 {
        self.ring.at(place, self.descriptor_bytes())
    }

    #[inline]
    fn is_owned(&self, place: u16) -> bool {
        self.ring.is_owned(place)
    }

    /// Of one with four buffers, the second unit has the last two.
    #[inline]
    fn descriptor(
        &self,
        place: u16,
        _bytes: usize,
        [[a, b, c, d], [e, f, g, h]]: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u16, [u64; 3]>> {
        let words = match self.splits() {
            true => [[c, d], [e, f], [g, h]].map(address),
            false => [0; 3],
        };
        let [first, rest @ ..] = self.sizes;
        let bytes = self.header.unwrap_or(first) + rest.iter().sum::<usize>();
        let (buffer, next) = (address([a, b]), self.following(place));
        Some(RxDescriptor { place, next, buffer, bytes, words })
    }

    #[inline]
    fn write(
        &self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<u16, [u64; 3]>,
        pieces: &Pieces<'_>,
    ) -> Result<(), DmaError> {
        if !self.splits() {
            return cx.dma_write_pieces(descriptor.buffer, pieces);
        }
        let frame = pieces.concat();
        let (mut rest, [b, c, d]) = (&frame[..], descriptor.words);
        for (buffer, share) in
            [descriptor.buffer, b, c, d].into_iter().zip(self.shares(frame.len(), self.header))
        {
            let (piece, behind) = rest.split_at(share);
            rest = behind;
            if !piece.is_empty() {
                cx.dma_write(buffer, piece)?;
            }
        }
        Ok(())
    }

    /// The word with the status is written last: by its DONE bit the driver knows that the rest stands.
    #[inline]
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u16, [u64; 3]>,
        completion: Completion,
        status: Status,
    ) -> Result<(), DmaError> {
        let at = self.at(found.place);
        let bits = DONE | if completion.last { END_OF_PACKET | status.bits } else { 0 };
        let Status { tag, hash: [kind, hash], header, .. } = status;
        if self.kind == Kind::Legacy {
            let sum = hash & 0xffff_0000;
            cx.dma_store_u32(at.wrapping_add(8), completion.bytes as u32 & 0xffff | sum)?;
            let word = bits & 0xff | bits >> 24 << 8 | u32::from(tag) << 16;
            return cx.dma_give(at.wrapping_add(12), word);
        }
        let bytes = if self.splits() {
            let behind = self.completion_of_buffers(completion.bytes, header);
            cx.dma_write(at.wrapping_add(16), &behind)?;
            self.shares(completion.bytes, header)[0]
        } else {
            completion.bytes
        };
        let said = (u64::from(hash) << 32 | u64::from(kind)).to_le_bytes();
        cx.dma_write(at, &said)?;
        let length = bytes as u32 & 0xffff | u32::from(tag) << 16;
        cx.dma_store_u32(at.wrapping_add(12), length)?;
        cx.dma_give(at.wrapping_add(8), bits)
    }

    /// The driver has cleared the status, as Linux does when it has taken the frame.
    fn is_taken(&self, cx: &NicContext<'_>, place: u16) -> bool {
        let offset = if self.kind == Kind::Legacy { 12 } else { 8 };
        let word = cx.peek_u32(self.at(place).wrapping_add(offset));
        word.is_some_and(|word| word & DONE == 0)
    }

    /// No more of a buffer is looked at than a frame can fill: a driver of usual frames gives shorter ones than it
    /// says.
    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        let next = self.following(place);
        let words = cx.peek_descriptor(self.at(place))?;
        let [low, high, ..] = words;
        let bytes = self.sizes[0].min(self.longest);
        Some(Look { next, buffer: address([low, high]), bytes, first: true, last: true, words })
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

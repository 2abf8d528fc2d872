//! What a receive queue asks of a card's descriptors.

use std::fmt::Debug;

use warikomi_pci::{DmaError, Pieces};

use crate::NicContext;
use crate::strict::{Look, Misuse};

/// A descriptor that belongs to the card, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct RxDescriptor<P, W> {
    /// Place of the descriptor on its ring.
    pub place: P,
    /// The one behind it.
    pub next: P,
    /// Bus address of the buffer.
    pub buffer: u64,
    /// Bytes that have room there.
    pub bytes: usize,
    /// What else the format needs to complete it.
    pub words: W,
}

/// What a completion says of a descriptor's place within its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The frame begins in this descriptor.
    pub first: bool,
    /// Whether the frame ends in this descriptor.
    pub last: bool,
    /// Bytes of it in this descriptor's buffer.
    pub bytes: usize,
    /// Bytes of the whole frame: more than the buffers hold, if the card cuts off what is too long.
    pub frame_bytes: usize,
}

/// What a card's receive descriptors look like.
pub trait RxFormat {
    /// Tells descriptors of a queue apart: the index in a ring, the running number in a FIFO. Reception
    /// starts at its default.
    type Place: Copy + Default + PartialEq + Debug;
    /// What [`RxDescriptor::words`] holds.
    type Words: Copy + Debug;
    /// What the card says of a frame besides its length, in the descriptors that hold it.
    type Status: Copy + Debug;

    /// What says what descriptors look like: document and section, or Linux symbol.
    const SOURCE: &'static str;
    /// Descriptors that a queue has at most; frames that are with the driver are no more.
    const DESCRIPTORS: usize;
    /// Whether a frame may go into several descriptors. Otherwise what has no room is cut off.
    const CHAINS: bool;

    /// How many units of 16 bytes one is in memory: 1 or 2; 0 if the driver gives them in registers.
    #[inline]
    fn units(&self) -> usize {
        1
    }

    /// Bus address of a descriptor: of the first unit of it, and of what says that it is the driver's.
    fn at(&self, place: Self::Place) -> u64;

    /// Whether it can be the card's, by what the card knows without a look.
    #[inline]
    fn is_owned(&self, _place: Self::Place) -> bool {
        true
    }

    /// The descriptor for what is left of a frame, which is `bytes` bytes, if it belongs to the card, of these units as
    /// they were read; 0 is what it does not have. The room in a ring of bytes is a descriptor, too: as long as the
    /// frame, with the next one behind it.
    fn descriptor(
        &self,
        place: Self::Place,
        bytes: usize,
        units: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<Self::Place, Self::Words>>;

    /// Writes the pieces of a frame, one behind the other, to where a descriptor has room for them.
    #[inline]
    fn write(
        &self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<Self::Place, Self::Words>,
        pieces: &Pieces<'_>,
    ) -> Result<(), DmaError> {
        cx.dma_write_pieces(descriptor.buffer, pieces)
    }

    /// A fault: a descriptor stays the card's although its buffer is filled, and the card goes on behind it. For a
    /// format in which a driver would take it for its own otherwise.
    fn withhold(
        &self,
        _cx: &mut NicContext<'_>,
        _descriptor: &RxDescriptor<Self::Place, Self::Words>,
    ) -> Result<(), DmaError> {
        Ok(())
    }

    /// Gives a descriptor whose buffer is filled to the driver.
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<Self::Place, Self::Words>,
        completion: Completion,
        status: Self::Status,
    ) -> Result<(), DmaError>;

    /// Whether the driver has taken the frame whose last descriptor this is, by a look that costs the
    /// card nothing ([`NicContext::peek_u32`]).
    fn is_taken(&self, cx: &NicContext<'_>, place: Self::Place) -> bool;

    /// A descriptor that belongs to the card, with all that a strict card compares, by such a look; it is asked for if
    /// the descriptor [can be](Self::is_owned) the card's.
    fn look(&self, cx: &NicContext<'_>, place: Self::Place) -> Option<Look<Self::Place>>;

    /// What a driver must not have written into a descriptor that it gives to the card, besides what every
    /// card refuses. `before` are the words of the descriptor before it, if both are of one frame.
    fn misuse(_look: &Look<Self::Place>, _before: Option<[u32; 4]>) -> Option<Misuse> {
        None
    }

    /// Whether the driver has said where the ring is. A ring at bus address 0 counts as none.
    fn is_set(&self) -> bool;

    /// Whether the driver must have taken the frame at `earlier`, because the card has been given
    /// `place`.
    fn is_reused(earlier: Self::Place, place: Self::Place) -> bool;
}

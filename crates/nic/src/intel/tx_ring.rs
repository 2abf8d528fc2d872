//! Transmit rings (82574, 7.2; 82576, 7.2.2): head and tail say which descriptors are the card's.
//!
//! A legacy descriptor and a data descriptor name a piece of a frame, which ends where one says so; a context
//! descriptor names none, and says how the checksums and segments of the frames behind it are made. Each is written
//! back, with its DONE bit, if it asks for that. Chips differ in what the words of the last two kinds mean.

use std::fmt::Debug;
use std::marker::PhantomData;

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::ring::Ring;
use crate::NicContext;
use crate::queue::{Found, TxDescriptor, TxFormat, TxLimits};
use crate::strict::{Look, Misuse};

/// The most that the descriptors of a frame may name: a packet to be segmented, with its headers.
pub(crate) const MAX_CHAIN_BYTES: usize = 256 << 10;
/// Room in front of a frame for the tag that the card puts in.
pub(crate) const TAG_BYTES: usize = 4;

/// What one doorbell's write does at most.
pub(crate) const AT_ONCE: TxLimits =
    TxLimits { chains: 4_096, descriptors: 1_024, frames: 4_096, pause: Span::from_us(1) };
/// What one call does at most if transfers take their time.
pub(crate) const PACED: TxLimits =
    TxLimits { chains: 64, descriptors: usize::MAX, frames: usize::MAX, pause: Span::from_ns(1) };

const BYTES: u32 = 16;
/// The status, in the fourth word, and the bit that the card sets in it.
pub(crate) const STATUS: u32 = 0xf;
const DONE: u32 = 1 << 0;

/// The four words of a descriptor of a chip.
pub(crate) trait TxWords: Copy + Debug + Send + 'static {
    /// What says what they mean: document and section.
    const SOURCE: &'static str;

    /// These words.
    fn new(words: [u32; 4]) -> Self;

    /// The words themselves.
    fn words(self) -> [u32; 4];

    fn is_context(self) -> bool;

    /// Bytes of the piece of a frame that it names; 0 of a context.
    fn bytes(self) -> usize;

    /// What a driver must not write into it. `before` is the one before it in its frame.
    fn misuse(self, before: Option<Self>) -> Option<Misuse>;

    fn buffer(self) -> u64 {
        let [low, high, ..] = self.words();
        u64::from(high) << 32 | u64::from(low)
    }

    /// A frame ends with it; a context is by itself.
    fn is_last(self) -> bool {
        const END_OF_PACKET: u32 = 1 << 24;
        self.is_context() || self.words()[2] & END_OF_PACKET != 0
    }

    /// It wants to be written back.
    fn reports(self) -> bool {
        const REPORT: u32 = 1 << 27;
        self.words()[2] & REPORT != 0
    }

    fn is_legacy(self) -> bool {
        const EXTENDED: u32 = 1 << 29;
        self.words()[2] & EXTENDED == 0
    }
}

/// A ring, as the card knows it.
#[derive(Debug)]
pub(crate) struct TxRing<W> {
    pub(crate) ring: Ring,
    /// The driver has switched this queue on, where each has a switch of its own.
    pub(crate) enabled: bool,
    words: PhantomData<W>,
}

impl<W> Default for TxRing<W> {
    fn default() -> Self {
        TxRing { ring: Ring::default(), enabled: true, words: PhantomData }
    }
}

impl<W> TxRing<W> {
    /// A ring whose queue has a switch of its own, which is off.
    pub(crate) fn switched_off() -> Self {
        TxRing { enabled: false, ..TxRing::default() }
    }

    /// Takes over what the registers say: the address, the length in bytes, and the tail.
    pub(crate) fn take_over(&mut self, base: u64, length: u32, tail: u32) {
        let count = ((length & 0x000f_ff80) / BYTES) as u16;
        self.ring = Ring { base: base & !0xf, count, tail: tail as u16 };
    }

    fn at(&self, place: u16) -> u64 {
        self.ring.at(place, BYTES)
    }

    fn is_owned(&self, place: u16) -> bool {
        self.enabled && self.ring.tail < self.ring.count && self.ring.is_owned(place)
    }
}

impl<W: TxWords> TxFormat for TxRing<W> {
    type Place = u16;
    type Words = W;

    const SOURCE: &'static str = W::SOURCE;
    const DESCRIPTORS: usize = 4_096;
    const IN_MEMORY: bool = true;
    const WHOLE_FRAMES: bool = true;
    const MAX_BYTES: usize = MAX_CHAIN_BYTES;
    const MARKS_FIRST: bool = false;

    #[inline]
    fn load(&self, cx: &mut NicContext<'_>, place: u16) -> Found<TxDescriptor<u16, W>> {
        if !self.is_owned(place) {
            return Ok(None);
        }
        let words = W::new(cx.dma_load_descriptor(self.at(place))?);
        Ok(Some(TxDescriptor {
            place,
            next: self.ring.following(place),
            buffer: words.buffer(),
            bytes: words.bytes(),
            first: true,
            last: words.is_last(),
            since: Time::ZERO,
            words,
        }))
    }

    /// A context descriptor names itself.
    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        if !self.is_owned(place) {
            return None;
        }
        let words = cx.peek_descriptor(self.at(place))?;
        let meaning = W::new(words);
        let bytes = if meaning.is_context() { BYTES as usize } else { meaning.bytes() };
        Some(Look {
            next: self.ring.following(place),
            buffer: meaning.buffer(),
            bytes,
            first: true,
            last: meaning.is_last(),
            words,
        })
    }

    fn misuse(look: &Look<u16>, before: Option<[u32; 4]>) -> Option<Misuse> {
        W::new(look.words).misuse(before.map(W::new))
    }

    fn is_set(&self) -> bool {
        // A transmitter may be switched on before it has a ring, as long as it is given no descriptor.
        self.ring.base != 0 || self.ring.tail == 0
    }

    #[inline]
    fn give_back(
        &mut self,
        cx: &mut NicContext<'_>,
        found: &TxDescriptor<u16, W>,
        _frames: usize,
    ) -> Result<(), DmaError> {
        if !found.words.reports() {
            return Ok(());
        }
        let word = found.words.words()[3] & !STATUS | DONE;
        cx.dma_store_u32(self.at(found.place).wrapping_add(12), word)
    }
}

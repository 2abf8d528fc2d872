//! The transmit rings (82574, 7.2): head and tail say which descriptors are the card's.
//!
//! There are three kinds. A legacy descriptor and a data descriptor name a piece of a frame, which ends where one says
//! so; a context descriptor names none, and says how the checksums and segments of the frames behind it are made.
//! Each is written back, with its DONE bit, if it asks for that.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::descriptor::{DONE, STATUS, Words};
use super::offload::{self, Context};
use super::regs::{self, Registers};
use super::timers;
use crate::NicContext;
use crate::queue::{Arbitration, Engine, Found, TxDescriptor, TxEngine, TxFormat, TxLimits};
use crate::strict::{Look, Misuse};

/// The most that the descriptors of a frame may name: a packet to be segmented, with its headers (7.2.6).
pub(super) const MAX_CHAIN_BYTES: usize = 256 << 10;
/// Room in front of a frame for the tag that the card puts in.
pub(super) const TAG_BYTES: usize = 4;

/// What one doorbell's write does at most.
const AT_ONCE: TxLimits =
    TxLimits { chains: 4_096, descriptors: 1_024, frames: 4_096, pause: Span::from_us(1) };
/// What one call does at most if transfers take their time.
const PACED: TxLimits =
    TxLimits { chains: 64, descriptors: usize::MAX, frames: usize::MAX, pause: Span::from_ns(1) };

/// A ring, as the card knows it.
#[derive(Debug, Default)]
pub(super) struct TxRing {
    pub(super) base: u64,
    count: u16,
    pub(super) tail: u16,
}

impl TxRing {
    /// Takes over what the registers say of the ring of this queue.
    pub(super) fn take_over(&mut self, file: &Registers, queue: u16) {
        let at = |register| register + regs::QUEUE_STRIDE * queue;
        self.base = file.pair(at(regs::TDBAL)) & !0xf;
        self.count = ((file.get(at(regs::TDLEN)) & 0x000f_ff80) / 16) as u16;
        self.tail = file.get(at(regs::TDT)) as u16;
    }

    fn at(&self, place: u16) -> u64 {
        self.base.wrapping_add(16 * u64::from(place))
    }

    fn following(&self, place: u16) -> u16 {
        if place + 1 >= self.count { 0 } else { place + 1 }
    }

    fn is_owned(&self, place: u16) -> bool {
        place < self.count && self.tail < self.count && place != self.tail
    }
}

impl TxFormat for TxRing {
    type Place = u16;
    type Words = Words;

    const SOURCE: &'static str = "82574 (317694), section 7.2, transmit descriptors";
    const DESCRIPTORS: usize = 4_096;
    const IN_MEMORY: bool = true;
    const WHOLE_FRAMES: bool = true;
    const MAX_BYTES: usize = MAX_CHAIN_BYTES;
    const MARKS_FIRST: bool = false;

    #[inline]
    fn load(&self, cx: &mut NicContext<'_>, place: u16) -> Found<TxDescriptor<u16, Words>> {
        if !self.is_owned(place) {
            return Ok(None);
        }
        let words = Words(cx.dma_load_descriptor(self.at(place))?);
        Ok(Some(TxDescriptor {
            place,
            next: self.following(place),
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
        let meaning = Words(words);
        let bytes = if meaning.is_context() { 16 } else { meaning.bytes() };
        Some(Look {
            next: self.following(place),
            buffer: meaning.buffer(),
            bytes,
            first: true,
            last: meaning.is_last(),
            words,
        })
    }

    fn misuse(look: &Look<u16>, before: Option<[u32; 4]>) -> Option<Misuse> {
        offload::misuse(Words(look.words), before.map(Words))
    }

    fn is_set(&self) -> bool {
        // A transmitter may be switched on before it has a ring, as long as it is given no descriptor.
        self.base != 0 || self.tail == 0
    }

    #[inline]
    fn give_back(
        &mut self,
        cx: &mut NicContext<'_>,
        found: &TxDescriptor<u16, Words>,
        _frames: usize,
    ) -> Result<(), DmaError> {
        if !found.words.reports() {
            return Ok(());
        }
        let word = found.words.0[3] & !STATUS | DONE;
        cx.dma_store_u32(self.at(found.place).wrapping_add(12), word)
    }
}

#[derive(Debug)]
pub(super) struct Transmitter {
    pub(super) engine: TxEngine<TxRing>,
    /// What the last context descriptor of each queue said.
    pub(super) contexts: [Context; regs::QUEUES as usize],
    /// Room for a tag, then the frame.
    pub(super) buffer: Vec<u8>,
    pub(super) segment: Vec<u8>,
}

impl Transmitter {
    pub(super) fn new(engine: Option<Engine>) -> Self {
        let limits = if engine.is_some() { PACED } else { AT_ONCE };
        let rings = [TxRing::default(), TxRing::default()];
        Transmitter {
            engine: TxEngine::new(rings, Arbitration::RoundRobin, engine, limits, timers::TX),
            contexts: Default::default(),
            buffer: vec![0; TAG_BYTES + MAX_CHAIN_BYTES],
            segment: Vec::new(),
        }
    }
}

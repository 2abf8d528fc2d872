//! The transmit rings, and how much of them is done at once.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::{RING_LIMIT, offload, timers};
use crate::NicContext;
use crate::queue::{Arbitration, Engine, Found, TxDescriptor, TxEngine, TxFormat, TxLimits};
use crate::realtek::ring::{FIRST, LAST, OWN, RING_ALIGNMENT, descriptor, following};
use crate::realtek::sender::TAG_BYTES;
use crate::strict::{Look, Misuse};

/// Frame length in a transmit descriptor (RTL8169 Rev. 1.21, page 51).
const LENGTH: u32 = 0xffff;
/// The most that a chain of descriptors may hold: 64,000 bytes of large send and its headers.
const MAX_CHAIN_BYTES: usize = 65_536;

/// What one doorbell's write does at most.
const AT_ONCE: TxLimits = TxLimits {
    chains: usize::MAX,
    descriptors: RING_LIMIT as usize,
    frames: 4_096,
    pause: Span::from_us(1),
};
/// What one call does at most if transfers take their time.
const PACED: TxLimits =
    TxLimits { chains: 64, descriptors: usize::MAX, frames: usize::MAX, pause: Span::from_ns(1) };

// The two rings, the first one first.
pub(super) const HIGH: u16 = 0;
pub(super) const NORMAL: u16 = 1;

/// A ring, as the chip knows it.
#[derive(Debug, Default)]
pub(super) struct TxRing {
    base: u64,
}

impl TxFormat for TxRing {
    type Place = u16;
    /// The first two words.
    type Words = [u32; 2];

    const SOURCE: &'static str = "RTL8169 Rev. 1.21, section 9.1, pages 50 to 54";
    const DESCRIPTORS: usize = RING_LIMIT as usize;
    const IN_MEMORY: bool = true;
    const WHOLE_FRAMES: bool = true;
    const MAX_BYTES: usize = MAX_CHAIN_BYTES;

    #[inline]
    fn load(&self, cx: &mut NicContext<'_>, place: u16) -> Found<TxDescriptor<u16, [u32; 2]>> {
        let [opts1, opts2, low, high] = cx.dma_load_descriptor(descriptor(self.base, place))?;
        Ok((opts1 & OWN != 0).then(|| TxDescriptor {
            place,
            next: following(place, opts1, RING_LIMIT),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (opts1 & LENGTH) as usize,
            first: opts1 & FIRST != 0,
            last: opts1 & LAST != 0,
            since: Time::ZERO,
            words: [opts1, opts2],
        }))
    }

    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        let words = cx.peek_descriptor(descriptor(self.base, place))?;
        let [opts1, _, low, high] = words;
        (opts1 & OWN != 0).then(|| Look {
            next: following(place, opts1, RING_LIMIT),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (opts1 & LENGTH) as usize,
            first: opts1 & FIRST != 0,
            last: opts1 & LAST != 0,
            words,
        })
    }

    fn misuse(look: &Look<u16>, before: Option<[u32; 4]>) -> Option<Misuse> {
        let requests = |[opts1, opts2, ..]: [u32; 4]| [opts1, opts2];
        offload::misuse(requests(look.words), before.filter(|_| !look.first).map(requests))
    }

    fn is_set(&self) -> bool {
        self.base != 0
    }

    #[inline]
    fn give_back(
        &mut self,
        cx: &mut NicContext<'_>,
        found: &TxDescriptor<u16, [u32; 2]>,
        _frames: usize,
    ) -> Result<(), DmaError> {
        cx.dma_store_u32(descriptor(self.base, found.place), found.words[0] & !OWN)
    }
}

#[derive(Debug)]
pub(super) struct Transmitter {
    pub(super) engine: TxEngine<TxRing>,
    /// Room for a tag, then the frame.
    pub(super) buffer: Vec<u8>,
    pub(super) segment: Vec<u8>,
}

impl Transmitter {
    pub(super) fn new(engine: Option<Engine>) -> Self {
        let limits = if engine.is_some() { PACED } else { AT_ONCE };
        let rings = [TxRing::default(), TxRing::default()];
        Transmitter {
            engine: TxEngine::new(rings, Arbitration::Strict, engine, limits, timers::TX),
            buffer: vec![0; TAG_BYTES + MAX_CHAIN_BYTES],
            segment: Vec::new(),
        }
    }

    pub(super) fn set_ring(&mut self, queue: u16, base: u64) {
        self.engine.restart_queue(queue);
        self.engine.queue_mut(queue).format.base = base & !(RING_ALIGNMENT - 1);
    }
}

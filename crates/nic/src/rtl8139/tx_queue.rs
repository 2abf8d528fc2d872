//! The transmit rings of the C+ mode, and the transmitter of both modes.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::slots::{self, SLOTS, Slots};
use super::{RING_LIMIT, offload, timers};
use crate::NicContext;
use crate::queue::{Arbitration, Engine, Found, TxDescriptor, TxEngine, TxFormat, TxLimits};
use crate::realtek::ring::{FIRST, LAST, OWN, RING_ALIGNMENT, descriptor, following};
use crate::realtek::sender::TAG_BYTES;
use crate::strict::{Look, Misuse};

/// Length of a piece in a descriptor (8139cp.c, cp_tx).
const LENGTH: u32 = 0xffff;
/// The most that a chain of descriptors may hold: the longest IP packet, and its Ethernet header.
const MAX_CHAIN_BYTES: usize = 65_536 + 14;

// Error marks of a descriptor that is given back (8139cp.c, TxError and TxLinkFail).
const ERROR: u32 = 1 << 23;
const LINK_FAILED: u32 = 1 << 21;
/// Where the driver had its requests, and the chip says what became of the frame.
const STATUS: u32 = 0x0fff_0000;

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

    const SOURCE: &'static str = "Linux 6.1 8139cp.c, struct cp_desc and cp_start_xmit";
    const DESCRIPTORS: usize = RING_LIMIT as usize;
    const IN_MEMORY: bool = true;
    const WHOLE_FRAMES: bool = true;
    const MAX_BYTES: usize = MAX_CHAIN_BYTES;

    #[inline]
    fn load(&self, cx: &mut NicContext<'_>, place: u16) -> Found<TxDescriptor<u16, [u32; 2]>> {
        // The high ring is at 0 if the driver has none (8139cp.c, cp_start_hw).
        if !self.is_set() {
            return Ok(None);
        }
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
        let words = cx.peek_descriptor(descriptor(self.base, place)).filter(|_| self.is_set())?;
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
        frames: usize,
    ) -> Result<(), DmaError> {
        let outcome = if frames > 0 { 0 } else { ERROR | LINK_FAILED };
        let word = found.words[0] & !(OWN | STATUS) | outcome;
        cx.dma_store_u32(descriptor(self.base, found.place), word)
    }
}

/// The transmitter: of the two engines one is switched on at most.
#[derive(Debug)]
pub(super) struct Transmitter {
    /// Of the C mode.
    pub(super) slots: TxEngine<Slots>,
    /// Of the C+ mode.
    pub(super) rings: TxEngine<TxRing>,
    /// Room for a tag, then the frame.
    pub(super) buffer: Vec<u8>,
    pub(super) segment: Vec<u8>,
}

impl Transmitter {
    /// One whose engines these are, if transfers take time.
    pub(super) fn new(engines: [Option<Engine>; 2]) -> Self {
        let limits = if engines[0].is_some() { PACED } else { AT_ONCE };
        let [slots, rings] = engines;
        let (one, both) = ([Slots::new()], [TxRing::default(), TxRing::default()]);
        Transmitter {
            slots: TxEngine::new(one, Arbitration::Strict, slots, limits, timers::TX_SLOTS),
            rings: TxEngine::new(both, Arbitration::Strict, rings, limits, timers::TX_RINGS),
            buffer: vec![0; TAG_BYTES + MAX_CHAIN_BYTES.max(slots::MAX_BYTES)],
            segment: Vec::new(),
        }
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots.queue(0).format
    }

    pub(super) fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots.queue_mut(0).format
    }

    /// Which slot a register of a row of four is for.
    pub(super) fn slot_of(first: u16, row: u16) -> usize {
        usize::from(row - first) / 4 % SLOTS
    }

    pub(super) fn set_ring(&mut self, queue: u16, base: u64) {
        self.rings.restart_queue(queue);
        self.rings.queue_mut(queue).format.base = base & !(RING_ALIGNMENT - 1);
    }

    pub(super) fn reset(&mut self) {
        self.slots.reset();
        self.slots_mut().reset();
        self.rings.reset();
    }

    /// A DMA transfer has failed.
    pub(super) fn halt(&mut self) {
        self.slots.halt();
        self.rings.halt();
    }
}

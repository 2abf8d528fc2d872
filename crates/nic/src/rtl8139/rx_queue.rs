//! The receive ring of the C+ mode, and the receiver with what the driver has set for it in either mode.

use warikomi_pci::DmaError;

use super::byte_ring::ByteRing;
use super::{RING_LIMIT, timers};
use crate::queue::{Completion, RxDescriptor, RxFormat, RxQueue};
use crate::realtek::filter::Filter;
use crate::realtek::ring::{FIRST, LAST, OWN, RING_ALIGNMENT, RING_END, descriptor, following};
use crate::strict::{FindingKind, Look, Misuse};
use crate::{NicContext, RxCounters};

/// Size of a buffer, and length of a frame (8139cp.c, cp_rx_poll).
pub(super) const LENGTH: u32 = 0x1fff;

/// The ring, as the chip knows it.
#[derive(Debug)]
pub(super) struct RxRing {
    base: u64,
}

impl RxFormat for RxRing {
    type Place = u16;
    /// The first two words, as they were read.
    type Words = [u32; 2];
    /// What goes there, but for the length and the marks.
    type Status = [u32; 2];

    const SOURCE: &'static str = "Linux 6.1 8139cp.c, struct cp_desc and cp_rx_poll";
    const DESCRIPTORS: usize = RING_LIMIT as usize;
    const CHAINS: bool = true;

    #[inline]
    fn at(&self, place: u16) -> u64 {
        descriptor(self.base, place)
    }

    #[inline]
    fn descriptor(
        &self,
        place: u16,
        _bytes: usize,
        [[opts1, opts2, low, high], _]: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u16, [u32; 2]>> {
        (opts1 & OWN != 0).then(|| RxDescriptor {
            place,
            next: following(place, opts1, RING_LIMIT),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (opts1 & LENGTH) as usize,
            words: [opts1, opts2],
        })
    }

    /// The second word is written only where it changes, because the driver clears it. The length of the frame is
    /// told with its last descriptor.
    #[inline]
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u16, [u32; 2]>,
        completion: Completion,
        [status, opts2]: [u32; 2],
    ) -> Result<(), DmaError> {
        let at = self.at(found.place);
        if found.words[1] != opts2 {
            cx.dma_write(at.wrapping_add(4), &opts2.to_le_bytes())?;
        }
        let first = if completion.first { FIRST } else { 0 };
        let (last, bytes) = match completion.last {
            true => (LAST, completion.frame_bytes),
            false => (0, completion.bytes),
        };
        let opts1 = found.words[0] & RING_END | first | last | status | bytes as u32 & LENGTH;
        cx.dma_give(at, opts1)
    }

    /// The driver has given the descriptor back, or has cleared it because it has no buffer for it yet.
    fn is_taken(&self, cx: &NicContext<'_>, place: u16) -> bool {
        let word = cx.peek_u32(self.at(place));
        word.is_some_and(|word| word & OWN != 0 || word & !RING_END == 0)
    }

    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        let words = cx.peek_descriptor(self.at(place))?;
        let [opts1, _, low, high] = words;
        (opts1 & OWN != 0).then(|| Look {
            next: following(place, opts1, RING_LIMIT),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (opts1 & LENGTH) as usize,
            first: true,
            last: true,
            words,
        })
    }

    fn misuse(look: &Look<u16>, _before: Option<[u32; 4]>) -> Option<Misuse> {
        let reserved = look.words[0] & !(OWN | RING_END | LENGTH) != 0;
        let (kind, source) = (FindingKind::ReservedBits, Self::SOURCE);
        let what = "has bits of the first word set that are the card's";
        reserved.then_some(Misuse { kind, what, source })
    }

    fn is_set(&self) -> bool {
        self.base != 0
    }

    #[inline]
    fn is_reused(earlier: u16, place: u16) -> bool {
        earlier == place
    }
}

/// The receiver: of the two queues one is switched on at most.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) filter: Filter,
    /// Of the C mode.
    pub(super) bytes: RxQueue<ByteRing>,
    /// Of the C+ mode.
    pub(super) ring: RxQueue<RxRing>,
    pub(super) link: bool,
    pub(super) strip_tag: bool,
    pub(super) check: bool,
    /// The longest frame with check sequence.
    pub(super) max_bytes: usize,
}

impl Receiver {
    /// One for frames of up to `max_bytes` bytes with check sequence.
    pub(super) fn new(max_bytes: usize) -> Self {
        Receiver {
            filter: Filter::new(),
            bytes: RxQueue::new(ByteRing::new(), timers::LATE_BYTES),
            ring: RxQueue::new(RxRing { base: 0 }, timers::LATE_DESCRIPTORS),
            link: true,
            strip_tag: false,
            check: false,
            max_bytes,
        }
    }

    /// The driver switches the receiver on or off, in C+ mode or not. Whether that makes an empty ring of bytes.
    pub(super) fn enable(&mut self, cx: &NicContext<'_>, on: bool, cplus: bool) -> bool {
        let begins = on && !cplus && !self.bytes.is_enabled();
        self.bytes.enable(cx, on && !cplus);
        self.ring.enable(cx, on && cplus);
        if begins {
            self.bytes.restart(cx);
            self.bytes.format.restart();
        }
        begins
    }

    pub(super) fn reset(&mut self, cx: &NicContext<'_>) {
        self.bytes.reset(cx);
        self.bytes.format.restart();
        self.ring.reset(cx);
    }

    /// A DMA transfer has failed.
    pub(super) fn halt(&mut self) {
        self.bytes.halt();
        self.ring.halt();
    }

    /// RBSTART and RxConfig, as they are now: reception begins anew if that is another ring, or the same one is
    /// named `again`; whether it does.
    pub(super) fn set_bytes(
        &mut self,
        cx: &NicContext<'_>,
        base: u32,
        config: u32,
        again: bool,
    ) -> bool {
        let begins = again || !self.bytes.format.is_at(base, config);
        if begins {
            self.bytes.restart(cx);
            self.bytes.format.set(base, config);
        }
        self.bytes.format.set_wrapping(config);
        begins
    }

    /// The driver names a descriptor ring; reception starts at its first descriptor.
    pub(super) fn set_ring(&mut self, cx: &NicContext<'_>, base: u64) {
        self.ring.restart(cx);
        self.ring.format.base = base & !(RING_ALIGNMENT - 1);
    }

    /// Whether the C+ mode is the one in which frames are received.
    #[inline]
    pub(super) fn is_cplus(&self) -> bool {
        self.ring.is_enabled()
    }

    /// Whether frames are placed.
    #[inline]
    pub(super) fn is_placing(&self) -> bool {
        (self.bytes.is_open() || self.ring.is_open()) && self.link
    }

    pub(super) fn is_halted(&self) -> bool {
        self.bytes.is_halted()
    }

    /// Whether frames that pass the filter are taken.
    pub(super) fn is_open(&self) -> bool {
        self.is_placing() && self.filter.accept & 0x0f != 0
    }

    /// How far the frames of both queues have come, looking at no more than `limit` of each.
    pub(super) fn progress(&mut self, cx: &NicContext<'_>, limit: usize) -> RxCounters {
        self.bytes.progress(cx, limit) + self.ring.progress(cx, limit)
    }

    pub(super) fn keep_counters(&mut self, before: &Receiver) {
        self.bytes.keep_counters(&before.bytes);
        self.ring.keep_counters(&before.ring);
    }
}

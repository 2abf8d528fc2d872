//! The receive ring, and what the driver has set for it.

use warikomi_pci::DmaError;

use super::{RING_LIMIT, regs, timers};
use crate::checksum::LastSaid;
use crate::queue::{Completion, RxDescriptor, RxFormat, RxQueue};
use crate::realtek::filter::Filter;
use crate::realtek::ring::{FIRST, LAST, OWN, RING_ALIGNMENT, RING_END, descriptor, following};
use crate::strict::{FindingKind, Look, Misuse};
use crate::{FCS_BYTES, NicContext};

/// Size of a buffer, and length of a frame (RTL8169 Rev. 1.21, pages 55 to 57).
pub(super) const LENGTH: u32 = 0x3fff;

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

    const SOURCE: &'static str = "RTL8169 Rev. 1.21, section 9.1, pages 50 and 55 to 57";
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

    /// The second word is written only where it changes, because every transfer costs and the driver
    /// clears it. The length of the frame is told with its last descriptor.
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

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) filter: Filter,
    pub(super) queue: RxQueue<RxRing>,
    pub(super) link: bool,
    pub(super) strip_tag: bool,
    pub(super) check: bool,
    /// What the status said of the last frame's checksums.
    pub(super) said: LastSaid<u32>,
    /// The longest frame with check sequence that the driver lets in, and that any driver can.
    pub(super) max_bytes: usize,
    longest_bytes: usize,
}

impl Receiver {
    /// One for frames of up to so many bytes without check sequence.
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        let longest_bytes = max_frame_bytes.saturating_add(FCS_BYTES).min(LENGTH as usize);
        Receiver {
            filter: Filter::new(),
            queue: RxQueue::new(RxRing { base: 0 }, timers::LATE),
            link: true,
            strip_tag: false,
            check: false,
            said: LastSaid::default(),
            max_bytes: longest_bytes,
            longest_bytes,
        }
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link = up;
    }

    /// The driver names a ring; reception starts at its first descriptor.
    pub(super) fn set_ring(&mut self, cx: &NicContext<'_>, base: u64) {
        self.queue.restart(cx);
        self.queue.format.base = base & !(RING_ALIGNMENT - 1);
    }

    /// RxMaxSize, as the driver writes it: only 14 bits can take effect, and a driver that writes
    /// one more than they can hold, or 0, wants no limit.
    pub(super) fn set_max_size(&mut self, value: u16) {
        let limit = usize::from(value).min(self.longest_bytes);
        self.max_bytes = if limit == 0 { self.longest_bytes } else { limit };
    }

    pub(super) fn set_offload(&mut self, cplus: u16) {
        self.strip_tag = cplus & regs::CPLUS_RX_VLAN != 0;
        self.check = cplus & regs::CPLUS_RX_CHECKSUM != 0;
    }

    /// Whether frames that pass the filter are taken.
    pub(super) fn is_open(&self) -> bool {
        self.queue.is_open() && self.link && self.filter.accept & 0x0f != 0
    }
}

//! Queues of a card that is as small as can be: rings of descriptors of two words.

mod burst;
mod moderation;
mod receive;
mod steering;
mod strict;
mod transmit;

use std::sync::{Arc, Mutex};

use warikomi_clock::{Span, Time};
use warikomi_pci::{
    ConfigSpace, DmaError, DmaMemory, Identity, Interrupt, IntrLine, Pieces, SharedMemory,
};

use super::{Completion, Found, RxDescriptor, RxFormat, TxDescriptor, TxFormat};
use crate::NicContext;
use crate::context::Lent;
use crate::strict::Look;
use warikomi_wire::{Wire, WireCounters};

/// The first word of a descriptor: whose it is, its place within a frame, a length. The second is the
/// buffer's address.
const OWN: u32 = 1 << 31;
const FIRST: u32 = 1 << 30;
const LAST: u32 = 1 << 29;
const LENGTH: u32 = 0xffff;

/// Descriptors of a ring.
const RING: u16 = 4;
const BUFFERS: u32 = 0x1000;
const MEMORY: usize = 0x10_000;

/// Frames, and when they were sent.
type Sent = Vec<(Time, Vec<u8>)>;

struct Tap(Arc<Mutex<Sent>>);

impl Wire for Tap {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.0.lock().unwrap().push((now, frame.to_vec()));
    }
    fn next_arrival(&self) -> Time {
        Time::NEVER
    }
    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        None
    }
    fn counters(&self) -> WireCounters {
        WireCounters::default()
    }
}

struct Ignored;

impl IntrLine for Ignored {
    fn signal(&mut self, _interrupt: Interrupt) {}
}

/// What a function lends to its model.
struct Bench {
    now: Time,
    memory: SharedMemory,
    lent: Lent,
    sent: Arc<Mutex<Sent>>,
}

impl Bench {
    fn new() -> Bench {
        let (vendor, device) = (0x1234, 1);
        let config = ConfigSpace::builder(Identity {
            vendor,
            device,
            revision: 0,
            class: 0x02_0000,
            subsystem_vendor: vendor,
            subsystem: device,
        })
        .build();
        let sent = Arc::default();
        let mut lent = Lent::new(&config, Box::new(Tap(Arc::clone(&sent))));
        lent.command.bus_master = true;
        Bench {
            now: Time::ZERO + Span::from_ms(1),
            memory: SharedMemory::anonymous(0, MEMORY).unwrap(),
            lent,
            sent,
        }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut NicContext<'_>) -> T) -> T {
        let (now, memory, lent) = (self.now, &self.memory as &dyn DmaMemory, &mut self.lent);
        call(&mut NicContext { now, looks: &None, memory: &memory, line: &mut Ignored, lent })
    }

    /// When the next timer comes.
    fn next_due(&self) -> Time {
        self.lent.timers.next_due()
    }

    /// Goes there; the timer's tag.
    fn next_timer(&mut self) -> Option<u32> {
        self.now = self.now.max(self.next_due());
        self.lent.timers.pop_due(self.now)
    }

    fn sent(&self) -> Sent {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    fn sent_frames(&self) -> Vec<Vec<u8>> {
        self.sent().into_iter().map(|(_, frame)| frame).collect()
    }

    fn word(&self, at: u32) -> u32 {
        self.memory.load_u32(at.into()).unwrap()
    }

    fn put(&self, at: u32, words: &[u32]) {
        for (word, at) in words.iter().zip((at..).step_by(4)) {
            self.memory.store_u32(at.into(), *word).unwrap();
        }
    }

    fn bytes(&self, at: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(at.into(), &mut bytes).unwrap();
        bytes
    }
}

/// A ring at an address. `MANY` says whether a frame may take several descriptors.
#[derive(Debug)]
struct Ring<const MANY: bool> {
    base: u32,
}

impl<const MANY: bool> Ring<MANY> {
    fn at(&self, place: u16) -> u64 {
        u64::from(self.base) + 16 * u64::from(place)
    }

    fn read(&self, cx: &mut NicContext<'_>, place: u16) -> Result<Option<[u32; 2]>, DmaError> {
        let opts = cx.dma_load_u32(self.at(place))?;
        if opts & OWN == 0 {
            return Ok(None);
        }
        Ok(Some([opts, cx.dma_load_u32(self.at(place) + 4)?]))
    }
}

impl<const MANY: bool> Ring<MANY> {
    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        let [opts, buffer] = [0, 4].map(|word| cx.peek_u32(self.at(place) + word).unwrap_or(0));
        (opts & OWN != 0).then(|| Look {
            next: next(place),
            buffer: buffer.into(),
            bytes: (opts & LENGTH) as usize,
            first: opts & FIRST != 0,
            last: opts & LAST != 0,
            words: [opts, buffer, 0, 0],
        })
    }
}

fn next(place: u16) -> u16 {
    (place + 1) % RING
}

impl<const MANY: bool> RxFormat for Ring<MANY> {
    type Place = u16;
    type Words = ();
    type Status = u32;

    const SOURCE: &'static str = "these tests";
    const DESCRIPTORS: usize = RING as usize;
    const CHAINS: bool = MANY;

    fn at(&self, place: u16) -> u64 {
        Ring::at(self, place)
    }

    fn descriptor(
        &self,
        place: u16,
        _bytes: usize,
        [[opts, buffer, ..], _]: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u16, ()>> {
        (opts & OWN != 0).then(|| RxDescriptor {
            place,
            next: next(place),
            buffer: buffer.into(),
            bytes: (opts & LENGTH) as usize,
            words: (),
        })
    }

    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u16, ()>,
        Completion { first, last, bytes, frame_bytes }: Completion,
        status: u32,
    ) -> Result<(), DmaError> {
        let marks = if first { FIRST } else { 0 } | if last { LAST } else { 0 };
        let cut_off = if !MANY && bytes < frame_bytes { 1 << 16 } else { 0 };
        cx.dma_give(self.at(found.place), marks | cut_off | status | bytes as u32)
    }

    fn is_taken(&self, cx: &NicContext<'_>, place: u16) -> bool {
        cx.peek_u32(self.at(place)).is_some_and(|opts| opts & OWN != 0)
    }

    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        Ring::look(self, cx, place).map(|look| Look { first: true, last: true, ..look })
    }

    fn is_set(&self) -> bool {
        true
    }

    fn is_reused(earlier: u16, place: u16) -> bool {
        earlier == place
    }
}

impl<const MANY: bool> TxFormat for Ring<MANY> {
    type Place = u16;
    type Words = ();

    const SOURCE: &'static str = "these tests";
    const DESCRIPTORS: usize = RING as usize;
    const IN_MEMORY: bool = true;
    const WHOLE_FRAMES: bool = MANY;
    const MAX_BYTES: usize = 1_000;

    fn load(&self, cx: &mut NicContext<'_>, place: u16) -> Found<TxDescriptor<u16, ()>> {
        Ok(self.read(cx, place)?.map(|[opts, buffer]| TxDescriptor {
            place,
            next: next(place),
            buffer: buffer.into(),
            bytes: (opts & LENGTH) as usize,
            first: opts & FIRST != 0,
            last: opts & LAST != 0,
            since: Time::ZERO,
            words: (),
        }))
    }

    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        Ring::look(self, cx, place)
    }

    fn is_set(&self) -> bool {
        true
    }

    fn give_back(
        &mut self,
        cx: &mut NicContext<'_>,
        found: &TxDescriptor<u16, ()>,
        _frames: usize,
    ) -> Result<(), DmaError> {
        cx.dma_store_u32(self.at(found.place), 0)
    }
}

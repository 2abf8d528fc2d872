//! A transmit queue: what is at its head is read, and given back to the driver.

use std::fmt::Debug;

use warikomi_clock::Time;
use warikomi_pci::DmaError;

use super::bell::Bell;
use super::{Engine, Found};
use crate::NicContext;
use crate::strict::{Look, Misuse, Place, Queue, Watch};

/// A descriptor that belongs to the card, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct TxDescriptor<P, W> {
    /// Place of the descriptor on its ring.
    pub place: P,
    /// The one behind it.
    pub next: P,
    /// Where its piece of a frame is.
    pub buffer: u64,
    /// Length of that piece in bytes.
    pub bytes: usize,
    /// A frame begins with it.
    pub first: bool,
    /// A frame ends with it.
    pub last: bool,
    /// Since when the card has had it, as far as it knows: [`Time::ZERO`] for a ring in memory.
    pub since: Time,
    /// What else the format, or whoever sends the frame, needs of it.
    pub words: W,
}

/// What a card's transmit descriptors look like.
pub trait TxFormat {
    /// Tells descriptors of a queue apart: the index in a ring, the running number in a FIFO. A queue
    /// starts at its default.
    type Place: Copy + Default + PartialEq + Debug;
    /// What [`TxDescriptor::words`] holds.
    type Words: Copy + Debug;

    /// What says what descriptors look like: document and section, or Linux symbol.
    const SOURCE: &'static str;
    /// Descriptors that a queue has at most.
    const DESCRIPTORS: usize;
    /// Whether descriptors are in the target's memory, from where the engine fetches them; otherwise
    /// they are on the card.
    const IN_MEMORY: bool;
    /// Whether the engine waits for all descriptors of a frame, and gives them back together;
    /// otherwise it takes them one by one, and the model puts the frame together.
    const WHOLE_FRAMES: bool;
    /// Bytes that the descriptors of a frame may name together.
    const MAX_BYTES: usize;
    /// Whether a mark says that a frame begins with a descriptor. Otherwise each begins behind the last of another,
    /// and what [`TxDescriptor::first`] and [`Look::first`] say is not asked.
    const MARKS_FIRST: bool = true;

    /// Reads a descriptor; `None` if it does not belong to the card.
    fn load(
        &self,
        cx: &mut NicContext<'_>,
        place: Self::Place,
    ) -> Found<TxDescriptor<Self::Place, Self::Words>>;

    /// A descriptor that belongs to the card, with all that a strict card compares, by a look that costs the
    /// card nothing ([`NicContext::peek_descriptor`]).
    fn look(&self, cx: &NicContext<'_>, place: Self::Place) -> Option<Look<Self::Place>>;

    /// What a driver must not have written into a descriptor that it gives to the card, besides what every
    /// card refuses. `before` are the words of the descriptor before it, if both are of one frame.
    fn misuse(_look: &Look<Self::Place>, _before: Option<[u32; 4]>) -> Option<Misuse> {
        None
    }

    /// Whether the driver has said where the ring is. A ring at bus address 0 counts as none.
    fn is_set(&self) -> bool;

    /// Gives a descriptor back to the driver; `frames` says how many frames have gone out of it and those that
    /// were handed to the model together with it. Of a FIFO on the card it is gone as it is.
    fn give_back(
        &mut self,
        _cx: &mut NicContext<'_>,
        _descriptor: &TxDescriptor<Self::Place, Self::Words>,
        _frames: usize,
    ) -> Result<(), DmaError> {
        Ok(())
    }
}

/// A transmit queue of a card.
#[derive(Debug)]
pub struct TxQueue<F: TxFormat> {
    /// Where the descriptors are, and what they look like.
    pub format: F,
    head: F::Place,
    /// There may be something on it.
    pub(super) pending: bool,
    /// What the engine has found at its head, and whether it makes a frame.
    pub(super) chain: Vec<TxDescriptor<F::Place, F::Words>>,
    pub(super) usable: bool,
    /// Descriptors of this queue that were carried out and given back.
    pub(super) done: u64,
    pub(super) watch: Watch<F::Place>,
    pub(super) bell: Bell,
}

impl<F: TxFormat> TxQueue<F> {
    pub(super) fn new(format: F) -> Self {
        let (head, chain) = (F::Place::default(), Vec::new());
        let (watch, bell) = (Watch::default(), Bell::default());
        TxQueue { format, head, pending: false, chain, usable: false, done: 0, watch, bell }
    }

    /// The descriptor that the engine looks at next.
    #[inline]
    pub fn head(&self) -> F::Place {
        self.head
    }

    pub(super) fn restart_at(&mut self, place: F::Place) {
        (self.head, self.pending) = (place, false);
        (self.watch, self.bell) = (Watch::default(), Bell::default());
    }

    /// Notes what the driver has done to descriptors that are the card's.
    pub(super) fn inspect(&mut self, cx: &mut NicContext<'_>, place: Place, active: bool) {
        let mut watch = std::mem::take(&mut self.watch);
        let queue = Queue {
            place,
            head: self.head,
            completed: self.done,
            most: F::DESCRIPTORS,
            source: F::SOURCE,
            look: &|cx, place| self.format.look(cx, place),
            misuse: F::misuse,
            elsewhere: None,
            marks_first: F::MARKS_FIRST,
            active: active && self.pending,
        };
        watch.inspect(cx, &queue);
        self.watch = watch;
    }

    /// Reads what is at the head. Whether there is something: descriptors up to the last of a frame, or
    /// some that make no frame (no first one, no last one, no bytes, or too many).
    #[inline]
    pub(super) fn look(&mut self, cx: &mut NicContext<'_>) -> Result<bool, DmaError> {
        self.chain.clear();
        let (mut place, mut bytes) = (self.head, 0);
        loop {
            let Some(descriptor) = self.format.load(cx, place)? else { return Ok(false) };
            self.chain.push(descriptor);
            (place, bytes) = (descriptor.next, bytes + descriptor.bytes);
            if !F::WHOLE_FRAMES {
                self.usable = true;
                return Ok(true);
            }
            let headless = F::MARKS_FIRST && self.chain.len() == 1 && !descriptor.first;
            // An end mark of the ring that has moved behind the head leads round without passing it.
            let endless = place == self.head || self.chain.len() >= F::DESCRIPTORS;
            if headless || descriptor.last || endless {
                let fits = (1..=F::MAX_BYTES).contains(&bytes);
                self.usable = !headless && descriptor.last && fits;
                return Ok(true);
            }
        }
    }

    /// Gives the descriptors at the head back, in order, of which `frames` frames have gone out.
    #[inline]
    pub(super) fn give_back(
        &mut self,
        cx: &mut NicContext<'_>,
        frames: usize,
    ) -> Result<(), DmaError> {
        for descriptor in &self.chain {
            self.format.give_back(cx, descriptor, frames)?;
            self.head = descriptor.next;
        }
        self.done += self.chain.len() as u64;
        cx.descriptors_sent(self.chain.len());
        Ok(())
    }
}

/// Descriptors whose transfers are completed: those of a frame, or a single one
/// ([`TxFormat::WHOLE_FRAMES`]).
#[derive(Debug)]
pub struct Outgoing<'a, F: TxFormat> {
    /// The queue of these descriptors.
    pub queue: u16,
    /// When their transfers were completed.
    pub at: Time,
    /// Themselves, at least one.
    pub chain: &'a [TxDescriptor<F::Place, F::Words>],
    /// Whether they make a frame; true of a single one.
    pub usable: bool,
    pub(super) engine: Option<&'a mut Engine>,
    pub(super) held: &'a mut usize,
}

impl<F: TxFormat> Outgoing<'_, F> {
    /// Moves their bytes into a buffer with room for [`TxFormat::MAX_BYTES`]; how many there were. What
    /// has no room stays where it is.
    #[inline]
    pub fn collect(&self, cx: &mut NicContext<'_>, into: &mut [u8]) -> Result<usize, DmaError> {
        let mut end = 0;
        for descriptor in self.chain.iter().filter(|descriptor| descriptor.bytes > 0) {
            let Some(place) = into.get_mut(end..end + descriptor.bytes) else { break };
            cx.dma_read(descriptor.buffer, place)?;
            end += descriptor.bytes;
        }
        Ok(end)
    }

    /// A frame of so many bytes is complete on the card, and leaves it.
    #[inline]
    pub fn complete(&mut self, bytes: usize) {
        if let Some(engine) = &mut self.engine {
            engine.complete(self.at, bytes);
        }
    }

    /// Sends a frame.
    #[inline]
    pub fn send(&mut self, cx: &mut NicContext<'_>, frame: &[u8]) {
        self.complete(frame.len());
        cx.frame_tx_at(self.at, frame);
    }

    /// So many bytes of a frame that is not complete are on the card: they take up its memory while
    /// the next transfer is under way.
    pub fn hold(&mut self, bytes: usize) {
        *self.held = bytes;
    }
}

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use warikomi_clock::read_tsc;
use warikomi_driver::state::{Held, Shown, StateError};
use warikomi_driver::{Buffer, Forgotten, Received, RxSink, Transmit, Upper};
use warikomi_shared::{Corrupt, SharedWords, Wakeup, Words};

use crate::channel::{ProviderEnd, Refusals};
use crate::entry::{Slice, flags};
use crate::memory::PacketMemory;
use crate::wait::{Event, Watch};

const WORDS_PER_PAGE: usize = 512;

/// What is above a driver with a channel: buffers go from the channel straight to the NIC's ring, and
/// filled ones straight up.
pub struct ChannelUpper<W = SharedWords, K = Event> {
    memory: PacketMemory,
    end: ProviderEnd<W, K>,
    watch: Watch,
    /// The event and the neighbour's end.
    wakeup: OwnedFd,
    /// The neighbour wrote nonsense; from then on there is nothing above.
    corrupt: Option<Corrupt>,
    /// Buffers that the driver gave back and that are not (or not any more) the driver's.
    strays: u64,
}

impl ChannelUpper {
    /// The driver's side of the last channel of `memory`, if there is one; `user` is the event that
    /// wakes the layer above, `watch` what a sleeping driver waits for besides the interrupt.
    pub fn new(
        memory: PacketMemory,
        user: Event,
        watch: Watch,
    ) -> std::io::Result<Option<ChannelUpper>> {
        let words = memory.words().clone();
        ChannelUpper::through(&words, memory, user, watch)
    }
}

impl<W: Words + Clone, K: Wakeup + Clone> ChannelUpper<W, K> {
    /// The same, with the words of `memory` reached through `words`: the channel's way of storing can be
    /// another than the memory's own.
    pub fn through(
        words: &W,
        memory: PacketMemory,
        user: K,
        watch: Watch,
    ) -> std::io::Result<Option<Self>> {
        let shape = *memory.shape();
        let Some((last, place)) =
            shape.channels.checked_sub(1).and_then(|last| Some((last, memory.channel(last)?)))
        else {
            return Ok(None);
        };
        let tokens = if last == 0 { memory.application_tokens() } else { 0..shape.buffers() };
        let end = ProviderEnd::new(words, place, tokens, shape.buffer_bytes, user);
        let wakeup = watch.as_one_file()?;
        Ok(Some(ChannelUpper { memory, end, watch, wakeup, corrupt: None, strays: 0 }))
    }
}

impl<W: Words, K: Wakeup> ChannelUpper<W, K> {
    /// The channel's end.
    pub fn end(&self) -> &ProviderEnd<W, K> {
        &self.end
    }

    /// Whether the layer above is still there, and makes sense.
    pub fn neighbour(&self) -> Result<(), crate::StackError> {
        match self.corrupt {
            Some(corrupt) => Err(corrupt.into()),
            None => self.watch.check(),
        }
    }

    /// What the neighbour has said that it may not say.
    pub fn refusals(&self) -> Refusals {
        self.end.refusals()
    }

    /// Buffers that the driver gave back without having them.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Frames that are with the driver to be sent: after it has stopped for good, those whose
    /// fate nobody will tell.
    pub fn unsent(&self) -> u32 {
        self.end.custody().sending()
    }

    fn note_corrupt<T>(&mut self, outcome: Result<Option<T>, Corrupt>) -> Option<T> {
        outcome.unwrap_or_else(|corrupt| {
            self.corrupt = Some(corrupt);
            None
        })
    }

    fn give(&mut self, slice: Slice) {
        self.strays += u64::from(!self.end.complete(slice));
    }
}

impl<W: Words, K: Wakeup> RxSink for ChannelUpper<W, K> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        let posted = self.end.posted();
        let token = self.note_corrupt(posted)?;
        self.memory.buffer(token)
    }

    #[inline]
    fn received(&mut self, buffer: Buffer, frame: Received) {
        let flags = if frame.checksums_good { flags::CHECKSUMS_GOOD } else { 0 };
        let token = buffer.token();
        let slice = match u16::try_from(frame.bytes) {
            Ok(length) => Slice { token, offset: 0, length, flags, extra: read_tsc() },
            Err(_) => Slice { flags: flags::RETURNED, ..Slice::posted(token) },
        };
        self.give(slice);
    }

    fn returned(&mut self, buffer: Buffer) {
        self.give(Slice { flags: flags::RETURNED, ..Slice::posted(buffer.token()) });
    }

    #[inline]
    fn named(&self, token: u32) -> Option<Buffer> {
        self.memory.buffer(token)
    }
}

impl<W: Words, K: Wakeup> Upper for ChannelUpper<W, K> {
    #[inline]
    fn flush(&mut self) {
        self.end.flush();
    }

    #[inline]
    fn next_transmit(&mut self) -> Option<Transmit> {
        let next = self.end.transmit();
        let slice = self.note_corrupt(next)?;
        let (offset, length) = (u32::from(slice.offset), u32::from(slice.length));
        match self.memory.bus_address(slice.token, offset, length) {
            Some(address) => Transmit::new(&[(address, length)], slice.token),
            // Bytes that lie nowhere: a frame without pieces, which every driver refuses.
            None => Transmit::new(&[], slice.token),
        }
    }

    #[inline]
    fn sent(&mut self, token: u32) {
        self.strays += u64::from(!self.end.sent(token, false));
    }

    fn not_sent(&mut self, token: u32) {
        self.strays += u64::from(!self.end.sent(token, true));
    }

    fn prepare_to_sleep(&mut self) -> bool {
        let ready = self.end.prepare_to_sleep();
        self.note_corrupt(ready.map(Some)).unwrap_or(false)
    }

    fn awake(&mut self) {
        self.end.awake();
        self.watch.event().clear();
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakeup.as_fd())
    }

    fn failure(&mut self) -> Option<String> {
        self.neighbour().err().map(|error| error.to_string())
    }

    fn dropped(&self) -> u64 {
        self.strays
    }

    fn warm(&self) {
        let words = self.memory.words();
        for at in (0..words.len()).step_by(WORDS_PER_PAGE) {
            words.load(at, Relaxed);
        }
    }

    fn shown(&self) -> Shown {
        self.end.shown()
    }

    fn resume(&mut self, held: &Held) -> Result<(), StateError> {
        self.end.resume(held)
    }

    fn rehearse(&self, held: &Held) {
        self.end.rehearse(held);
    }

    fn wake(&mut self) {
        self.end.wake_user();
    }

    fn forget(&mut self) -> Forgotten {
        let forgotten = self.end.forget().map(Some);
        self.note_corrupt(forgotten).unwrap_or_default()
    }
}

//! The layer above the driver: sends numbered frames, and holds what comes against what the card has
//! accepted.

use std::collections::VecDeque;

use warikomi_shared::{SharedWords, Wakeup};
use warikomi_stack::{PacketMemory, Slice, UserEnd, flags};

use crate::frame::{FRAME_BYTES, NUMBER, frame, number_of};

/// Nobody sleeps here: everybody has a turn again and again.
#[derive(Clone)]
pub(crate) struct Quiet;

impl Wakeup for Quiet {
    fn wake(&self) {}
}

/// A frame that was handed over and has not come back.
struct Handed {
    token: u32,
    /// It can be sent.
    sendable: bool,
}

pub(crate) struct User {
    memory: PacketMemory,
    end: UserEnd<SharedWords, Quiet>,
    free: VecDeque<u32>,
    handed: VecDeque<Handed>,
    /// Frames to be handed over still.
    left: u64,
    /// What has to be on the wire, in order.
    pub(crate) sent: Vec<u64>,
    next: u64,
    /// What has to come, in order: a frame's number, or a buffer that comes back unused.
    pub(crate) expected: Vec<Option<u64>>,
    received: usize,
}

/// Buffers that are never posted.
const KEPT: usize = 3;
/// Every so many frames, one that cannot be sent is handed over.
const UNSENDABLE_EVERY: u64 = 5;

impl User {
    pub(crate) fn new(memory: PacketMemory, frames: u64) -> User {
        let place = memory.channel(0).expect("there is a channel");
        let (tokens, bytes) = (memory.application_tokens(), memory.shape().buffer_bytes);
        let end = UserEnd::new(memory.words(), place, tokens.clone(), bytes, &Quiet);
        User {
            memory,
            end,
            free: tokens.collect(),
            handed: VecDeque::new(),
            left: frames,
            sent: Vec::new(),
            next: 0,
            expected: Vec::new(),
            received: 0,
        }
    }

    /// Takes what has come.
    pub(crate) fn collect(&mut self) {
        while let Some(slice) = self.end.completion().expect("the channel makes sense") {
            self.judge(slice);
            self.free.push_back(slice.token);
        }
        while let Some(slice) = self.end.sent().expect("the channel makes sense") {
            let handed =
                self.handed.pop_front().expect("no more frames come back than were handed over");
            assert_eq!(
                slice.token, handed.token,
                "frames come back in the order in which they went"
            );
            assert_eq!(slice.has(flags::FAILED), !handed.sendable, "buffer {}", slice.token);
            self.free.push_back(slice.token);
        }
        self.end.flush();
    }

    fn judge(&mut self, slice: Slice) {
        let expected = self.expected.get(self.received);
        let expected = expected.expect("nothing comes that the card has not accepted");
        self.received += 1;
        if slice.has(flags::RETURNED) {
            assert_eq!(*expected, None, "a frame was dropped");
            return;
        }
        let bytes = self.memory.bytes(slice.token, 0, FRAME_BYTES).expect("inside");
        let mut seen = vec![0; FRAME_BYTES as usize];
        bytes.copy_to(&mut seen);
        assert_eq!(Some(number_of(&seen)), *expected, "lost, doubled or out of order");
        assert_eq!(u32::from(slice.length), FRAME_BYTES);
    }

    /// Posts at most so many buffers; some are kept to send from.
    pub(crate) fn post(&mut self, most: usize) {
        for _ in 0..most.min(self.free.len().saturating_sub(KEPT)) {
            let token = self.free.pop_front().expect("there is one");
            assert!(self.end.post(token));
        }
        self.end.flush();
    }

    /// Hands at most so many frames over.
    pub(crate) fn send(&mut self, most: u64) {
        for _ in 0..most.min(self.left) {
            let Some(token) = self.free.pop_front() else { break };
            let sendable = self.next % UNSENDABLE_EVERY != UNSENDABLE_EVERY - 1;
            if sendable {
                let bytes = self.memory.bytes(token, 0, FRAME_BYTES).expect("inside");
                bytes.copy_from(&frame(self.next));
                self.sent.push(self.next);
            }
            let length = if sendable { FRAME_BYTES as u16 } else { 0 };
            assert!(self.end.transmit(Slice { length, ..Slice::posted(token) }));
            self.handed.push_back(Handed { token, sendable });
            self.left -= 1;
            self.next += 1;
        }
        self.end.flush();
    }

    /// Nothing is under way in either direction.
    pub(crate) fn is_done(&self) -> bool {
        self.received == self.expected.len() && self.handed.is_empty() && self.left == 0
    }

    /// The driver has stopped: it has no buffer any more.
    pub(crate) fn end(&mut self) {
        self.collect();
        assert!(self.is_done());
        let all = self.end.custody().buffers() as usize;
        let not_taken = self.end.custody().posted() as usize;
        assert_eq!(self.free.len() + not_taken, all, "every buffer comes back");
        assert_eq!(self.end.refusals().total(), 0);
    }

    /// So many buffers will come back unused.
    pub(crate) fn expect_returned(&mut self, buffers: u64) {
        self.expected.extend((0..buffers).map(|_| None));
    }

    /// A reset: what was accepted and not shown is lost, and so many buffers come back instead. How many
    /// frames, damaged ones among them.
    pub(crate) fn expect_reset(&mut self, shown: u64, buffers: u64) -> u64 {
        let lost = self.expected.split_off(shown as usize).len() as u64;
        self.expect_returned(buffers);
        lost
    }
}

const _: () = assert!(NUMBER.end <= FRAME_BYTES as usize);

//! Memory that events go to while a target runs.

use std::cell::RefCell;

use warikomi_clock::Time;
use warikomi_inject::{SEQUENCE_BYTES, SEQUENCE_OFFSET};
use warikomi_nic::Frame;

use super::event::Kind;
use super::{BLOCK_BYTES, LENGTHS, MAX_EVENT_BYTES};

/// A recording in memory.
///
/// All memory is allocated, and touched, beforehand: an event costs some nanoseconds, no allocation
/// and no system call. When it is full, later events are counted and dropped; the trace says so.
#[derive(Debug)]
pub struct Tape {
    inner: RefCell<Inner>,
}

/// One block of a tape: where it ends, and how many events it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) end: usize,
    pub(super) events: u32,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) bytes: Vec<u8>,
    pub(super) blocks: Vec<Block>,
    used: usize,
    block_start: usize,
    block_events: u32,
    pub(super) events: u64,
    pub(super) dropped: u64,
    last_time: u64,
    last: [u64; Kind::COUNT],
    /// The last frame that was written whole.
    whole: Vec<u8>,
}

impl Tape {
    /// What a packet takes at most in an ordinary run, with everything that the driver does for it.
    const BYTES_PER_PACKET: u64 = 192;
    const LEAST_BYTES: u64 = 4 << 20;

    /// The most memory that a tape takes.
    pub const MOST_BYTES: u64 = 512 << 20;

    /// A tape for a run of `packets`, of which `literal_bytes` are frames that do not differ in their
    /// sequence number alone.
    pub fn for_packets(packets: u64, literal_bytes: u64) -> Tape {
        let wanted = packets.saturating_mul(Self::BYTES_PER_PACKET).saturating_add(literal_bytes);
        Tape::with_capacity(wanted.clamp(Self::LEAST_BYTES, Self::MOST_BYTES) as usize)
    }

    /// A tape of so many bytes.
    pub fn with_capacity(bytes: usize) -> Tape {
        // Not zeros, which the operating system would hand out at the first touch only.
        let bytes = vec![0xff; bytes];
        // Two blocks in a row are longer than one may be.
        let blocks = Vec::with_capacity(2 * bytes.len() / BLOCK_BYTES + 2);
        Tape {
            inner: RefCell::new(Inner {
                bytes,
                blocks,
                used: 0,
                block_start: 0,
                block_events: 0,
                events: 0,
                dropped: 0,
                last_time: 0,
                last: [0; Kind::COUNT],
                whole: Vec::with_capacity(BLOCK_BYTES),
            }),
        }
    }

    /// Events on the tape.
    pub fn events(&self) -> u64 {
        self.inner.borrow().events
    }

    /// Events that did not fit any more.
    pub fn dropped(&self) -> u64 {
        self.inner.borrow().dropped
    }

    /// Bytes that the events take.
    pub fn bytes(&self) -> u64 {
        self.inner.borrow().used as u64
    }

    /// Adds an event.
    #[inline]
    pub(super) fn put(&self, kind: Kind, at: Time, a: u64, b: u64) {
        self.inner.borrow_mut().put(kind, at, a, b, &[]);
    }

    /// Adds a frame that arrives.
    #[inline]
    pub(super) fn put_frame(&self, at: Time, frame: &Frame<'_>) {
        self.inner.borrow_mut().put_frame(at, frame);
    }

    /// Closes the last block, and gives everything.
    pub(super) fn finished<R>(&self, take: impl FnOnce(&Inner) -> R) -> R {
        let mut inner = self.inner.borrow_mut();
        inner.close_block();
        take(&inner)
    }
}

impl Inner {
    #[inline]
    fn put(&mut self, kind: Kind, at: Time, a: u64, b: u64, payload: &[u8]) {
        let needed = MAX_EVENT_BYTES + payload.len();
        // Once something did not fit, nothing does: a trace has no gaps.
        if self.dropped > 0 || self.bytes.len() - self.used < needed {
            self.dropped += 1;
            return;
        }
        if self.used - self.block_start + needed > BLOCK_BYTES {
            self.close_block();
        }
        let time = zigzag(at.as_ps().wrapping_sub(self.last_time));
        self.last_time = at.as_ps();
        let a = match kind.is_relative() {
            true => zigzag(a.wrapping_sub(std::mem::replace(&mut self.last[kind as usize], a))),
            false => a,
        };
        let mut head = kind as u16;
        let mut event = [0; MAX_EVENT_BYTES];
        let mut len = 2;
        for (index, number) in [time, a, b].into_iter().enumerate() {
            let code = length_code(number);
            head |= u16::from(code) << (5 + 3 * index);
            // Eight bytes whatever the length: the next number writes over what is too much.
            event[len..len + 8].copy_from_slice(&number.to_le_bytes());
            len += usize::from(LENGTHS[usize::from(code)]);
        }
        event[..2].copy_from_slice(&head.to_le_bytes());
        self.bytes[self.used..self.used + MAX_EVENT_BYTES].copy_from_slice(&event);
        self.used += len;
        if !payload.is_empty() {
            self.bytes[self.used..self.used + payload.len()].copy_from_slice(payload);
            self.used += payload.len();
        }
        self.events += 1;
        self.block_events += 1;
    }

    #[inline]
    fn put_frame(&mut self, at: Time, frame: &Frame<'_>) {
        let fcs = u64::from(frame.fcs);
        match numbered(frame.bytes, &self.whole) {
            Some(number) => self.put(Kind::Numbered, at, number, fcs, &[]),
            None => {
                self.put(Kind::Whole, at, frame.bytes.len() as u64, fcs, frame.bytes);
                self.whole.clear();
                self.whole.extend_from_slice(frame.bytes);
            }
        }
    }

    fn close_block(&mut self) {
        if self.block_events > 0 {
            self.blocks.push(Block { end: self.used, events: self.block_events });
        }
        (self.block_start, self.block_events) = (self.used, 0);
    }
}

/// The sequence number of `frame` if it is `whole` in everything else.
#[inline]
fn numbered(frame: &[u8], whole: &[u8]) -> Option<u64> {
    const END: usize = SEQUENCE_OFFSET + SEQUENCE_BYTES;
    let same = frame.len() == whole.len()
        && frame.get(..SEQUENCE_OFFSET)? == whole.get(..SEQUENCE_OFFSET)?
        && frame.get(END..)? == whole.get(END..)?;
    let number = frame.get(SEQUENCE_OFFSET..END)?.try_into().ok()?;
    same.then_some(u64::from_le_bytes(number))
}

/// Small differences in either direction become small numbers.
#[inline]
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    (signed << 1 ^ signed >> 63) as u64
}

/// The inverse of [`zigzag`].
pub(super) fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Which of [`LENGTHS`] holds `number`.
#[inline]
fn length_code(number: u64) -> u8 {
    let bytes = 8 - number.leading_zeros() / 8;
    bytes.min(7) as u8
}

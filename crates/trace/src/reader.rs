//! A file as events.

use std::io::{self, Read};

use warikomi_clock::Time;
use warikomi_inject::{HEADER_BYTES, PAYLOAD_OFFSET, SEQUENCE_BYTES, SEQUENCE_OFFSET};
use warikomi_nic::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};

use super::event::{self, Event, FrameBytes, Kind};
use super::file::Header;
use super::tape::unzigzag;
use super::{
    BLOCK_HEADER_BYTES, BLOCK_MARK, END_BYTES, END_MARK, FRONT_BYTES, LENGTHS, MAGIC,
    MAX_BLOCK_BYTES, MAX_HEADER_BYTES, OLDEST_VERSION, VERSION,
};

/// Why a file is not a trace that can be read. Offsets count bytes from the file's beginning.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Another kind of file.
    #[error(
        "this is no trace of Warikomi's: byte {offset} is already another; make one with: warikomi \
         record"
    )]
    Foreign {
        /// The first byte that differs.
        offset: u64,
    },
    /// A form that this program does not know.
    #[error(
        "this trace has form {version} (byte 8), and this program reads forms {OLDEST_VERSION} to \
         {VERSION}; record it again"
    )]
    Version {
        /// The form's number.
        version: u32,
    },
    /// The end is missing.
    #[error("this trace is cut off: byte {offset}, and all behind it, is missing; copy it again")]
    Truncated {
        /// The file's length.
        offset: u64,
    },
    /// Something in it is not as it was written.
    #[error("this trace is damaged from byte {offset} on: {what}; copy it again")]
    Damaged {
        /// The first byte that cannot be trusted.
        offset: u64,
        /// What is wrong at that place.
        what: &'static str,
    },
    /// The file could not be read.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// What stands at a trace's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events in the trace.
    pub events: u64,
    /// Events behind them that did not fit into the recorder's memory.
    pub dropped: u64,
}

/// Reads a trace, event by event, in the memory of one block.
pub struct Reader<R> {
    from: R,
    /// Bytes read so far.
    offset: u64,
    header: Header,
    block: Vec<u8>,
    /// Where the block's payload begins in the file.
    block_offset: u64,
    /// How much of the block is decoded.
    at: usize,
    /// Events of the block that are not decoded yet.
    left: u32,
    events: u64,
    last_time: u64,
    last: [u64; Kind::COUNT],
    /// Length of the last frame that was given whole.
    whole: Option<usize>,
    end: Option<Summary>,
}

impl<R: Read> Reader<R> {
    /// Reads and checks what stands at the beginning. `from` should be buffered.
    pub fn new(mut from: R) -> Result<Reader<R>, TraceError> {
        let mut offset = 0;
        let mut magic = [0; MAGIC.len()];
        let got = fill(&mut from, &mut magic)?;
        if let Some(wrong) = (0..got).find(|&at| magic[at] != MAGIC[at]) {
            return Err(TraceError::Foreign { offset: wrong as u64 });
        }
        take(got, MAGIC.len(), &mut offset)?;
        let mut front = [0; FRONT_BYTES];
        let got = fill(&mut from, &mut front)?;
        take(got, FRONT_BYTES, &mut offset)?;
        if crc32fast::hash(&front[..12]) != word(&front, 12) {
            let what = "version and length do not match their check sequence";
            return Err(TraceError::Damaged { offset: MAGIC.len() as u64, what });
        }
        if !(OLDEST_VERSION..=VERSION).contains(&word(&front, 0)) {
            return Err(TraceError::Version { version: word(&front, 0) });
        }
        let damaged = |offset, what| TraceError::Damaged { offset, what };
        let len = word(&front, 4) as usize;
        if len > MAX_HEADER_BYTES {
            return Err(damaged(offset, "the header is longer than any"));
        }
        let (mut json, begin) = (vec![0; len], offset);
        let got = fill(&mut from, &mut json)?;
        take(got, len, &mut offset)?;
        if crc32fast::hash(&json) != word(&front, 8) {
            return Err(damaged(begin, "the header does not match its check sequence"));
        }
        let header: Header = serde_json::from_slice(&json)
            .map_err(|_| damaged(begin, "the header is not one of a trace"))?;
        // Only the card knows its longest frame.
        if header.plan.as_ref().is_some_and(|plan| plan.validate_for(usize::MAX).is_err()) {
            return Err(damaged(begin, "the header has a plan that none can have carried out"));
        }
        Ok(Reader {
            from,
            offset,
            header,
            block: Vec::new(),
            block_offset: offset,
            at: 0,
            left: 0,
            events: 0,
            last_time: 0,
            last: [0; Kind::COUNT],
            whole: None,
            end: None,
        })
    }

    /// Where the trace comes from.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What stands at the end; `None` before all events have been read.
    pub fn summary(&self) -> Option<Summary> {
        self.end
    }

    /// The next event; `None` at the end, which has then been checked too.
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        while self.left == 0 {
            if self.end.is_some() {
                return Ok(None);
            }
            if self.at < self.block.len() {
                return Err(self.malformed("there are bytes behind the block's last event"));
            }
            self.next_block()?;
        }
        self.left -= 1;
        self.events += 1;
        self.decode().map(Some)
    }

    fn next_block(&mut self) -> Result<(), TraceError> {
        let begin = self.offset;
        let damaged = |offset, what| TraceError::Damaged { offset, what };
        let mut head = [0; BLOCK_HEADER_BYTES];
        let got = fill(&mut self.from, &mut head)?;
        take(got, BLOCK_HEADER_BYTES, &mut self.offset)?;
        if crc32fast::hash(&head[..16]) != word(&head, 16) {
            return Err(damaged(begin, "the block's header does not match its check sequence"));
        }
        let (is_end, len) = (head[..4] == END_MARK, word(&head, 4) as usize);
        let known = is_end && len == END_BYTES || head[..4] == BLOCK_MARK && len <= MAX_BLOCK_BYTES;
        if !known {
            return Err(damaged(begin, "this is no block"));
        }
        self.block_offset = self.offset;
        self.block.resize(len, 0);
        let got = fill(&mut self.from, &mut self.block)?;
        take(got, len, &mut self.offset)?;
        if crc32fast::hash(&self.block) != word(&head, 12) {
            return Err(damaged(self.block_offset, "the block does not match its check sequence"));
        }
        (self.at, self.left) = (0, word(&head, 8));
        if is_end { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let number =
            |at| u64::from(word(&self.block, at)) | u64::from(word(&self.block, at + 4)) << 32;
        let summary = Summary { events: number(0), dropped: number(8) };
        if summary.events != self.events || self.left != 0 {
            return Err(self.malformed("the number of events is another"));
        }
        if fill(&mut self.from, &mut [0])? != 0 {
            let what = "there are bytes behind the end";
            return Err(TraceError::Damaged { offset: self.offset, what });
        }
        self.end = Some(summary);
        Ok(())
    }

    fn decode(&mut self) -> Result<Event, TraceError> {
        let begin = self.at;
        let event = self.try_decode();
        event.ok_or_else(|| {
            self.at = begin;
            self.malformed("this is no event")
        })
    }

    fn try_decode(&mut self) -> Option<Event> {
        let head = u16::from_le_bytes(self.bytes(2)?.try_into().ok()?);
        if head >> 14 != 0 {
            return None;
        }
        let kind = Kind::from_number((head & 0x1f) as u8)?;
        let [time, mut a, b] =
            [self.number(head >> 5)?, self.number(head >> 8)?, self.number(head >> 11)?];
        self.last_time = self.last_time.wrapping_add(unzigzag(time));
        if kind.is_relative() {
            let last = &mut self.last[kind as usize];
            *last = last.wrapping_add(unzigzag(a));
            a = *last;
        }
        let whole = match kind {
            Kind::Whole => {
                let len = usize::try_from(a).ok()?;
                self.whole = Some(len);
                let possible = (MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&len);
                Some(self.bytes(if possible { len } else { usize::MAX })?.to_vec())
            }
            Kind::Numbered if self.whole? < PAYLOAD_OFFSET + HEADER_BYTES => {
                return None;
            }
            _ => None,
        };
        let what = event::event_kind(kind, a, b, whole)?;
        Some(Event { at: Time::from_ps(self.last_time), what })
    }

    fn number(&mut self, code: u16) -> Option<u64> {
        let mut number = [0; 8];
        let len = usize::from(LENGTHS[usize::from(code & 7)]);
        number[..len].copy_from_slice(self.bytes(len)?);
        Some(u64::from_le_bytes(number))
    }

    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let begin = self.at;
        let bytes = self.block.get(begin..begin.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }

    fn malformed(&self, what: &'static str) -> TraceError {
        TraceError::Damaged { offset: self.block_offset + self.at as u64, what }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

/// The bytes of frames that events give whole or by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    last: Vec<u8>,
}

impl Frames {
    /// The bytes of a frame, without check sequence. Must be given every frame of a trace in order.
    pub fn bytes(&mut self, frame: &FrameBytes) -> &[u8] {
        match frame {
            FrameBytes::Whole(bytes) => self.last.clone_from(bytes),
            FrameBytes::Numbered(number) => {
                let place = SEQUENCE_OFFSET;
                let end = place + SEQUENCE_BYTES;
                if let Some(digits) = self.last.get_mut(place..end) {
                    digits.copy_from_slice(&number.to_le_bytes());
                }
            }
        }
        &self.last
    }
}

/// Reads until `into` is full or there is no more; returns how much there was.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match from.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

fn take(got: usize, wanted: usize, offset: &mut u64) -> Result<(), TraceError> {
    *offset += got as u64;
    if got < wanted { Err(TraceError::Truncated { offset: *offset }) } else { Ok(()) }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

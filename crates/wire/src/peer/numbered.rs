//! Messages that are numbered from 0 on, each a datagram, or part of a TCP stream: each comes once, in order, and
//! unharmed.

use warikomi_clock::Time;
use warikomi_protocol::payload::{HEAD_BYTES, Head};

use super::packet::{FILLER, claims_ipv4, datagram_for_us, sound_datagram};
use super::reassembly::{OutOfPlace, Reassembly};
use super::stream::Stream;
use super::{Fate, Judge, Judged, JudgingPeer};
use crate::{CountedSink, HEADER_BYTES};

/// Most messages of a run: what is remembered of each is one bit.
const MAX_MESSAGES: u64 = 1 << 32;

/// How much of each payload is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Every byte.
    #[default]
    Whole,
    /// Its head only, with all headers before it: what a dummy driver sends behind these is of another
    /// message.
    Head,
    /// Run and number only: what stands around them is a kernel's.
    Number,
}

/// What came of one run's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Messages that came, each counted once.
    pub messages: u64,
    /// Their bytes, without headers.
    pub message_bytes: u64,
    /// Of a TCP stream, segments that came in their turn.
    pub segments: u64,
    /// Messages that came again.
    pub duplicated: u64,
    /// Messages that came behind a later one.
    pub reordered: u64,
    /// Frames that are not as they were sent: headers, lengths, checksum, or bytes of the payload.
    pub corrupt: u64,
    /// Frames of no run, or of another run.
    pub foreign: u64,
    /// The highest sequence number and 1.
    pub end: u64,
}

impl Seen {
    /// Of a TCP stream, segments for each message.
    pub fn segments_per_message(&self) -> Option<f64> {
        let known = self.segments > 0 && self.messages > 0;
        known.then(|| self.segments as f64 / self.messages as f64)
    }

    /// Messages that did not come, of so many that were sent.
    pub fn lost(&self, sent: u64) -> u64 {
        sent.max(self.end).saturating_sub(self.messages)
    }

    /// What is wrong, if so many were sent; `None` if each came once, in order and unharmed, and nothing
    /// else.
    pub fn wrong(&self, sent: u64) -> Option<String> {
        let Seen { messages, duplicated, reordered, corrupt, foreign, .. } = *self;
        let sound = messages == sent
            && [self.lost(sent), duplicated, reordered, corrupt, foreign].iter().all(|&n| n == 0);
        (!sound).then(|| {
            format!(
                "of {sent} messages sent, {messages} came: {} lost, {duplicated} duplicated, \
                 {reordered} reordered; besides {corrupt} corrupt and {foreign} foreign frames",
                self.lost(sent)
            )
        })
    }
}

/// Holds every frame against what was to be sent: a UDP datagram of this run, whole or in its fragments, in order,
/// once. Sequence
/// numbers begin at 0 and leave none out.
#[derive(Debug, Default)]
pub struct Numbered {
    run_id: Option<u32>,
    look: Look,
    checksums: bool,
    most: u64,
    /// A bit for each sequence number.
    came: Vec<u64>,
    seen: Seen,
    reassembly: Reassembly,
    /// They come in a TCP stream.
    stream: Option<Stream>,
}

impl Numbered {
    /// A wire with nothing behind the judge, which expects nothing yet.
    pub fn sink() -> (JudgingPeer<Numbered, CountedSink>, Judged<Numbered>) {
        JudgingPeer::new(Numbered::default(), CountedSink::new())
    }

    /// From now on messages of this run are expected, at most `most` of them, without a checksum of UDP.
    pub fn begin(&mut self, run_id: u32, most: u64, look: Look) {
        let most = most.min(MAX_MESSAGES);
        let came = vec![0; most.div_ceil(64) as usize];
        let seen = Seen::default();
        let (run_id, reassembly) = (Some(run_id), Reassembly::default());
        *self =
            Numbered { run_id, look, checksums: false, most, came, seen, reassembly, stream: None };
    }

    /// The messages of this run have a checksum of UDP, or have none.
    pub fn expect_checksums(&mut self, expected: bool) {
        self.checksums = expected;
    }

    /// The messages of this run come in a TCP stream whose segments have so many bytes of payload, each message's last
    /// perhaps fewer; or, with `None`, in datagrams. Every byte of segments is judged, always.
    pub fn expect_stream(&mut self, segment_bytes: Option<u32>) {
        self.stream = segment_bytes.map(Stream::new);
    }

    /// What has been seen since then.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// How much of a frame is judged.
    pub(super) fn look(&self) -> Look {
        self.look
    }
}

impl Judge for Numbered {
    fn frame(&mut self, _now: Time, frame: &[u8]) -> Fate {
        let verdict = match self.stream.take() {
            Some(mut stream) => {
                let verdict = self.judge_segment(&mut stream, frame);
                self.stream = Some(stream);
                verdict
            }
            None => self.judge_datagram(frame),
        };
        match verdict {
            Some(Verdict::Message { sequence, bytes }) => self.came(sequence, bytes),
            Some(Verdict::Corrupt) => self.seen.corrupt += 1,
            Some(Verdict::Foreign) => self.seen.foreign += 1,
            None => {}
        }
        Fate::Kept
    }
}

/// What a frame turned out to be.
enum Verdict {
    Message { sequence: u64, bytes: u64 },
    Corrupt,
    Foreign,
}

impl Numbered {
    /// `None` for what is a part of something of which more must come; so below.
    fn judge_datagram(&mut self, frame: &[u8]) -> Option<Verdict> {
        let mut reassembly = std::mem::take(&mut self.reassembly);
        let verdict = match reassembly.take(frame) {
            Ok(None) => None,
            Ok(Some(whole)) => Some(self.verdict(whole).unwrap_or(Verdict::Corrupt)),
            Err(OutOfPlace) => Some(Verdict::Corrupt),
        };
        self.reassembly = reassembly;
        verdict
    }

    fn judge_segment(&mut self, stream: &mut Stream, frame: &[u8]) -> Option<Verdict> {
        if !claims_ipv4(frame) && frame.len() >= HEADER_BYTES {
            return Some(Verdict::Foreign);
        }
        let taken = stream.take(frame);
        self.seen.segments += u64::from(taken.is_ok());
        match taken {
            Ok(None) => None,
            Ok(Some(message)) => Some(self.message(message).unwrap_or(Verdict::Corrupt)),
            Err(OutOfPlace) => Some(Verdict::Corrupt),
        }
    }

    /// `None` for what claims to be a datagram and is not as it should be.
    fn verdict(&self, frame: &[u8]) -> Option<Verdict> {
        if !claims_ipv4(frame) {
            return (frame.len() >= HEADER_BYTES).then_some(Verdict::Foreign);
        }
        let payload = match self.look {
            Look::Whole | Look::Head => sound_datagram(frame, self.checksums)?,
            Look::Number => datagram_for_us(frame)?,
        };
        self.message(payload)
    }

    /// `None` for what is no message as it was sent.
    fn message(&self, payload: &[u8]) -> Option<Verdict> {
        let head = Head::from_bytes(payload)?;
        if Some(head.run_id) != self.run_id {
            return Some(Verdict::Foreign);
        }
        let whole = payload.get(HEAD_BYTES..)? == FILLER.get(HEAD_BYTES..payload.len())?;
        let good = (self.look != Look::Whole || whole) && head.sequence < self.most;
        good.then_some(Verdict::Message { sequence: head.sequence, bytes: payload.len() as u64 })
    }

    fn came(&mut self, sequence: u64, bytes: u64) {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        let Some(word) = self.came.get_mut(word) else { return };
        if *word & bit != 0 {
            self.seen.duplicated += 1;
            return;
        }
        *word |= bit;
        self.seen.messages += 1;
        self.seen.message_bytes += bytes;
        self.seen.reordered += u64::from(sequence < self.seen.end);
        self.seen.end = self.seen.end.max(sequence + 1);
    }
}

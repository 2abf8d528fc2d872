//! Messages in a TCP stream: each segment in its turn, and a message ends with PSH.

use warikomi_protocol::payload::MOST_BYTES;

use super::packet::{Segment, sound_segment};
use super::reassembly::OutOfPlace;

/// The stream, and the message of which not all segments have come.
#[derive(Debug)]
pub(super) struct Stream {
    /// Payload of each segment but a message's last.
    segment_bytes: usize,
    /// The number of the next byte, once one has come.
    next: Option<u32>,
    message: Vec<u8>,
    /// The last segment that came ended a message.
    ended: bool,
    /// What comes up to the end of a message is of one that is broken.
    skips: bool,
}

impl Stream {
    /// One whose segments have so many bytes of payload.
    pub(super) fn new(segment_bytes: u32) -> Stream {
        let segment_bytes = segment_bytes as usize;
        Stream { segment_bytes, next: None, message: Vec::new(), ended: false, skips: false }
    }

    /// Takes a frame; the whole message if it is the last segment of one. A frame that is no sound segment, or out of
    /// its turn, is refused, and its message does not come.
    pub(super) fn take(&mut self, frame: &[u8]) -> Result<Option<&[u8]>, OutOfPlace> {
        let Segment { sequence, is_last, payload } = sound_segment(frame).ok_or(OutOfPlace)?;
        let ahead = self.next.map_or(0, |next| sequence.wrapping_sub(next) as i32);
        if ahead < 0 {
            return Err(OutOfPlace);
        }
        if std::mem::replace(&mut self.ended, is_last) {
            self.message.clear();
            self.skips = false;
        }
        self.next = Some(sequence.wrapping_add(payload.len() as u32));
        let least = if is_last { 1 } else { self.segment_bytes };
        let sound = ahead == 0
            && (least..=self.segment_bytes).contains(&payload.len())
            && self.message.len() + payload.len() <= MOST_BYTES as usize;
        if !sound {
            self.skips = true;
            return Err(OutOfPlace);
        }
        self.message.extend_from_slice(payload);
        Ok((is_last && !self.skips).then_some(&self.message))
    }
}

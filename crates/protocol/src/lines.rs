//! Requests out of a stream of bytes: raw, one JSON object a line, bounded.

use serde_json::Value;

use crate::{Envelope, MAX_REQUEST_BYTES, NO_REQUEST_ID};

/// A line of the support side, or what is wrong with it.
pub enum Line {
    /// Without its newline. Not checked in any other way.
    Text(Vec<u8>),
    /// Longer than [`MAX_REQUEST_BYTES`]; dropped as it came.
    TooLong,
}

impl Line {
    /// The request, or the id to answer to (if the line has one) and what is wrong.
    pub fn parse(&self) -> Result<Envelope, (u64, String)> {
        let text = match self {
            Line::Text(text) => text,
            Line::TooLong => {
                let text = format!("the request is longer than {MAX_REQUEST_BYTES} bytes");
                return Err((NO_REQUEST_ID, text));
            }
        };
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| (NO_REQUEST_ID, format!("not a JSON object: {error}")))?;
        let id = value.get("id").and_then(Value::as_u64).unwrap_or(NO_REQUEST_ID);
        if id == NO_REQUEST_ID {
            return Err((id, "a request needs an id, an integer above 0".to_owned()));
        }
        serde_json::from_value(value).map_err(|error| (id, format!("not a request: {error}")))
    }
}

/// Cuts a stream into lines without ever holding more than one request and one read.
#[derive(Default)]
pub struct Splitter {
    pending: Vec<u8>,
    /// How much of `pending` is known to hold no newline, so that a line that comes in many
    /// pieces is not searched anew for each.
    searched: usize,
    /// The current line was too long, and its rest is still to come.
    dropping: bool,
}

impl Splitter {
    /// Takes what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next line, once it is whole.
    #[expect(clippy::should_implement_trait, reason = "after None there may be more")]
    pub fn next(&mut self) -> Option<Line> {
        let end = self.pending[self.searched..].iter().position(|&byte| byte == b'\n');
        let Some(end) = end.map(|offset| self.searched + offset) else {
            self.searched = self.pending.len();
            if self.pending.len() >= MAX_REQUEST_BYTES {
                self.pending.clear();
                self.searched = 0;
                self.dropping = true;
            }
            return None;
        };
        let rest = self.pending.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.pending, rest);
        self.searched = 0;
        line.pop();
        let too_long = std::mem::take(&mut self.dropping) || line.len() >= MAX_REQUEST_BYTES;
        Some(if too_long { Line::TooLong } else { Line::Text(line) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(splitter: &mut Splitter) -> Vec<Option<Vec<u8>>> {
        std::iter::from_fn(|| splitter.next())
            .map(|line| match line {
                Line::Text(text) => Some(text),
                Line::TooLong => None,
            })
            .collect()
    }

    #[test]
    fn lines_come_out_whole_however_they_come_in() {
        let mut splitter = Splitter::default();
        splitter.push(b"on");
        assert!(texts(&mut splitter).is_empty());
        splitter.push(b"e\ntwo\n\nth");
        let expected = [Some(b"one".to_vec()), Some(b"two".to_vec()), Some(vec![])];
        assert_eq!(texts(&mut splitter), expected);
        splitter.push(b"ree\n");
        assert_eq!(texts(&mut splitter), [Some(b"three".to_vec())]);
    }

    #[test]
    fn an_endless_line_is_dropped_and_the_next_one_is_read() {
        let mut splitter = Splitter::default();
        for _ in 0..100 {
            splitter.push(&[b'x'; 4096]);
            assert!(texts(&mut splitter).is_empty());
            assert!(splitter.pending.len() < MAX_REQUEST_BYTES + 4096);
        }
        splitter.push(b"\nnext\n");
        assert_eq!(texts(&mut splitter), [None, Some(b"next".to_vec())]);
    }
}

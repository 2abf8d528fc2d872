//! The serial line to the support side: raw, one JSON object a line, bounded.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use nix::sys::termios::{self, SetArg};
use warikomi_guest::{CHANNEL_PARAMETER, MAX_REQUEST_BYTES};

use super::error::{self, Context, Result};

/// A line of the support side, or what is wrong with it.
pub(super) enum Line {
    /// Without its newline. Not checked in any other way.
    Text(Vec<u8>),
    /// Longer than [`MAX_REQUEST_BYTES`]; dropped as it came.
    TooLong,
}

/// The open line.
pub(super) struct Channel {
    tty: File,
    splitter: Splitter,
}

impl Channel {
    /// Opens the line that the kernel parameter names, `/dev/ttyS0` without one, and makes it raw.
    pub(super) fn open() -> Result<Self> {
        let path = format!("/dev/{}", channel_name());
        let tty = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .doing(|| format!("open {path}, the line to the support side (ssl0=fd:N)"))?;
        let mut settings =
            termios::tcgetattr(&tty).doing(|| format!("read the settings of {path}"))?;
        termios::cfmakeraw(&mut settings);
        termios::tcsetattr(&tty, SetArg::TCSANOW, &settings)
            .doing(|| format!("make {path} raw"))?;
        Ok(Self { tty, splitter: Splitter::default() })
    }

    /// Sleeps until a line has come. `None` if the support side went away.
    pub(super) fn next_line(&mut self) -> Result<Option<Line>> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(line) = self.splitter.next() {
                return Ok(Some(line));
            }
            match self.tty.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => self.splitter.push(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A hangup: the other end of the socket was closed.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(None),
                Err(error) => return Err(error).doing(|| "read the line".to_owned()),
            }
        }
    }

    /// Sends a line whole.
    pub(super) fn send(&mut self, line: &str) -> Result<()> {
        self.tty.write_all(line.as_bytes()).doing(|| "write the line".to_owned())
    }
}

fn channel_name() -> String {
    let command_line = error::read("/proc/cmdline").unwrap_or_default();
    let named = command_line.split_whitespace().find_map(|word| {
        word.strip_prefix(CHANNEL_PARAMETER)?.strip_prefix('=').map(str::to_owned)
    });
    named.unwrap_or_else(|| "ttyS0".to_owned())
}

/// Cuts a stream into lines without ever holding more than one request and one read.
#[derive(Default)]
struct Splitter {
    pending: Vec<u8>,
    /// How much of `pending` is known to hold no newline, so that a line that comes in many
    /// pieces is not searched anew for each.
    searched: usize,
    /// The current line was too long, and its rest is still to come.
    dropping: bool,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<Line> {
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

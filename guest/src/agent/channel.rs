//! The serial line to the support side: raw, one JSON object a line, bounded.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use nix::sys::termios::{self, SetArg};
use warikomi_protocol::CHANNEL_PARAMETER;
use warikomi_protocol::lines::{Line, Splitter};

use super::error::{self, Context, Result};

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
            .context(|| format!("open {path}, the line to the support side (ssl0=fd:N)"))?;
        let mut settings =
            termios::tcgetattr(&tty).context(|| format!("read the settings of {path}"))?;
        termios::cfmakeraw(&mut settings);
        termios::tcsetattr(&tty, SetArg::TCSANOW, &settings)
            .context(|| format!("make {path} raw"))?;
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
                Err(error) => return Err(error).context(|| "read the line".to_owned()),
            }
        }
    }

    /// Sends a line whole.
    pub(super) fn send(&mut self, line: &str) -> Result<()> {
        self.tty.write_all(line.as_bytes()).context(|| "write the line".to_owned())
    }
}

fn channel_name() -> String {
    let command_line = error::read("/proc/cmdline").unwrap_or_default();
    let named = command_line.split_whitespace().find_map(|word| {
        word.strip_prefix(CHANNEL_PARAMETER)?.strip_prefix('=').map(str::to_owned)
    });
    named.unwrap_or_else(|| "ttyS0".to_owned())
}

//! What a target prints.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::{ConsoleTail, TargetError};

/// Room in the console's pipe, so that a burst of messages does not stop the target while we look
/// elsewhere. The usual limit for unprivileged users.
const CONSOLE_PIPE_BYTES: i32 = 1 << 20;

/// Lines kept. A target that prints without end costs no more than this.
const KEPT_LINES: usize = 400;
const KEPT_LINE_BYTES: usize = 512;

/// Bytes read from the pipe in one go.
const READ_BYTES: usize = 16 * 1024;
/// The most that one look takes: a target that prints faster than we read keeps nothing else waiting.
const READS_PER_LOOK: usize = 4;
/// What a pipe can hold, however much is printed meanwhile.
const READS_OF_ALL: usize = CONSOLE_PIPE_BYTES as usize / READ_BYTES + 1;

/// The reading end of a target's console, non-blocking.
pub struct Console {
    pipe: File,
    lines: VecDeque<String>,
    partial: Vec<u8>,
    panic: Option<String>,
    printed: u64,
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Console {
    /// Of what is printed into this pipe.
    pub fn new(pipe: File) -> Self {
        Console { pipe, lines: VecDeque::new(), partial: Vec::new(), panic: None, printed: 0 }
    }

    /// Takes what has been printed since the last look, or a bounded part of it.
    pub fn drain(&mut self) {
        self.read(READS_PER_LOOK);
    }

    /// Takes all that the pipe holds by now: of a target that has failed, also its last words.
    pub fn drain_all(&mut self) {
        self.read(READS_OF_ALL);
    }

    fn read(&mut self, most: usize) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..most {
            let Ok(count) = self.pipe.read(&mut buffer) else { return };
            self.take(&buffer[..count]);
            if count < READ_BYTES {
                return;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
                    self.partial.clear();
                    self.push(line);
                }
                _ if self.partial.len() < KEPT_LINE_BYTES => self.partial.push(byte),
                _ => {}
            }
        }
    }

    fn push(&mut self, line: String) {
        // A printed escape sequence must not reach the user's terminal.
        let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').collect();
        if line.is_empty() {
            return;
        }
        if self.panic.is_none()
            && let Some(at) = line.find("Kernel panic - not syncing")
        {
            self.panic = Some(line[at..].to_owned());
        }
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        self.printed += 1;
    }

    /// How many lines were printed, also those that are not kept any longer.
    pub fn printed(&self) -> u64 {
        self.printed
    }

    /// The kernel's panic message, if it has printed one.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The last lines.
    pub fn tail(&self) -> ConsoleTail {
        ConsoleTail(self.lines.iter().cloned().collect())
    }
}

/// A pipe for the console; our end does not block.
pub fn console_pipe() -> Result<(File, OwnedFd), TargetError> {
    let (ours, theirs) =
        nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(TargetError::errno("cannot make a pipe"))?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(TargetError::errno("cannot set up the console's pipe"))?;
    // Smaller is no error: a user may have used up what the system grants in all.
    let _ = fcntl(&ours, FcntlArg::F_SETPIPE_SZ(CONSOLE_PIPE_BYTES));
    Ok((File::from(ours), theirs))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Seek, Write};

    use super::*;

    fn console() -> Console {
        Console::new(File::open("/dev/null").unwrap())
    }

    #[test]
    fn finds_a_panic_even_when_it_comes_in_pieces() {
        let mut console = console();
        console.take(b"[ 1.0] Kernel panic - not sync");
        assert_eq!(console.panic(), None);
        console.take(b"ing: sysrq triggered crash\r\nmore\n");
        assert_eq!(console.panic(), Some("Kernel panic - not syncing: sysrq triggered crash"));
    }

    #[test]
    fn is_bounded_whatever_is_printed() {
        let mut console = console();
        for _ in 0..2000 {
            console.take(&[b'x'; 1000]);
            console.take(b"\n");
        }
        let lines = console.tail().0;
        assert_eq!((lines.len(), lines[0].len()), (KEPT_LINES, KEPT_LINE_BYTES));
    }

    #[test]
    fn one_look_takes_a_bounded_part_and_the_last_one_all() {
        let line = "x".repeat(199) + "\n";
        let mut printed = tempfile::tempfile().unwrap();
        printed.write_all(line.repeat(1_000).as_bytes()).unwrap();
        printed.write_all(b"the last\n").unwrap();
        printed.rewind().unwrap();
        let mut console = Console::new(printed);
        console.drain();
        assert_eq!(console.printed(), (READS_PER_LOOK * READ_BYTES / line.len()) as u64);
        console.drain_all();
        assert_eq!(console.printed(), 1_001);
        assert_eq!(console.tail().0.last().unwrap(), "the last");
    }

    #[test]
    fn escape_sequences_are_taken_out() {
        let mut console = console();
        console.take(b"\x1b[31mred\n");
        assert_eq!(console.tail().0, ["[31mred"]);
    }
    #[test]
    fn the_console_pipe_does_not_block() {
        let (mut ours, _theirs) = console_pipe().unwrap();
        let error = ours.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let (_, theirs) = console_pipe().unwrap();
        let _ = File::from(theirs).write(b"x");
    }
}

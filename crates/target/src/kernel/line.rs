//! A line by which a guest is signalled.
//!
//! It is one end of a pair of sockets that the guest has made and sent to us (`arch/um/os-Linux/file.c`, `os_pipe`), and of
//! which it keeps a copy. Whether a descriptor waits belongs to both copies, so it is not set but said with every
//! transfer: whatever the guest does to its own, none here waits.

use std::fs::File;
use std::io;

use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::vhost_user::VhostUserError;

/// Our end of a guest's line.
#[derive(Debug)]
pub(super) struct Line(File);

impl Line {
    /// Refused if it is no socket: what is another file could make us wait.
    pub(super) fn new(end: File) -> Result<Line, VhostUserError> {
        match sockopt::socket_type(&end) {
            Ok(_) => Ok(Line(end)),
            Err(_) => Err(VhostUserError::Invalid("a line for signals that is no socket")),
        }
    }

    /// Writes all of it, or nothing if the line is full: then a signal is on its way already.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let sent = send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        if sent < bytes.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    /// Reads what there is; how much.
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.0, into, RecvFlags::DONTWAIT)?.0)
    }

    /// The same line once more.
    pub(super) fn try_clone(&self) -> io::Result<Line> {
        self.0.try_clone().map(Line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn line() -> (Line, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Line::new(File::from(OwnedFd::from(ours))).unwrap(), theirs)
    }

    /// Both ends wait, as a guest may have it.
    #[test]
    fn a_line_whose_owner_lets_it_wait_stops_us_neither_full_nor_empty() {
        let (line, mut guest) = line();
        let wait =
            |result: io::Result<usize>| result.unwrap_err().kind() == io::ErrorKind::WouldBlock;
        assert!(wait(line.read(&mut [0; 8])));
        let mut written = 0;
        while line.write(&[0; 8]).is_ok() {
            written += 1;
        }
        assert!(written > 0 && wait(line.write(&[0; 8]).map(|()| 0)));
        guest.write_all(&[7; 3]).unwrap();
        assert_eq!(line.read(&mut [0; 8]).unwrap(), 3);
        let mut all = vec![0; 8 * written];
        guest.read_exact(&mut all).unwrap();
        line.write(&[0; 8]).unwrap();
    }

    #[test]
    fn an_owner_that_has_gone_is_no_signal_to_us() {
        let (line, guest) = line();
        drop(guest);
        assert_eq!(line.write(&[0; 8]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(line.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn what_is_no_socket_is_no_line() {
        let (_, pipe) = nix::unistd::pipe().unwrap();
        assert!(Line::new(File::from(pipe)).is_err());
    }
}

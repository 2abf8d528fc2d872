//! The control socket: clients that ask, and may do so slowly, wrongly, or never.
//!
//! It is looked at now and then by a loop that has a device to serve, so nothing here waits, and each look
//! does a bounded amount of work.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use warikomi_clock::{Span, Time};
use warikomi_shared::{check_directory, is_peer_trusted, listen_at, open_own};

use super::request::{Answer, MOST_REQUEST_BYTES, Request};

/// Clients at a time; one more is refused with a message.
const MOST_CLIENTS: usize = 16;
/// Clients accepted in one look.
const MOST_ACCEPTED: usize = 4;
/// What one client may have sent to it in one look, in bytes, or send.
const PIECE_BYTES: usize = 4_096;
/// What may wait for a client that does not read, in bytes.
const MOST_UNREAD_BYTES: usize = 256 * 1_024;
/// A client that waits for no answer, and has not asked anything whole for so long, is hung up on: one from which
/// nothing comes, and one whose request drips.
const PATIENCE: Span = Span::from_ms(30_000);

/// Why a service cannot be controlled.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another service is there.
    #[error(
        "a service is controlled by {path} already; stop it with 'warikomi live stop --control {path}', \
         or give this one another --control"
    )]
    Taken {
        /// The socket.
        path: String,
    },
    /// The path exists and is no socket.
    #[error("{path} is there and is no socket; remove it, or give another --control")]
    NoSocket {
        /// The file.
        path: String,
    },
    /// Another user may have made the directory.
    #[error("{path} is no place for a control socket: {error}; give another --control")]
    NotOurs {
        /// The directory.
        path: String,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot make the control socket {path}: {error}")]
    Cannot {
        /// The socket.
        path: String,
        /// The system's error.
        error: io::Error,
    },
}

/// Which client a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(u64);

/// A socket, and whoever is connected to it. The file is removed when it is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    listener: UnixListener,
    /// Held as long as the service lives, and let go of by the kernel however it ends.
    _lock: Flock<File>,
    clients: Vec<Client>,
    next: u64,
}

impl Control {
    /// Makes the socket, for this user alone. One that a dead service has left is taken over.
    pub fn bind(path: &Path) -> Result<Control, ControlError> {
        let name = path.display().to_string();
        let cannot = |error| ControlError::Cannot { path: name.clone(), error };
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory).map_err(cannot)?;
            check_directory(directory).map_err(|error| ControlError::NotOurs {
                path: directory.display().to_string(),
                error,
            })?;
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let file = open_own(Path::new(&lock_path), &mut options).map_err(|error| {
            ControlError::Cannot { path: lock_path.display().to_string(), error }
        })?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| ControlError::Taken { path: name.clone() })?;
        match std::fs::symlink_metadata(path) {
            Ok(about) if about.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(cannot)?;
            }
            Ok(_) => return Err(ControlError::NoSocket { path: name }),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
        let listener = listen_at(path).map_err(cannot)?;
        Ok(Control { path: path.into(), listener, _lock: lock, clients: Vec::new(), next: 0 })
    }

    /// Takes what clients have sent, and sends what waits for them; a bounded amount of each.
    pub fn look(&mut self, now: Time) -> Vec<(ClientId, Result<Request, String>)> {
        self.accept(now);
        let mut asked = Vec::new();
        for client in &mut self.clients {
            client.send();
            client.take(now);
            if let Some(request) = client.next_request() {
                client.waits = true;
                asked.push((client.id, request));
            }
        }
        self.clients.retain(|client| !client.is_over(now));
        asked
    }

    /// Answers a request; a client that has gone meanwhile misses it.
    pub fn answer(&mut self, to: ClientId, answer: &Answer, now: Time) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == to) {
            (client.waits, client.heard) = (false, now);
            client.output.extend(answer.to_line().bytes());
            client.send();
        }
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..MOST_ACCEPTED {
            // Whatever is wrong with one client is nothing to the service.
            let Ok((stream, _)) = self.listener.accept() else { return };
            // Of another user only if the file's mode was changed.
            if !is_peer_trusted(&stream) || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut client = Client::new(ClientId(self.next), stream, now);
            self.next += 1;
            if self.clients.len() < MOST_CLIENTS {
                self.clients.push(client);
                continue;
            }
            let many = format!("{MOST_CLIENTS} clients are connected already; try again later");
            client.output.extend(Answer::refused(many).to_line().bytes());
            client.send();
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// It has asked, and waits for the answer; what it asks next is looked at afterwards.
    waits: bool,
    /// The client has closed its end for sending.
    ended: bool,
    /// The connection failed and will be dropped.
    broken: bool,
    /// When it connected, was answered, or began to ask, whichever was last.
    heard: Time,
}

impl Client {
    fn new(id: ClientId, stream: UnixStream, now: Time) -> Client {
        let (input, output) = (Vec::new(), Vec::new());
        let (waits, ended, broken) = (false, false, false);
        Client { id, stream, input, output, waits, ended, broken, heard: now }
    }

    fn send(&mut self) {
        let most = self.output.len().min(PIECE_BYTES * 16);
        if most == 0 {
            return;
        }
        match self.stream.write(&self.output[..most]) {
            Ok(sent) => drop(self.output.drain(..sent)),
            Err(error) if is_later(&error) => {}
            Err(_) => self.broken = true,
        }
    }

    fn take(&mut self, now: Time) {
        // What it sends while it waits may wait as well, in the kernel.
        if self.ended || self.waits || self.input.len() > MOST_REQUEST_BYTES {
            return;
        }
        let mut piece = [0; PIECE_BYTES];
        match self.stream.read(&mut piece) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                // A request has one time, from its first byte on.
                if self.input.is_empty() {
                    self.heard = now;
                }
                self.input.extend_from_slice(&piece[..count]);
            }
            Err(error) if is_later(&error) => {}
            Err(_) => self.broken = true,
        }
    }

    fn next_request(&mut self) -> Option<Result<Request, String>> {
        if self.waits || self.input.is_empty() {
            return None;
        }
        if let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            return Some(Request::from_line(&line[..end]));
        }
        let why = match self.input.len() {
            _ if self.ended => "the last line has no end".to_owned(),
            bytes if bytes > MOST_REQUEST_BYTES => {
                format!("a request has at most {MOST_REQUEST_BYTES} bytes; this one goes on")
            }
            _ => return None,
        };
        // Where the next line begins cannot be known.
        self.ended = true;
        self.input.clear();
        Some(Err(why))
    }

    fn is_over(&self, now: Time) -> bool {
        let quiet = now.since(self.heard) > PATIENCE && !self.waits;
        let done = self.ended && !self.waits && self.output.is_empty() && self.input.is_empty();
        self.broken || quiet || done || self.output.len() > MOST_UNREAD_BYTES
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "hostile_clients.rs"]
mod hostile;

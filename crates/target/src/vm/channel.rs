//! The connection to a client: messages in and out, and questions of ours about its memory.
//!
//! Nothing here waits but [`Channel::ask`]. What has come of a message is kept until the rest comes, or its time is up.
//! An answer for which the socket has no room is kept as well, and as long as there is one no further command is taken:
//! a client that does not read can ask for nothing, and its time is up, too.
//!
//! While we ask a client for its memory, it may send commands. They are kept, a bounded number of them, and carried out
//! when the access is over that needed the memory, so a window cannot be taken away under a transfer. All questions of
//! one access share one deadline. A client that lets it pass, or answers with something else, loses the connection:
//! otherwise the next access would wait as long again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg,
    send,
};

use super::protocol::{BadHeader, HEADER_BYTES, Header, MOST_MESSAGE_BYTES};
use super::version::MOST_FILES;
use crate::Interrupted;

/// A client sends a message in one piece; one of which a part has come is waited for no longer than this, however its
/// bytes drip. The same holds for answers that it does not take.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_millis(500);
/// All that one access may wait for the client's memory.
pub(super) const DMA_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that are received in one go.
const PIECE_BYTES: usize = 4_096;
/// Pieces that are taken in one look, enough for the longest message if it does not drip.
const MOST_PIECES: usize = 2 * MOST_MESSAGE_BYTES / PIECE_BYTES;
/// A client answers soon if it has a core, so the first look comes without a system call that sleeps.
const LOOKS_BEFORE_SLEEP: u32 = 64;
/// Ctrl-C is looked at so often.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Commands that are kept while we wait for an answer. A client has a few on their way: as many as it has processors,
/// and windows that it maps together.
const MOST_WAITING: usize = 512;
const MOST_WAITING_BYTES: usize = 4 << 20;
const MOST_WAITING_FILES: usize = 64;

/// Why a connection is over.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("the connection was closed")]
    Closed,
    #[error(transparent)]
    Header(#[from] BadHeader),
    #[error(
        "a message with more than {MOST_FILES} descriptors, or more than this process may open"
    )]
    Files,
    #[error("a message that stopped half-way")]
    HalfMessage,
    #[error("it does not take its answers: {0} bytes of them wait")]
    Unread(usize),
    #[error("an answer to a question that was not asked, or not the one that it should answer")]
    StrayReply,
    #[error(
        "an answer about its memory that is not what was asked for, {bytes} bytes at {address:#x}. QEMU puts such \
         data in another place than the specification says; give the guest memory that is shared: \
         memory-backend-memfd,share=on"
    )]
    WrongData { address: u64, bytes: usize },
    #[error("more than {MOST_WAITING} commands while it was asked for its memory")]
    TooManyCommands,
    #[error("no answer within {} s when it was asked for its memory", DMA_TIMEOUT.as_secs())]
    Silent,
    #[error("stopped by the user")]
    Interrupted,
    #[error("the first message is command {0}, and must be VERSION")]
    NoVersion(u16),
    #[error("its proposal of a version was refused")]
    WrongVersion,
    #[error("the socket failed: {0}")]
    Socket(Errno),
}

/// A message as it has come.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) files: Vec<File>,
}

/// A message on its way: as much of it as has come.
#[derive(Debug, Default)]
struct Incoming {
    bytes: Vec<u8>,
    files: Vec<File>,
    /// Since when a part of it is there.
    begun: Option<Instant>,
}

impl Incoming {
    /// Takes what has come, without waiting; a message, if all of it is there. What is there by `now` is in time.
    fn receive(&mut self, from: &UnixStream, now: Instant) -> Result<Option<Message>, ClientError> {
        for _ in 0..MOST_PIECES {
            let missing = self.missing()?;
            if missing == 0 {
                return self.take().map(Some);
            }
            match self.receive_piece(from, missing)? {
                None => break,
                Some(0) => return Err(ClientError::Closed),
                Some(_) => {}
            }
        }
        self.wait_for_more(now)
    }

    /// Bytes of the header that have not come or, behind it, of the body.
    fn missing(&self) -> Result<usize, ClientError> {
        match self.bytes.first_chunk() {
            None => Ok(HEADER_BYTES - self.bytes.len()),
            Some(header) => Ok(Header::decode(header)?.bytes as usize - self.bytes.len()),
        }
    }

    /// Receives `most` bytes at most; `None` if none have come.
    fn receive_piece(
        &mut self,
        from: &UnixStream,
        most: usize,
    ) -> Result<Option<usize>, ClientError> {
        // Room is made for what has come, not for what a header promises.
        let mut piece = [0; PIECE_BYTES];
        let into = &mut piece[..most.min(PIECE_BYTES)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = match recvmsg(from, &mut [IoSliceMut::new(into)], &mut ancillary, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(ClientError::Closed),
            received => received.map_err(ClientError::Socket)?,
        };
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = part {
                self.files.extend(some.map(File::from));
            }
        }
        let cut = received.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC);
        if cut || self.files.len() > MOST_FILES {
            return Err(ClientError::Files);
        }
        self.bytes.extend_from_slice(&piece[..received.bytes]);
        Ok(Some(received.bytes))
    }

    fn wait_for_more(&mut self, now: Instant) -> Result<Option<Message>, ClientError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let begun = *self.begun.get_or_insert(now);
        if now.saturating_duration_since(begun) > MESSAGE_TIMEOUT {
            return Err(ClientError::HalfMessage);
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Message, ClientError> {
        let Incoming { mut bytes, files, .. } = std::mem::take(self);
        let body = bytes.split_off(HEADER_BYTES);
        let header = bytes.first_chunk().ok_or(ClientError::HalfMessage)?;
        Ok(Message { header: Header::decode(header)?, body, files })
    }
}

/// Answers for which the socket had no room.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// Since when they wait.
    begun: Option<Instant>,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Sends as much as there is room for.
    fn flush(&mut self, to: &UnixStream) -> Result<(), ClientError> {
        while self.sent < self.bytes.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(to, &self.bytes[self.sent..], flags) {
                Ok(0) | Err(Errno::AGAIN | Errno::INTR) => {
                    let now = Instant::now();
                    let begun = *self.begun.get_or_insert(now);
                    let waiting = self.bytes.len() - self.sent;
                    return match now.saturating_duration_since(begun) > MESSAGE_TIMEOUT {
                        true => Err(ClientError::Unread(waiting)),
                        false => Ok(()),
                    };
                }
                Ok(count) => (self.sent, self.begun) = (self.sent + count, None),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ClientError::Closed),
                Err(error) => return Err(ClientError::Socket(error)),
            }
        }
        *self = Outgoing::default();
        Ok(())
    }
}

/// The connection.
pub(super) struct Channel {
    stream: UnixStream,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Commands that came while an answer was waited for.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    waiting_files: usize,
    /// Until when questions of this access are waited for; none has been asked yet if there is none.
    ask_until: Option<Instant>,
    next_id: u16,
    /// Why there is no connection any more.
    over: Option<ClientError>,
    interrupted: Interrupted,
}

impl Drop for Channel {
    fn drop(&mut self) {
        close(&self.stream);
    }
}

/// Ends a connection in order. With something in it that was not read, its other end would find it reset. QEMU 11.1 was
/// once seen to end with a failed assertion (`util/error.c`) then, and its guest with it.
pub(super) fn close(stream: &UnixStream) {
    // Nothing comes any more, so what is there has an end.
    if stream.shutdown(Shutdown::Both).is_err() {
        return;
    }
    let mut piece = [0; PIECE_BYTES];
    for _ in 0..MOST_PIECES {
        // Descriptors that come along are closed by the kernel.
        if !recv(stream, &mut piece, RecvFlags::DONTWAIT).is_ok_and(|(bytes, _)| bytes > 0) {
            return;
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Channel {
    pub(super) fn new(stream: UnixStream, interrupted: Interrupted) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        Ok(Channel {
            stream,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_files: 0,
            ask_until: None,
            next_id: 0,
            over: None,
            interrupted,
        })
    }

    /// The next command that is to be carried out, if one is there. What is there by `now` is in time.
    pub(super) fn next_command(&mut self, now: Instant) -> Result<Option<Message>, ClientError> {
        if let Some(error) = &self.over {
            return Err(error.clone());
        }
        self.ask_until = None;
        self.outgoing.flush(&self.stream)?;
        if !self.outgoing.is_empty() {
            return Ok(None);
        }
        if let Some(message) = self.waiting.pop_front() {
            self.waiting_bytes -= message.body.len();
            self.waiting_files -= message.files.len();
            return Ok(Some(message));
        }
        match self.incoming.receive(&self.stream, now)? {
            Some(message) if message.header.is_reply() => Err(ClientError::StrayReply),
            message => Ok(message),
        }
    }

    /// Whether something is to be done before the socket has news: a command is kept, or a time runs.
    pub(super) fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.incoming.bytes.is_empty() || !self.outgoing.is_empty()
    }

    /// From now on questions are of another access.
    pub(super) fn begin_access(&mut self) {
        self.ask_until = None;
    }

    /// Answers: a header, and a body of these parts.
    pub(super) fn send(&mut self, header: Header, body: &[&[u8]]) -> Result<(), ClientError> {
        self.outgoing.bytes.extend_from_slice(&header.to_bytes());
        body.iter().for_each(|part| self.outgoing.bytes.extend_from_slice(part));
        self.outgoing.flush(&self.stream)
    }

    /// Asks the client for something, and waits for its answer: its body, or that it failed. After an error the
    /// connection is over.
    pub(super) fn ask(
        &mut self,
        command: u16,
        body: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, ClientError> {
        if let Some(error) = &self.over {
            return Err(error.clone());
        }
        let answered = self.question_and_answer(command, body);
        if let Err(error) = &answered {
            self.over = Some(error.clone());
        }
        answered
    }

    /// What it has answered is wrong: the connection is over.
    pub(super) fn give_up(&mut self, error: ClientError) {
        self.over.get_or_insert(error);
    }

    fn question_and_answer(
        &mut self,
        command: u16,
        body: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let until = *self.ask_until.get_or_insert_with(|| Instant::now() + DMA_TIMEOUT);
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let bytes = body.iter().map(|part| part.len()).sum();
        self.send(Header::command(id, command, bytes), body)?;
        let mut looks = 0;
        loop {
            let now = Instant::now();
            match self.incoming.receive(&self.stream, now)? {
                Some(Message { header, body, files }) if header.is_reply() => {
                    let is_it = (header.id, header.command) == (id, command) && files.is_empty();
                    let failed = header.failure().is_some();
                    return match is_it {
                        true => Ok((!failed).then_some(body)),
                        false => Err(ClientError::StrayReply),
                    };
                }
                Some(command) => self.keep(command)?,
                None => {}
            }
            if now > until {
                return Err(ClientError::Silent);
            }
            if self.interrupted.is_set() {
                return Err(ClientError::Interrupted);
            }
            self.outgoing.flush(&self.stream)?;
            looks += 1;
            if looks > LOOKS_BEFORE_SLEEP {
                self.wait_for_news(&NAP);
            }
        }
    }

    fn keep(&mut self, message: Message) -> Result<(), ClientError> {
        self.waiting_bytes += message.body.len();
        self.waiting_files += message.files.len();
        let is_too_much = self.waiting.len() >= MOST_WAITING
            || self.waiting_bytes > MOST_WAITING_BYTES
            || self.waiting_files > MOST_WAITING_FILES;
        if is_too_much {
            return Err(ClientError::TooManyCommands);
        }
        self.waiting.push_back(message);
        Ok(())
    }

    fn wait_for_news(&self, at_most: &Timespec) {
        let writable = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut socket = [PollFd::new(&self.stream, PollFlags::IN | writable)];
        // Whatever ends it, the socket is looked at next.
        let _ = poll(&mut socket, Some(at_most));
    }
}

#[cfg(test)]
mod tests;

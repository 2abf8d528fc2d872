//! The vhost-user messages that a User Mode Linux kernel sends (QEMU documentation,
//! `interop/vhost-user.rst`; Linux `arch/um/drivers/vhost_user.h`).
//!
//! The `vhost` crate would be the natural choice, but it refuses this kernel: UML always sends a
//! memory table of two regions' length, also when it says that only one is used, and the crate
//! wants the length to match the count to the byte.

//!
//! Nothing here waits for the kernel: what has come of a message is kept until the rest comes, or its time is up.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};

const HEADER_BYTES: usize = 12;
/// No message that a kernel sends us is longer.
const MAX_BODY_BYTES: usize = 1024;
/// The specification's limit on regions in one table, and so on files in one message.
const MAX_FILES: usize = 8;
const TOO_MANY_FILES: &str = "a message with more than 8 files";
/// A kernel sends a message in one piece; one of which a part has come is waited for no longer than this, however
/// its bytes drip.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const FLAG_REPLY: u32 = 1 << 2;
const FLAG_NEED_REPLY: u32 = 1 << 3;

/// A request of ours that the driver of the device hears: VHOST_USER_BACKEND_CONFIG_CHANGE_MSG (2), version 1,
/// without a body.
pub(super) const CONFIGURATION_CHANGED: [u8; HEADER_BYTES] = [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

/// The same, to be answered.
pub(super) const CONFIGURATION_CHANGED_SAY_SO: [u8; HEADER_BYTES] =
    [2, 0, 0, 0, (VERSION | FLAG_NEED_REPLY) as u8, 0, 0, 0, 0, 0, 0, 0];
/// Bytes of the answer: a header, and a number.
pub(super) const ANSWER_BYTES: usize = HEADER_BYTES + 8;

/// In a message with a vring's file: there is none.
const NO_FILE: u64 = 1 << 8;
const VRING_INDEX_MASK: u64 = 0xff;

/// One region of a memory table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Where it is for the device.
    pub(super) bus: u64,
    /// Length of the region in bytes.
    pub(super) len: u64,
    /// Where it is for the kernel itself, which names its rings this way.
    pub(super) user: u64,
    /// Where it starts in its file.
    pub(super) file_offset: u64,
}

/// Requests of the guest's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    GetFeatures,
    SetFeatures,
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<Region>),
    SetVringNum { index: u32, size: u32 },
    SetVringAddr { index: u32, descriptors: u64, used: u64, available: u64 },
    SetVringBase { index: u32, base: u32 },
    GetVringBase { index: u32 },
    SetVringKick { index: u32, has_file: bool },
    SetVringCall { index: u32, has_file: bool },
    SetVringErr { index: u32, has_file: bool },
    GetProtocolFeatures,
    SetProtocolFeatures,
    GetQueueNum,
    SetVringEnable { index: u32, enable: bool },
    SetBackendRequestFd,
}

/// Why a message cannot be answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum VhostUserError {
    #[error("the connection was closed")]
    Closed,
    #[error("a message of version {0}, not 1")]
    Version(u32),
    #[error("a message of {0} bytes, and none has more than {MAX_BODY_BYTES}")]
    TooLong(u32),
    #[error("request {0}, which was never offered")]
    Unknown(u32),
    #[error("request {request} with {len} bytes, too few for what it says")]
    TooShort { request: u32, len: usize },
    #[error("{0}")]
    Invalid(&'static str),
    #[error(
        "it shares {shared_mb} MB of memory, more than the {given_mb} MB that it was given; a guest is given more \
         with --memory"
    )]
    TooMuchMemory { shared_mb: u64, given_mb: u64 },
    #[error("a memory region that ends at byte {end} of a file of {len} bytes")]
    BeyondFile { end: u64, len: u64 },
    #[error(
        "the guest has cut the file of its memory short: it has {len} bytes, and the memory that it shares ends at \
         byte {end}"
    )]
    CutShort { end: u64, len: u64 },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A decoded request, with the files that came along.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) request: Request,
    pub(super) files: Vec<File>,
    code: u32,
    needs_ack: bool,
}

/// A message on its way: as much of it as has come.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    files: Vec<File>,
    /// Since when a part of it is there.
    begun: Option<Instant>,
}

impl Incoming {
    /// Whether a part of a message is there, so that the rest is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.begun.is_some()
    }

    /// Takes what has come, without waiting; a message, if all of it is there. What is there by `now` is in time.
    pub(super) fn receive(
        &mut self,
        stream: &UnixStream,
        now: Instant,
    ) -> Result<Option<Message>, VhostUserError> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                return self.take().map(Some);
            }
            let mut piece = [0; HEADER_BYTES + MAX_BODY_BYTES];
            let Some((count, files)) = receive_with_files(stream, &mut piece[..missing])? else {
                return self.wait_for_more(now);
            };
            if count == 0 {
                return Err(VhostUserError::Closed);
            }
            self.bytes.extend_from_slice(&piece[..count]);
            self.files.extend(files);
            if self.files.len() > MAX_FILES {
                return Err(VhostUserError::Invalid(TOO_MANY_FILES));
            }
        }
    }

    fn wait_for_more(&mut self, now: Instant) -> Result<Option<Message>, VhostUserError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let begun = *self.begun.get_or_insert(now);
        if now.saturating_duration_since(begun) > MESSAGE_TIMEOUT {
            return Err(VhostUserError::Invalid("a message that stopped half-way"));
        }
        Ok(None)
    }

    /// Bytes of the header that have not come or, behind it, of the body.
    fn missing(&self) -> Result<usize, VhostUserError> {
        if self.bytes.len() < HEADER_BYTES {
            return Ok(HEADER_BYTES - self.bytes.len());
        }
        let [_, flags, len] = self.header();
        if flags & VERSION_MASK != VERSION {
            return Err(VhostUserError::Version(flags & VERSION_MASK));
        }
        if len as usize > MAX_BODY_BYTES {
            return Err(VhostUserError::TooLong(len));
        }
        Ok(HEADER_BYTES + len as usize - self.bytes.len())
    }

    /// Code, flags, and length of the body in bytes.
    fn header(&self) -> [u32; 3] {
        [0, 4, 8].map(|at| u32_at(&self.bytes, at).unwrap_or_default())
    }

    fn take(&mut self) -> Result<Message, VhostUserError> {
        let [code, flags, _] = self.header();
        let Incoming { bytes, files, .. } = std::mem::take(self);
        let request = decode(code, &bytes[HEADER_BYTES..])?;
        Ok(Message { request, files, code, needs_ack: flags & FLAG_NEED_REPLY != 0 })
    }
}

impl Message {
    /// Answers with a number.
    pub(super) fn reply_u64(&self, to: &UnixStream, value: u64) -> std::io::Result<()> {
        self.reply(to, &value.to_le_bytes())
    }

    /// Answers with a vring's state.
    pub(super) fn reply_vring(
        &self,
        to: &UnixStream,
        index: u32,
        value: u32,
    ) -> std::io::Result<()> {
        let mut body = [0; 8];
        body[..4].copy_from_slice(&index.to_le_bytes());
        body[4..].copy_from_slice(&value.to_le_bytes());
        self.reply(to, &body)
    }

    /// Says how it went, if the kernel wants to know: 0 for well.
    pub(super) fn acknowledge(&self, to: &UnixStream, done: bool) -> std::io::Result<()> {
        if self.needs_ack { self.reply_u64(to, u64::from(!done)) } else { Ok(()) }
    }

    fn reply(&self, to: &UnixStream, body: &[u8]) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&self.code.to_le_bytes());
        bytes.extend_from_slice(&(VERSION | FLAG_REPLY).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(body);
        // There is room for thousands of answers; a kernel that leaves them all lying is none.
        match send(to, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }
}

/// Bytes and files that have come, without waiting; `None` if none have. No bytes are the end.
fn receive_with_files(
    stream: &UnixStream,
    into: &mut [u8],
) -> Result<Option<(usize, Vec<File>)>, VhostUserError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = match recvmsg(stream, &mut [IoSliceMut::new(into)], &mut ancillary, flags) {
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        received => received.map_err(std::io::Error::from)?,
    };
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds.map(File::from));
        }
    }
    if received.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
        return Err(VhostUserError::Invalid(TOO_MANY_FILES));
    }
    Ok(Some((received.bytes, files)))
}

fn decode(code: u32, body: &[u8]) -> Result<Request, VhostUserError> {
    let short = || VhostUserError::TooShort { request: code, len: body.len() };
    let word = |at| u32_at(body, at).ok_or_else(short);
    let long = |at| u64_at(body, at).ok_or_else(short);
    let vring_file = || {
        let value = long(0)?;
        Ok::<_, VhostUserError>(((value & VRING_INDEX_MASK) as u32, value & NO_FILE == 0))
    };
    Ok(match code {
        1 => Request::GetFeatures,
        2 => Request::SetFeatures,
        3 => Request::SetOwner,
        4 => Request::ResetOwner,
        5 => Request::SetMemTable(decode_regions(body).ok_or_else(short)?),
        8 => Request::SetVringNum { index: word(0)?, size: word(4)? },
        9 => Request::SetVringAddr {
            index: word(0)?,
            descriptors: long(8)?,
            used: long(16)?,
            available: long(24)?,
        },
        10 => Request::SetVringBase { index: word(0)?, base: word(4)? },
        11 => Request::GetVringBase { index: word(0)? },
        12 => vring_file().map(|(index, has_file)| Request::SetVringKick { index, has_file })?,
        13 => vring_file().map(|(index, has_file)| Request::SetVringCall { index, has_file })?,
        14 => vring_file().map(|(index, has_file)| Request::SetVringErr { index, has_file })?,
        15 => Request::GetProtocolFeatures,
        16 => Request::SetProtocolFeatures,
        17 => Request::GetQueueNum,
        18 => Request::SetVringEnable { index: word(0)?, enable: word(4)? != 0 },
        21 => Request::SetBackendRequestFd,
        other => return Err(VhostUserError::Unknown(other)),
    })
}

fn decode_regions(body: &[u8]) -> Option<Vec<Region>> {
    const FIRST: usize = 8;
    const BYTES: usize = 32;
    let count = u32_at(body, 0)? as usize;
    if count > MAX_FILES {
        return None;
    }
    (0..count)
        .map(|index| {
            let at = FIRST + index * BYTES;
            Some(Region {
                bus: u64_at(body, at)?,
                len: u64_at(body, at + 8)?,
                user: u64_at(body, at + 16)?,
                file_offset: u64_at(body, at + 24)?,
            })
        })
        .collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};

    use super::*;
    use proptest::prelude::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    use warikomi_testbench::seen_at_last;

    type Received = Result<Option<Message>, VhostUserError>;

    fn bytes(code: u32, flags: u32, len: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = [code, flags, len].map(u32::to_le_bytes).concat();
        bytes.extend_from_slice(body);
        bytes
    }

    /// What comes of this, at once and much later.
    fn sent(code: u32, flags: u32, len: u32, body: &[u8]) -> [Received; 2] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&bytes(code, flags, len, body)).unwrap();
        let (mut incoming, now) = (Incoming::default(), Instant::now());
        [now, now + 2 * MESSAGE_TIMEOUT].map(|at| incoming.receive(&ours, at))
    }

    fn refused(code: u32, flags: u32, len: u32, body: &[u8]) -> VhostUserError {
        let [at_once, _] = sent(code, flags, len, body);
        at_once.unwrap_err()
    }

    #[test]
    fn takes_a_memory_table_that_is_longer_than_its_count() {
        // As UML sends it: one region, room for two.
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
        for value in [0x1000u64, 0x2000, 0x7000, 0x1000, 0, 0, 0, 0] {
            body.extend_from_slice(&value.to_le_bytes());
        }
        let [message, after] = sent(5, 1, body.len() as u32, &body);
        let region = Region { bus: 0x1000, len: 0x2000, user: 0x7000, file_offset: 0x1000 };
        assert_eq!(message.unwrap().unwrap().request, Request::SetMemTable(vec![region]));
        assert!(matches!(after, Ok(None)), "nothing is waited for any more");
    }

    #[test]
    fn each_fault_has_its_own_error() {
        assert!(matches!(refused(1, 2, 0, &[]), VhostUserError::Version(2)));
        assert!(matches!(refused(1, 1, 1 << 20, &[]), VhostUserError::TooLong(_)));
        assert!(matches!(refused(99, 1, 0, &[]), VhostUserError::Unknown(99)));
        assert!(matches!(refused(9, 1, 4, &[0; 4]), VhostUserError::TooShort { .. }));
        let [at_once, later] = sent(9, 1, 40, &[0; 4]);
        assert!(matches!(at_once, Ok(None)) && matches!(later, Err(VhostUserError::Invalid(_))));
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let closed = || Incoming::default().receive(&ours, Instant::now());
        assert!(seen_at_last(|| matches!(closed(), Err(VhostUserError::Closed))));
    }

    #[test]
    fn bytes_that_drip_are_one_message_in_one_time() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let message = bytes(8, 1, 8, &[1, 0, 0, 0, 16, 0, 0, 0]);
        let begun = Instant::now();
        let drip = |theirs: &mut UnixStream, incoming: &mut Incoming, every: Duration| {
            let mut at = begun;
            message
                .iter()
                .map(|byte| {
                    at += every;
                    theirs.write_all(&[*byte]).unwrap();
                    incoming.receive(&ours, at)
                })
                .collect::<Vec<Received>>()
        };
        let mut incoming = Incoming::default();
        let mut all = drip(&mut theirs, &mut incoming, MESSAGE_TIMEOUT / 100);
        let request = all.pop().unwrap().unwrap().unwrap().request;
        assert_eq!(request, Request::SetVringNum { index: 1, size: 16 });
        assert!(all.iter().all(|part| matches!(part, Ok(None))) && !incoming.is_waiting());
        // Each byte comes soon after the one before, and all of it would take much too long.
        let all = drip(&mut theirs, &mut incoming, MESSAGE_TIMEOUT / 4);
        let held = all.iter().take_while(|part| matches!(part, Ok(None))).count();
        assert_eq!(held, 5);
        assert!(matches!(all[held], Err(VhostUserError::Invalid(_))));
    }

    /// A byte of a message, with the same file so often.
    fn send_with_files(to: &UnixStream, byte: u8, files: usize) {
        let file = std::fs::File::open("/dev/null").unwrap();
        let files: Vec<BorrowedFd<'_>> = vec![file.as_fd(); files];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        let bytes = [byte];
        sendmsg(to, &[std::io::IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    }

    #[test]
    fn more_files_than_a_message_may_have_are_refused_however_they_come() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_with_files(&theirs, 1, MAX_FILES + 1);
        let all = Incoming::default().receive(&ours, Instant::now());
        assert!(matches!(all, Err(VhostUserError::Invalid(TOO_MANY_FILES))), "{all:?}");
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut incoming = Incoming::default();
        send_with_files(&theirs, 1, MAX_FILES);
        assert!(matches!(incoming.receive(&ours, Instant::now()), Ok(None)));
        send_with_files(&theirs, 0, 1);
        let more = incoming.receive(&ours, Instant::now());
        assert!(matches!(more, Err(VhostUserError::Invalid(TOO_MANY_FILES))), "{more:?}");
    }

    #[test]
    fn answers_that_are_left_lying_are_an_error_and_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let request = Request::GetFeatures;
        let message = Message { request, files: Vec::new(), code: 1, needs_ack: false };
        let refused = (0..1 << 20).find_map(|_| message.reply_u64(&ours, 7).err());
        assert!(refused.is_some());
        drop(theirs);
    }

    proptest! {
        #[test]
        fn never_panics(code in 0u32..30, body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(code, &body);
        }
    }
}

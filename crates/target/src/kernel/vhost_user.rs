//! The vhost-user messages that a User Mode Linux kernel sends (QEMU documentation,
//! `interop/vhost-user.rst`; Linux `arch/um/drivers/vhost_user.h`).
//!
//! The `vhost` crate would be the natural choice, but it refuses this kernel: UML always sends a
//! memory table of two regions' length, also when it says that only one is used, and the crate
//! wants the length to match the count to the byte.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

const HEADER_BYTES: usize = 12;
/// No message that a kernel sends us is longer.
const MAX_BODY_BYTES: usize = 1024;
/// The specification's limit on regions in one table, and so on files in one message.
const MAX_FILES: usize = 8;

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

impl Message {
    /// Waits for one message, up to the stream's read timeout.
    pub(super) fn receive(stream: &mut UnixStream) -> Result<Message, VhostUserError> {
        let mut header = [0; HEADER_BYTES];
        let (read, files) = receive_with_files(stream, &mut header)?;
        if read == 0 {
            return Err(VhostUserError::Closed);
        }
        read_exact(stream, &mut header[read..])?;
        let word = |at: usize| u32_at(&header, at).unwrap_or_default();
        let (code, flags, len) = (word(0), word(4), word(8));
        if flags & VERSION_MASK != VERSION {
            return Err(VhostUserError::Version(flags & VERSION_MASK));
        }
        if len as usize > MAX_BODY_BYTES {
            return Err(VhostUserError::TooLong(len));
        }
        let mut body = vec![0; len as usize];
        read_exact(stream, &mut body)?;
        let request = decode(code, &body)?;
        Ok(Message { request, files, code, needs_ack: flags & FLAG_NEED_REPLY != 0 })
    }

    /// Answers with a number.
    pub(super) fn reply_u64(&self, to: &mut UnixStream, value: u64) -> std::io::Result<()> {
        self.reply(to, &value.to_le_bytes())
    }

    /// Answers with a vring's state.
    pub(super) fn reply_vring(
        &self,
        to: &mut UnixStream,
        index: u32,
        value: u32,
    ) -> std::io::Result<()> {
        let mut body = [0; 8];
        body[..4].copy_from_slice(&index.to_le_bytes());
        body[4..].copy_from_slice(&value.to_le_bytes());
        self.reply(to, &body)
    }

    /// Says how it went, if the kernel wants to know: 0 for well.
    pub(super) fn acknowledge(&self, to: &mut UnixStream, done: bool) -> std::io::Result<()> {
        if self.needs_ack { self.reply_u64(to, u64::from(!done)) } else { Ok(()) }
    }

    fn reply(&self, to: &mut UnixStream, body: &[u8]) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&self.code.to_le_bytes());
        bytes.extend_from_slice(&(VERSION | FLAG_REPLY).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(body);
        to.write_all(&bytes)
    }
}

fn receive_with_files(
    stream: &UnixStream,
    into: &mut [u8],
) -> Result<(usize, Vec<File>), VhostUserError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(into)], &mut ancillary, flags)
        .map_err(std::io::Error::from)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds.map(File::from));
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(VhostUserError::Invalid("a message with more than 8 files"));
    }
    Ok((received.bytes, files))
}

fn read_exact(stream: &mut UnixStream, into: &mut [u8]) -> Result<(), VhostUserError> {
    stream.read_exact(into).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => VhostUserError::Closed,
        ErrorKind::WouldBlock => VhostUserError::Invalid("a message that stopped half-way"),
        _ => error.into(),
    })
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
    use super::*;
    use proptest::prelude::*;

    fn sent(code: u32, flags: u32, len: u32, body: &[u8]) -> Result<Message, VhostUserError> {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        for word in [code, flags, len] {
            theirs.write_all(&word.to_le_bytes()).unwrap();
        }
        theirs.write_all(body).unwrap();
        Message::receive(&mut ours)
    }

    #[test]
    fn takes_a_memory_table_that_is_longer_than_its_count() {
        // As UML sends it: one region, room for two.
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
        for value in [0x1000u64, 0x2000, 0x7000, 0x1000, 0, 0, 0, 0] {
            body.extend_from_slice(&value.to_le_bytes());
        }
        let message = sent(5, 1, body.len() as u32, &body).unwrap();
        let region = Region { bus: 0x1000, len: 0x2000, user: 0x7000, file_offset: 0x1000 };
        assert_eq!(message.request, Request::SetMemTable(vec![region]));
    }

    #[test]
    fn each_fault_has_its_own_error() {
        assert!(matches!(sent(1, 2, 0, &[]), Err(VhostUserError::Version(2))));
        assert!(matches!(sent(1, 1, 1 << 20, &[]), Err(VhostUserError::TooLong(_))));
        assert!(matches!(sent(99, 1, 0, &[]), Err(VhostUserError::Unknown(99))));
        assert!(matches!(sent(9, 1, 4, &[0; 4]), Err(VhostUserError::TooShort { .. })));
        assert!(matches!(sent(9, 1, 40, &[0; 4]), Err(VhostUserError::Invalid(_))));
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(matches!(Message::receive(&mut ours), Err(VhostUserError::Closed)));
    }

    proptest! {
        #[test]
        fn never_panics(code in 0u32..30, body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(code, &body);
        }
    }
}

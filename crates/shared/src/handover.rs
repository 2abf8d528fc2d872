//! Handing files and a few bytes to another process, over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Files in one message.
pub const MOST_FILES: usize = 8;

/// Bytes in one message.
pub const MOST_MESSAGE_BYTES: usize = 4_096;

/// Sends `message` and `files` over a socket that keeps messages apart (SOCK_SEQPACKET).
pub fn send(socket: impl AsFd, message: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    if files.len() > MOST_FILES || message.is_empty() || message.len() > MOST_MESSAGE_BYTES {
        let what = format!("a message of {} bytes and {} files", message.len(), files.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, flags)?;
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives what [`send`] sent; an empty message is the end of the connection. An error, and the message is gone, if it
/// is longer than one may be, or if files are missing that came with it: too many, or more than this process may have
/// open.
pub fn receive(socket: impl AsFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut message = vec![0; MOST_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut message)];
    let received = recvmsg(socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            files.extend(some);
        }
    }
    let cut = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if received.flags.contains(ReturnFlags::TRUNC) {
        return cut(format!("a message of more than {MOST_MESSAGE_BYTES} bytes"));
    }
    // There may be room for one more than was asked for.
    if received.flags.contains(ReturnFlags::CTRUNC) || files.len() > MOST_FILES {
        return cut(format!(
            "not all files of a message arrived: there are more than {MOST_FILES}, or this process may open no more"
        ));
    }
    message.truncate(received.bytes);
    Ok((message, files))
}

/// Takes over a file that this process was started with, by its number. Children do not inherit it.
///
/// To be called once for a number, and for none that somebody else in this process may hold.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // Files may be handed over as standard input; the other two are for words.
    if matches!(number, 1 | 2) {
        let what = format!("{number} is a standard stream, not a file handed over");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // SAFETY: it is looked at before it is used, and given up again if it is not open.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: it is open, as the call before has shown, and by this function's contract nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_message_that_is_cut_is_an_error_and_the_next_one_arrives() {
        let (near, far) = pair();
        let file = crate::create_region("test", 4_096).unwrap();
        rustix::net::send(&near, &[0; MOST_MESSAGE_BYTES + 1], SendFlags::empty()).unwrap();
        let error = receive(&far).unwrap_err().to_string();
        assert!(error.contains("4096 bytes"), "{error}");

        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        for count in [MOST_FILES + 1, 2 * MOST_FILES] {
            let many = vec![file.as_fd(); count];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * MOST_FILES))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&many)));
            sendmsg(&near, &[IoSlice::new(b"many")], &mut ancillary, SendFlags::empty()).unwrap();
            let error = receive(&far).unwrap_err().to_string();
            assert!(error.contains("more than 8"), "{error}");
        }
        // Other tests of this process open some, too, but not for ever.
        let closed = (0..1_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            open() <= before
        });
        assert!(closed, "the files that did arrive are let go of");

        send(&near, b"next", &[file.as_fd(); MOST_FILES]).unwrap();
        let (message, files) = receive(&far).unwrap();
        assert_eq!((message.as_slice(), files.len()), (b"next".as_slice(), MOST_FILES));
    }

    #[test]
    fn a_message_arrives_with_its_files_and_the_end_is_seen() {
        let (near, far) = pair();
        let file = crate::create_region("test", 4_096).unwrap();
        send(&near, b"hello", &[file.as_fd(), file.as_fd()]).unwrap();
        send(&near, b"again", &[]).unwrap();
        let (message, files) = receive(&far).unwrap();
        assert_eq!((message.as_slice(), files.len()), (b"hello".as_slice(), 2));
        let (message, files) = receive(&far).unwrap();
        assert_eq!((message.as_slice(), files.len()), (b"again".as_slice(), 0));
        let number = std::os::fd::IntoRawFd::into_raw_fd(far);
        let far = inherited(number).unwrap();
        drop(near);
        assert!(inherited(2).is_err() && inherited(1 << 20).is_err());
        assert!(receive(&far).unwrap().0.is_empty());
    }
}

//! Handing files and a few bytes to another process, over a Unix socket.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_type;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Files in one message.
pub const MOST_FILES: usize = 8;

/// Bytes in one message.
pub const MOST_MESSAGE_BYTES: usize = 4_096;

/// Both ends of a socket that keeps messages apart (SOCK_SEQPACKET).
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Whether there is something to be read, or never will be.
pub fn is_readable(file: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&file, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|readable| readable > 0)
}

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

/// Takes over the socket with which this process was started as its standard input; children do not inherit it.
///
/// Standard input belongs to the whole process, so it is never closed: the socket is copied, and `/dev/null` put in
/// its place. A second call therefore finds no socket, which is an error, as any other standard input is.
pub fn take_input() -> io::Result<OwnedFd> {
    let input = io::stdin();
    if socket_type(&input)? != SocketType::SEQPACKET {
        let what = "standard input is no socket that keeps messages apart";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let socket = input.as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socket_pair().unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no sockets of messages under Miri")]
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
    #[cfg_attr(miri, ignore = "there are no sockets of messages under Miri")]
    fn what_is_too_much_for_a_message_is_not_sent() {
        let (near, far) = pair();
        let file = crate::create_region("test", 4_096).unwrap();
        let bytes = [7; MOST_MESSAGE_BYTES + 1];
        let most = &bytes[1..];
        for (message, files) in [(&[][..], 0), (&bytes[..], 0), (most, MOST_FILES + 1)] {
            let refused = send(&near, message, &vec![file.as_fd(); files]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        send(&near, most, &[file.as_fd(); MOST_FILES]).unwrap();
        let (message, files) = receive(&far).unwrap();
        assert_eq!((message.as_slice(), files.len()), (most, MOST_FILES));
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no sockets of messages under Miri")]
    fn a_message_arrives_with_its_files_and_the_end_is_seen() {
        let (near, far) = pair();
        let file = crate::create_region("test", 4_096).unwrap();
        send(&near, b"hello", &[file.as_fd(), file.as_fd()]).unwrap();
        send(&near, b"again", &[]).unwrap();
        let (message, files) = receive(&far).unwrap();
        assert_eq!((message.as_slice(), files.len()), (b"hello".as_slice(), 2));
        let (message, files) = receive(&far).unwrap();
        assert_eq!((message.as_slice(), files.len()), (b"again".as_slice(), 0));
        drop(near);
        assert!(receive(&far).unwrap().0.is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no sockets of messages under Miri")]
    fn standard_input_is_taken_once_and_only_if_it_is_a_socket() {
        rustix::stdio::dup2_stdin(File::open("/dev/null").unwrap()).unwrap();
        assert!(take_input().is_err());
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::stdio::dup2_stdin(&far).unwrap();
        drop(far);
        let taken = take_input().unwrap();
        assert!(take_input().is_err(), "it was taken before");
        send(&near, b"hello", &[]).unwrap();
        assert_eq!(receive(&taken).unwrap().0, b"hello");
        drop(taken);
        // Standard input does not keep it open.
        assert!(send(&near, b"gone?", &[]).is_err());
    }
}

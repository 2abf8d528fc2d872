//! Netlink: requests to the kernel, and its answers.
//!
//! Requests of an attribute or a few each do not ask for a library. What comes back is the kernel's, and lengths are
//! checked all the same.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::error::{Context, Result};

/// `linux/netlink.h`.
const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
pub(super) const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const MESSAGE_HEAD_BYTES: usize = 16;
const ATTRIBUTE_HEAD_BYTES: usize = 4;
/// The two highest bits of an attribute's type are flags.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// The kernel answers at once; this is for one that does not.
const PATIENCE_S: i64 = 1;
/// An answer's room: the kernel's own messages are at most so long.
const ANSWER_BYTES: usize = 32 * 1024;
/// Most answers to one request: whatever has more is none of ours.
const MOST_ANSWERS: usize = 64;

/// A socket to a part of the kernel.
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open(protocol: SockProtocol) -> Result<Netlink> {
        let kind = (AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC);
        let socket = socket(kind.0, kind.1, kind.2, protocol)
            .context(|| "open a netlink socket".to_owned())?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE_S))
            .context(|| "set the netlink socket's timeout".to_owned())?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sends a request, and collects the bodies of the answers up to the last.
    pub(super) fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let message = request(kind, flags, self.sequence, body);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answers = Vec::new();
        let mut room = vec![0; ANSWER_BYTES];
        for _ in 0..MOST_ANSWERS {
            let length = recv(self.socket.as_raw_fd(), &mut room, MsgFlags::empty())?;
            for (kind, sequence, body) in messages(&room[..length]) {
                match kind {
                    _ if sequence != self.sequence => {}
                    NLMSG_DONE | NLMSG_ERROR => return ended(kind, body).map(|()| answers),
                    _ => answers.push(body.to_vec()),
                }
            }
        }
        Err(io::Error::other("more answers than there can be"))
    }
}

/// What the end of an answer says: a negative error number, or 0.
fn ended(kind: u16, body: &[u8]) -> io::Result<()> {
    let number = body.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match number {
        Some(0) => Ok(()),
        Some(number @ ..0) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
        // The end of a dump need not say how it went.
        _ if kind == NLMSG_DONE => Ok(()),
        _ => Err(io::Error::other("an error without a number")),
    }
}

fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = MESSAGE_HEAD_BYTES + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(body);
    message
}

/// Type, value and padding of an attribute.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = ATTRIBUTE_HEAD_BYTES + value.len();
    let mut bytes = Vec::with_capacity(aligned(length));
    bytes.extend((length as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(aligned(length), 0);
    bytes
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Type, sequence number and body of each message. A length that cannot be ends them.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
        let sequence = u32::from_ne_bytes(rest.get(8..12)?.try_into().ok()?);
        let body = rest.get(MESSAGE_HEAD_BYTES..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, sequence, body))
    })
}

/// Type and value of each attribute. A length that cannot be ends them.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & ATTRIBUTE_TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEAD_BYTES..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut body = attribute(2, b"netdev\0");
        body.extend(attribute(0x8007, &9u64.to_ne_bytes()));
        assert_eq!(body.len(), 12 + 12);
        let message = request(0x10, NLM_F_DUMP, 5, &body);
        let two = [message.clone(), message].concat();
        let read: Vec<_> = messages(&two).collect();
        assert_eq!(read.len(), 2);
        let (kind, sequence, body) = read[1];
        assert_eq!((kind, sequence), (0x10, 5));
        let read: Vec<_> = attributes(body).collect();
        assert_eq!(read, [(2, &b"netdev\0"[..]), (7, &9u64.to_ne_bytes()[..])]);
    }

    #[test]
    fn lengths_that_cannot_be_end_it() {
        for length in [0u32, 3, 15, 17, u32::MAX] {
            let mut message = request(1, 0, 1, &[]);
            message.truncate(MESSAGE_HEAD_BYTES);
            message[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&message).count(), 0, "{length}");
        }
        for length in [0u16, 3, 9, u16::MAX] {
            let mut bytes = attribute(1, &[1, 2, 3, 4]);
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(attributes(&bytes).count(), 0, "{length}");
        }
        let mut noise = 7u32;
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (noise >> 29) as u8
                })
                .collect();
            assert!(messages(&bytes).count() <= 3 && attributes(&bytes).count() <= 10);
        }
    }

    #[test]
    fn an_end_says_how_it_went() {
        assert!(ended(NLMSG_ERROR, &0i32.to_ne_bytes()).is_ok());
        assert!(ended(NLMSG_DONE, &[]).is_ok());
        assert!(ended(NLMSG_ERROR, &[1]).is_err());
        let refused = ended(NLMSG_ERROR, &(-95i32).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(95));
        assert!(ended(NLMSG_ERROR, &i32::MIN.to_ne_bytes()).is_err());
    }
}

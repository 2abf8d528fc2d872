//! The receive contexts (NAPI) of an interface, by netdev's generic netlink
//! (`Documentation/netlink/specs/netdev.yaml` in the kernel's tree).
//!
//! Two requests of one attribute or two each do not ask for a library. What comes back is the
//! kernel's, and lengths are checked all the same.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use warikomi_protocol::answers::InterruptsSuspended;
use warikomi_protocol::commands::SuspendInterrupts;

use super::error::{AgentError, Context, Result};
use super::netif::Interface;

/// `linux/netlink.h`.
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const MESSAGE_HEAD_BYTES: usize = 16;
const ATTRIBUTE_HEAD_BYTES: usize = 4;
/// The two highest bits of an attribute's type are flags.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// `linux/genetlink.h`.
const GENL_ID_CTRL: u16 = 0x10;
const GENL_HEAD_BYTES: usize = 4;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// `linux/netdev.h`.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;

/// The kernel answers at once; this is for one that does not.
const PATIENCE_S: i64 = 1;
/// An answer's room: the kernel's own messages are at most so long.
const ANSWER_BYTES: usize = 32 * 1024;
/// Most answers to one request: a device with more contexts is none of ours.
const MOST_ANSWERS: usize = 64;

/// Sets how long interrupts may stay suspended, for every receive context of the interface.
pub(super) fn suspend_interrupts(
    interface: &Interface,
    command: &SuspendInterrupts,
) -> Result<InterruptsSuspended> {
    let index: u32 = interface
        .number("ifindex")
        .ok_or_else(|| AgentError::Other(format!("{} has no index", interface.name)))?;
    let mut netdev = Netdev::open()?;
    let napi_ids = netdev.napi_ids(index)?;
    if napi_ids.is_empty() {
        return Err(AgentError::Other(format!(
            "{} has no receive context that can be named; is it up?",
            interface.name
        )));
    }
    for id in &napi_ids {
        netdev.set_suspend_timeout(*id, command.timeout_ns)?;
    }
    Ok(InterruptsSuspended { napi_ids })
}

/// A socket to the kernel's netdev family.
struct Netdev {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl Netdev {
    fn open() -> Result<Netdev> {
        let opened = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkGeneric,
        );
        let socket = opened.context(|| "open a generic netlink socket".to_owned())?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE_S))
            .context(|| "set the netlink socket's timeout".to_owned())?;
        let mut netdev = Netdev { socket, family: GENL_ID_CTRL, sequence: 0 };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let answers = netdev
            .ask(CTRL_CMD_GETFAMILY, NLM_F_ACK, &name)
            .context(|| "find netdev's generic netlink".to_owned())?;
        let id = answers.iter().find_map(|answer| {
            attributes(answer).find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)?.1.try_into().ok()
        });
        netdev.family = id.map(u16::from_ne_bytes).ok_or_else(|| {
            AgentError::Other("netdev's generic netlink has no number".to_owned())
        })?;
        Ok(netdev)
    }

    fn napi_ids(&mut self, interface: u32) -> Result<Vec<u32>> {
        let wanted = attribute(NETDEV_A_NAPI_IFINDEX, &interface.to_ne_bytes());
        let answers = self
            .ask(NETDEV_CMD_NAPI_GET, NLM_F_DUMP, &wanted)
            .context(|| "list the receive contexts (netdev's napi-get)".to_owned())?;
        let id = |answer: &Vec<u8>| {
            let id = attributes(answer).find(|(kind, _)| *kind == NETDEV_A_NAPI_ID)?.1;
            id.try_into().ok().map(u32::from_ne_bytes)
        };
        Ok(answers.iter().filter_map(id).collect())
    }

    fn set_suspend_timeout(&mut self, napi_id: u32, timeout_ns: u64) -> Result<()> {
        let mut wanted = attribute(NETDEV_A_NAPI_ID, &napi_id.to_ne_bytes());
        wanted.extend(attribute(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &timeout_ns.to_ne_bytes()));
        self.ask(NETDEV_CMD_NAPI_SET, NLM_F_ACK, &wanted).map(|_| ()).context(|| {
            "suspend interrupts (netdev's napi-set with irq-suspend-timeout)".to_owned()
        })
    }

    /// Sends a request, and collects the attributes of the answers up to the last.
    fn ask(&mut self, command: u8, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let message = request(self.family, flags, self.sequence, command, body);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answers = Vec::new();
        let mut room = vec![0; ANSWER_BYTES];
        for _ in 0..MOST_ANSWERS {
            let length = recv(self.socket.as_raw_fd(), &mut room, MsgFlags::empty())?;
            for (kind, sequence, body) in messages(&room[..length]) {
                match kind {
                    _ if sequence != self.sequence => {}
                    NLMSG_DONE | NLMSG_ERROR => return ended(kind, body).map(|()| answers),
                    _ => answers.extend(body.get(GENL_HEAD_BYTES..).map(<[u8]>::to_vec)),
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

fn request(family: u16, flags: u16, sequence: u32, command: u8, body: &[u8]) -> Vec<u8> {
    let length = MESSAGE_HEAD_BYTES + GENL_HEAD_BYTES + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend([command, 1, 0, 0]);
    message.extend(body);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
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
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
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
        let message = request(0x10, NLM_F_DUMP, 5, 3, &body);
        let two = [message.clone(), message].concat();
        let read: Vec<_> = messages(&two).collect();
        assert_eq!(read.len(), 2);
        let (kind, sequence, body) = read[1];
        assert_eq!((kind, sequence, body[0]), (0x10, 5, 3));
        let read: Vec<_> = attributes(&body[GENL_HEAD_BYTES..]).collect();
        assert_eq!(read, [(2, &b"netdev\0"[..]), (7, &9u64.to_ne_bytes()[..])]);
    }

    #[test]
    fn lengths_that_cannot_be_end_it() {
        for length in [0u32, 3, 15, 17, u32::MAX] {
            let mut message = request(1, 0, 1, 1, &[]);
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

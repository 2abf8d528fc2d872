//! What the driver's system is doing while an interrupt strikes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_nic::{Frame, Link, RxError, RxFault};
use warikomi_protocol::Request;
use warikomi_protocol::commands::{Configure, LinkDown, Renegotiate, TransmitTcp};
use warikomi_session::link_up;
use warikomi_target::CardId;
use warikomi_wire::Responder;

use super::frames;
use super::scene::Scene;
use crate::error::Error;

/// The lengths of the requests of a ping, in bytes: in the header's cache line, and beyond what is copied.
const PING_BYTES: [usize; 2] = [64, 1_400];

/// The partner at the other end of a cable that is plugged in again.
pub(super) const PARTNER: Link = Link::Up { mbps: 1_000 };

/// Length of a stream, in bytes: more than one segment, less than the socket's buffer.
const STREAM_BYTES: u64 = 32 * 1_024;

/// Longer than the kernel's watchdog waits: 5 s, unless a driver says otherwise (Linux net/sched/sch_generic.c).
const WATCHDOG: Span = Span::from_ms(8_000);

/// How long the cable is out.
const CABLE_OUT: Span = Span::from_ms(5);

/// What goes on in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Echo requests come, short and long, and the kernel answers them through the driver.
    Ping,
    /// Frames with errors come between requests, and an interrupt without a reason.
    BadFrames,
    /// The interface is taken down, and up again when it has struck.
    Down,
    /// The interface, which was down, is taken up.
    Up,
    /// Autonegotiation is restarted.
    Renegotiate,
    /// The largest packet changes, and back.
    Mtu,
    /// The cable is pulled and plugged in again.
    Cable,
    /// A stream goes out by TCP, segmented by the card.
    Stream,
    /// Frames go out that the card has to finish: checksums, segments, tags.
    Frames,
    /// Frames with errors come, which the driver was told to keep; and some that are for others.
    Kept,
    /// More frames go out than the ring has room for, while the partner pauses the card.
    Crowd,
    /// The same until the kernel's watchdog has the driver reset the card.
    Timeout,
}

/// Every operation, as it is written, and what it is for.
pub const OPERATIONS: [(Operation, &str, &str); 12] = [
    (Operation::Ping, "ping", "echo requests that the kernel answers"),
    (
        Operation::BadFrames,
        "bad frames",
        "frames with errors, and an interrupt without a reason, between echo requests",
    ),
    (Operation::Down, "ip link set eth0 down", "the interface down, and up again behind it"),
    (Operation::Up, "ip link set eth0 up", "the interface up, which was taken down before"),
    (Operation::Mtu, "ip link set eth0 mtu 1400", "another MTU, and the old one behind it"),
    (Operation::Renegotiate, "ethtool -r eth0", "autonegotiation anew"),
    (Operation::Stream, "stream", "a stream over TCP that the card segments"),
    (
        Operation::Frames,
        "frames",
        "frames with checksums, segments and tags that the card has to make",
    ),
    (
        Operation::Kept,
        "ethtool -K eth0 rx-all on",
        "frames with errors, which the driver keeps, with tags and for groups",
    ),
    (
        Operation::Crowd,
        "crowd",
        "more frames than the ring has room for, while the partner pauses the card",
    ),
    (
        Operation::Timeout,
        "tx timeout",
        "the same until the kernel's watchdog has the driver reset the card; with --virtual, as it takes seconds",
    ),
    (Operation::Cable, "cable", "the cable pulled and plugged in again"),
];

/// Every operation, for help.
pub(crate) fn operation_help() -> String {
    let mut help = "What the driver is made to do; one of:\n".to_owned();
    for (_, text, what) in OPERATIONS {
        help.push_str(&format!("\n- {text}: {what}"));
    }
    help
}

/// What makes a driver keep frames with errors.
const KEEP: &str = "rxall";

/// Where the type of a frame is: behind two addresses.
const ETHER_TYPE: usize = 12;

/// The group of all hosts (RFC 1112).
const ALL_HOSTS: [u8; 6] = [0x01, 0x00, 0x5e, 0, 0, 1];

/// The MTU for a while.
const OTHER_MTU: u32 = 1_400;

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = OPERATIONS.iter().find(|(operation, _, _)| operation == self);
        f.write_str(known.map_or("", |(_, text, _)| text))
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Operation, String> {
        let known = OPERATIONS.iter().find(|(_, known, _)| *known == text.trim());
        known.map(|(operation, _, _)| *operation).ok_or_else(|| {
            let all: Vec<_> = OPERATIONS.iter().map(|(_, text, _)| format!("'{text}'")).collect();
            format!("there is no operation '{text}'; there are {}", all.join(", "))
        })
    }
}

impl Operation {
    /// Whether packets may be lost meanwhile because the interface or the cable is out.
    pub(super) fn may_lose(self) -> bool {
        matches!(
            self,
            Operation::Down
                | Operation::Up
                | Operation::Renegotiate
                | Operation::Mtu
                | Operation::Cable
                | Operation::Timeout
        )
    }

    /// Refuses what takes too long in this time.
    pub(crate) fn check(self, virtual_time: bool) -> Result<(), Error> {
        if self == Operation::Timeout && !virtual_time {
            return Err(Error::impossible(format!(
                "--operation '{self}' waits {WATCHDOG} for the kernel's watchdog each time; give --virtual, where that \
                 takes no time of yours"
            )));
        }
        Ok(())
    }

    /// Whether nothing of it happens while the cable is out.
    pub(super) fn needs_cable(self) -> bool {
        !self.may_lose()
    }

    /// Whether the guest's agent carries it out, or the support side.
    pub(super) fn is_of_agent(self) -> bool {
        !matches!(self, Operation::Ping | Operation::BadFrames | Operation::Kept | Operation::Cable)
    }

    /// What the agent is asked for; `None` of what takes more than one request.
    pub(super) fn request(self) -> Option<Request> {
        match self {
            Operation::Down => Some(LinkDown { interface: None }.into()),
            Operation::Renegotiate => Some(Renegotiate { interface: None }.into()),
            Operation::Mtu => Some(with_mtu(OTHER_MTU).into()),
            _ => None,
        }
    }

    /// Puts the driver into the state in which the operation begins.
    pub(super) fn prepare(self, scene: &mut Scene) -> Result<(), Error> {
        match self {
            Operation::Up => {
                scene.session.target.ask(LinkDown { interface: None }, Duration::ZERO)?;
                Ok(())
            }
            Operation::Stream => scene.offload(&["sg", "tx", "tso"], true),
            Operation::Frames => frames::prepare(scene),
            Operation::Kept => scene.offload(&[KEEP], true),
            _ => Ok(()),
        }
    }

    /// Carries it out; of a ping, sends the requests.
    pub(super) fn perform(self, scene: &mut Scene) -> Result<(), Error> {
        match self {
            Operation::Ping => ping(scene),
            Operation::BadFrames => {
                for fault in [RxFault::Crc, RxFault::Length(70), RxFault::Alignment] {
                    bad_frame(scene, fault)?;
                }
                scene.interrupt_without_reason()?;
                ping(scene)
            }
            Operation::Down => {
                scene.session.target.ask(LinkDown { interface: None }, Duration::ZERO)?;
                Ok(())
            }
            Operation::Up => up(scene),
            Operation::Renegotiate => {
                scene.session.target.ask(Renegotiate { interface: None }, Duration::ZERO)?;
                Ok(())
            }
            Operation::Mtu => mtu(scene, OTHER_MTU),
            Operation::Cable => {
                scene.set_link(Link::Down)?;
                scene.serve_until(CABLE_OUT, |_| false)?;
                scene.set_link(PARTNER)
            }
            Operation::Stream => stream(scene),
            Operation::Frames => {
                frames::send(scene)?;
                ping(scene)
            }
            Operation::Kept => kept(scene),
            Operation::Crowd => {
                frames::crowd(scene, Span::ZERO)?;
                ping(scene)
            }
            Operation::Timeout => frames::crowd(scene, WATCHDOG),
        }
    }

    /// Puts everything back to where it was.
    pub(super) fn restore(self, scene: &mut Scene) -> Result<(), Error> {
        match self {
            Operation::Kept => scene.offload(&[KEEP], false),
            other if !other.may_lose() => Ok(()),
            Operation::Mtu => mtu(scene, scene.mtu),
            // Waits for the carrier.
            _ => up(scene),
        }
    }
}

pub(super) fn ping(scene: &mut Scene) -> Result<(), Error> {
    PING_BYTES.iter().try_for_each(|&bytes| scene.ping(bytes).map(drop))
}

/// A frame that the driver, or the card, must drop.
fn bad_frame(scene: &mut Scene, fault: RxFault) -> Result<(), Error> {
    let (_, frame) = scene.next_request(PING_BYTES[0])?;
    let (nic, mut host) = scene.session.target.card(CardId::FIRST)?;
    nic.receive_faulty(&mut host, Frame::new(&frame), fault);
    Ok(())
}

/// Sends a stream that the card segments.
fn stream(scene: &mut Scene) -> Result<(), Error> {
    let stream = TransmitTcp {
        count_bytes: STREAM_BYTES,
        write_bytes: STREAM_BYTES as u32,
        destination: format!("{}:{}", Responder::ADDRESS, Responder::TCP_PORT),
        timeout_ms: 1_000,
    };
    scene.session.target.ask(stream, Duration::from_secs(1))?;
    Ok(())
}

/// Frames that the driver was told to keep whatever is wrong with them, a tagged one, and one for a group.
fn kept(scene: &mut Scene) -> Result<(), Error> {
    for error in [RxError::Crc, RxError::Runt, RxError::TooLong] {
        bad_frame(scene, RxFault::Reported(error))?;
    }
    bad_frame(scene, RxFault::Crc)?;
    let (_, mut frame) = scene.next_request(PING_BYTES[0])?;
    let tag = [0x81, 0x00, 0x00, frames::VLAN as u8];
    let _ = frame.splice(ETHER_TYPE..ETHER_TYPE, tag);
    receive(scene, &frame)?;
    let (_, mut frame) = scene.next_request(PING_BYTES[0])?;
    frame[..ETHER_TYPE / 2].copy_from_slice(&ALL_HOSTS);
    receive(scene, &frame)?;
    ping(scene)
}

fn receive(scene: &mut Scene, frame: &[u8]) -> Result<(), Error> {
    let (nic, mut host) = scene.session.target.card(CardId::FIRST)?;
    nic.receive(&mut host, Frame::new(frame));
    Ok(())
}

pub(super) fn up(scene: &mut Scene) -> Result<(), Error> {
    Ok(link_up(&mut *scene.session.target)?)
}

fn mtu(scene: &mut Scene, bytes: u32) -> Result<(), Error> {
    scene.session.target.ask(with_mtu(bytes), Duration::ZERO)?;
    Ok(())
}

fn with_mtu(bytes: u32) -> Configure {
    Configure { mtu: Some(bytes), ..Configure::report_only() }
}

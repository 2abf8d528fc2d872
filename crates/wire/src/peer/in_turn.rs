//! Messages of a guest's senders, each in its turn: of the packet generator, or of a socket, in fragments or
//! whole.

use std::fmt;

use etherparse::{IpNumber, Ipv4Slice, NetSlice, SlicedPacket, TcpSlice, UdpHeaderSlice};
use warikomi_clock::Time;
use warikomi_protocol::payload::{HEAD_BYTES, Head};

use super::packet::{FILLER, headers_sound};
use super::{Fate, Judge};
use crate::UDP_HEADER_BYTES;

/// First four bytes of what pktgen sends (Linux net/core/pktgen.c, PKTGEN_MAGIC).
const PKTGEN_MAGIC: u32 = 0xbe9b_e955;

/// What a guest is going to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Frames of the packet generator.
    Pktgen {
        /// Payload bytes of each datagram.
        payload_bytes: u32,
    },
    /// Datagrams with our head, in fragments or whole.
    Udp {
        /// Run id in the payloads.
        run_id: u32,
        /// Bytes of each, head included.
        payload_bytes: u32,
    },
    /// Segments of a TCP connection.
    Tcp,
}

/// Frames that came since [`InTurn::begin`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames of it.
    pub frames: u64,
    /// Whole messages, each in its turn. A connection has none.
    pub messages: u64,
    /// When the first frame came.
    pub began: Option<Time>,
    /// When the last frame came.
    pub ended: Option<Time>,
    /// What was wrong first, if anything was: lost, doubled, out of order, or changed.
    pub wrong: Option<String>,
}

/// The beginning of a datagram.
#[derive(Clone, Copy, Debug)]
struct Open {
    identification: u16,
    /// Bytes of its IP payload that have come.
    bytes: usize,
}

/// What is told of each frame's time.
type OnFrame = Box<dyn FnMut() + Send>;

/// Holds what a guest sends against what it was told to send. Datagrams it keeps: nobody answers them.
#[derive(Default)]
pub struct InTurn {
    expected: Option<Expected>,
    seen: Seen,
    /// The datagram of which not all fragments have come.
    open: Option<Open>,
    /// The number of the generator's last packet.
    last_number: Option<u32>,
    on_frame: Option<OnFrame>,
}

impl fmt::Debug for InTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTurn").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl InTurn {
    /// From now on this is expected; `on_frame` is told when each frame of it comes.
    pub fn begin(&mut self, expected: Expected, on_frame: impl FnMut() + Send + 'static) {
        let on_frame: OnFrame = Box::new(on_frame);
        let (expected, on_frame) = (Some(expected), Some(on_frame));
        *self = InTurn { expected, on_frame, ..InTurn::default() };
    }

    /// Frames that came since.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    fn packet(&mut self, now: Time, is_datagram: bool, frame: &[u8], ip: &Ipv4Slice<'_>) {
        let Some(expected) = self.expected else { return };
        let counts = match expected {
            Expected::Tcp => !is_datagram && has_data(ip),
            Expected::Pktgen { .. } | Expected::Udp { .. } => is_datagram,
        };
        if !counts {
            return;
        }
        self.seen.frames += 1;
        self.seen.began.get_or_insert(now);
        self.seen.ended = Some(now);
        if let Some(on_frame) = &mut self.on_frame {
            on_frame();
        }
        let judged = match expected {
            Expected::Tcp => return,
            Expected::Pktgen { payload_bytes } => {
                headers(frame, ip).and_then(|()| self.generated(ip, payload_bytes as usize))
            }
            Expected::Udp { run_id, payload_bytes } => {
                headers(frame, ip).and_then(|()| self.fragment(ip, run_id, payload_bytes as usize))
            }
        };
        if let Err(what) = judged
            && self.seen.wrong.is_none()
        {
            let (frame, message) = (self.seen.frames, self.seen.messages);
            self.seen.wrong = Some(format!("frame {frame}, in message {message}: {what}"));
        }
    }

    /// A frame of the generator. A packet that is handed over several times keeps the number of the frame
    /// for which it was made, so a number that is new is the frame's own.
    fn generated(&mut self, ip: &Ipv4Slice<'_>, payload_bytes: usize) -> Result<(), String> {
        let payload = payload(ip, payload_bytes)?;
        let (head, rest) = payload.split_first_chunk::<8>().ok_or("it is too short")?;
        let (magic, number) = (word(&head[..4]), word(&head[4..]));
        if magic != PKTGEN_MAGIC || rest.iter().skip(8).any(|&byte| byte != 0) {
            return Err("it is not what pktgen sends".to_owned());
        }
        let own = (self.seen.messages + 1) as u32;
        if number != own && Some(number) != self.last_number {
            return Err(format!("it has the number {number}, and {own} was due"));
        }
        self.last_number = Some(number);
        self.seen.messages += 1;
        Ok(())
    }

    /// A datagram, or the next fragment of one.
    fn fragment(
        &mut self,
        ip: &Ipv4Slice<'_>,
        run_id: u32,
        payload_bytes: usize,
    ) -> Result<(), String> {
        let bytes = ip.payload().payload;
        let header = ip.header();
        let from = usize::from(header.fragments_offset().value()) * 8;
        let identification = header.identification();
        match self.open.take() {
            None if from == 0 => self.head(bytes, run_id, payload_bytes)?,
            Some(open) if (open.identification, open.bytes) == (identification, from) => {}
            Some(open) => return Err(format!("a fragment is missing behind byte {}", open.bytes)),
            None => {
                return Err(format!("the beginning of a datagram is missing, up to byte {from}"));
            }
        }
        let (start, end) = (from.max(UDP_HEADER_BYTES + HEAD_BYTES), from + bytes.len());
        let due = FILLER
            .get(start - UDP_HEADER_BYTES..(end - UDP_HEADER_BYTES).max(start - UDP_HEADER_BYTES));
        if due != bytes.get(start - from..) {
            return Err("its payload is not what was sent".to_owned());
        }
        if header.more_fragments() {
            self.open = Some(Open { identification, bytes: end });
            return Ok(());
        }
        if end != UDP_HEADER_BYTES + payload_bytes {
            return Err(format!("the datagram has {end} bytes, {UDP_HEADER_BYTES} of them header"));
        }
        self.seen.messages += 1;
        Ok(())
    }

    /// The beginning of a datagram.
    fn head(&self, bytes: &[u8], run_id: u32, payload_bytes: usize) -> Result<(), String> {
        let udp = UdpHeaderSlice::from_slice(bytes).map_err(|_| "it is too short")?;
        let payload = &bytes[udp.slice().len()..];
        if usize::from(udp.length()) != UDP_HEADER_BYTES + payload_bytes {
            return Err("its UDP header has another length".to_owned());
        }
        let head = Head::from_bytes(payload).ok_or("it has no head of ours")?;
        let due = Head { run_id, sequence: self.seen.messages };
        (head == due)
            .then_some(())
            .ok_or_else(|| format!("its head is {head:?}, and due was {due:?}"))
    }
}

impl Judge for InTurn {
    fn frame(&mut self, now: Time, frame: &[u8]) -> Fate {
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return Fate::Passed };
        let Some(NetSlice::Ipv4(ip)) = &packet.net else { return Fate::Passed };
        match ip.header().protocol() {
            IpNumber::UDP => {
                self.packet(now, true, frame, ip);
                Fate::Kept
            }
            IpNumber::TCP => {
                self.packet(now, false, frame, ip);
                Fate::Passed
            }
            _ => Fate::Passed,
        }
    }
}

/// Whether a TCP segment has more than its header.
fn has_data(ip: &Ipv4Slice<'_>) -> bool {
    TcpSlice::from_slice(ip.payload().payload).is_ok_and(|tcp| !tcp.payload().is_empty())
}

fn headers(frame: &[u8], ip: &Ipv4Slice<'_>) -> Result<(), String> {
    headers_sound(frame, ip)
        .then_some(())
        .ok_or_else(|| "an address, or the checksum of its IP header, is wrong".into())
}

/// The payload of a datagram that is not in fragments.
fn payload<'a>(ip: &Ipv4Slice<'a>, payload_bytes: usize) -> Result<&'a [u8], String> {
    let bytes = ip.payload().payload;
    let whole = !ip.is_payload_fragmented() && bytes.len() == UDP_HEADER_BYTES + payload_bytes;
    match whole {
        true => Ok(&bytes[UDP_HEADER_BYTES..]),
        false => Err(format!("it is no datagram of {payload_bytes} bytes")),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

#[cfg(test)]
#[path = "in_turn_tests.rs"]
mod tests;

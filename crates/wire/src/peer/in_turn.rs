//! Messages of a guest's senders, each in its turn: of the packet generator, or of a socket, in fragments or
//! whole.

use std::fmt;

use etherparse::{
    IpNumber, Ipv4Slice, NetSlice, SlicedPacket, TcpSlice, TransportSlice, UdpHeaderSlice,
};
use warikomi_clock::Time;
use warikomi_protocol::payload::{HEAD_BYTES, Head};

use super::connection::{Connection, Turn};
use super::packet::{FILLER, checksum_of_numbered, claimed_protocol, headers_sound};
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

impl Expected {
    fn protocol(self) -> IpNumber {
        match self {
            Expected::Pktgen { .. } | Expected::Udp { .. } => IpNumber::UDP,
            Expected::Tcp => IpNumber::TCP,
        }
    }
}

/// Frames that came since [`InTurn::begin`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames of it.
    pub frames: u64,
    /// Whole messages, each in its turn. A connection has none.
    pub messages: u64,
    /// Of a connection, frames whose bytes the kernel had sent before, and sent again of its own: no ACK was back
    /// in time.
    pub sent_again: u64,
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
    /// The connection that was opened last.
    connection: Option<Connection>,
    on_frame: Option<OnFrame>,
}

impl fmt::Debug for InTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTurn").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl InTurn {
    /// From now on this is expected; `on_frame` is told when each frame of it comes. Of the last connection a
    /// straggler may come yet.
    pub fn begin(&mut self, expected: Expected, on_frame: impl FnMut() + Send + 'static) {
        let on_frame: OnFrame = Box::new(on_frame);
        let (expected, on_frame) = (Some(expected), Some(on_frame));
        *self =
            InTurn { expected, on_frame, connection: self.connection.take(), ..InTurn::default() };
    }

    /// Frames that came since.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    fn expects(&self, protocol: IpNumber) -> bool {
        self.expected.is_some_and(|expected| expected.protocol() == protocol)
    }

    /// A frame of what is expected has come.
    fn came(&mut self, now: Time) {
        self.seen.frames += 1;
        self.seen.began.get_or_insert(now);
        self.seen.ended = Some(now);
        if let Some(on_frame) = &mut self.on_frame {
            on_frame();
        }
    }

    fn note(&mut self, judged: Result<(), String>) {
        if let Err(what) = judged
            && self.seen.wrong.is_none()
        {
            let (frame, message) = (self.seen.frames, self.seen.messages);
            self.seen.wrong = Some(format!("frame {frame}, in message {message}: {what}"));
        }
    }

    fn datagram(&mut self, now: Time, frame: &[u8], ip: &Ipv4Slice<'_>) {
        let Some(expected) = self.expected else { return };
        let judged = match expected {
            Expected::Tcp => return,
            Expected::Pktgen { payload_bytes } => {
                self.came(now);
                headers(frame, ip).and_then(|()| self.generated(ip, payload_bytes as usize))
            }
            Expected::Udp { run_id, payload_bytes } => {
                self.came(now);
                let payload_bytes = payload_bytes as usize;
                headers(frame, ip).and_then(|()| self.fragment(frame, ip, run_id, payload_bytes))
            }
        };
        self.note(judged);
    }

    fn segment(&mut self, now: Time, frame: &[u8], ip: &Ipv4Slice<'_>, tcp: &TcpSlice<'_>) {
        if !self.expects(IpNumber::TCP) {
            return;
        }
        if !tcp.payload().is_empty() {
            self.came(now);
        }
        let judged = headers(frame, ip).and_then(|()| self.place(ip, tcp));
        self.note(judged);
    }

    /// Whether a segment is sound, and has its place in the connection.
    fn place(&mut self, ip: &Ipv4Slice<'_>, tcp: &TcpSlice<'_>) -> Result<(), String> {
        let checksum = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination());
        if checksum != Ok(tcp.checksum()) {
            return Err("its TCP checksum is wrong".to_owned());
        }
        if tcp.syn() {
            self.connection = Some(Connection::opened(ip, tcp));
        }
        if tcp.payload().is_empty() {
            return Ok(());
        }
        let connection = self.connection.as_mut().ok_or("its connection was not opened")?;
        self.seen.sent_again += u64::from(connection.take(ip, tcp)? == Turn::Again);
        Ok(())
    }

    /// A frame of the generator. A packet that is handed over several times keeps the number of the frame
    /// for which it was made, so a number that is new is the frame's own.
    fn generated(&mut self, ip: &Ipv4Slice<'_>, payload_bytes: usize) -> Result<(), String> {
        let payload = payload(ip, payload_bytes)?;
        udp_checksum(ip)?;
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
        frame: &[u8],
        ip: &Ipv4Slice<'_>,
        run_id: u32,
        payload_bytes: usize,
    ) -> Result<(), String> {
        let bytes = ip.payload().payload;
        let header = ip.header();
        let from = usize::from(header.fragments_offset().value()) * 8;
        let identification = header.identification();
        let checksum = match self.open.take() {
            None if from == 0 => Some(self.head(bytes, run_id, payload_bytes)?),
            Some(open) if (open.identification, open.bytes) == (identification, from) => None,
            Some(open) => return Err(format!("a fragment is missing behind byte {}", open.bytes)),
            None => {
                return Err(format!("the beginning of a datagram is missing, up to byte {from}"));
            }
        };
        let (start, end) = (from.max(UDP_HEADER_BYTES + HEAD_BYTES), from + bytes.len());
        let due = FILLER
            .get(start - UDP_HEADER_BYTES..(end - UDP_HEADER_BYTES).max(start - UDP_HEADER_BYTES));
        if due != bytes.get(start - from..) {
            return Err("its payload is not what was sent".to_owned());
        }
        if let Some(checksum) = checksum {
            // Every byte is held against what is due, so the sum of that is the sum of all fragments.
            checksum_holds(checksum, checksum_of_numbered(frame, payload_bytes))?;
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

    /// The beginning of a datagram; what it has as its checksum.
    fn head(&self, bytes: &[u8], run_id: u32, payload_bytes: usize) -> Result<u16, String> {
        let udp = UdpHeaderSlice::from_slice(bytes).map_err(|_| "it is too short")?;
        let payload = &bytes[udp.slice().len()..];
        if usize::from(udp.length()) != UDP_HEADER_BYTES + payload_bytes {
            return Err("its UDP header has another length".to_owned());
        }
        let head = Head::from_bytes(payload).ok_or("it has no head of ours")?;
        let due = Head { run_id, sequence: self.seen.messages };
        (head == due)
            .then_some(udp.checksum())
            .ok_or_else(|| format!("its head is {head:?}, and due was {due:?}"))
    }
}

impl Judge for InTurn {
    fn frame(&mut self, now: Time, frame: &[u8]) -> Fate {
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else {
            if claimed_protocol(frame).is_some_and(|protocol| self.expects(protocol)) {
                self.note(Err("the lengths of the one behind it do not agree".to_owned()));
            }
            return Fate::Passed;
        };
        let Some(NetSlice::Ipv4(ip)) = &packet.net else { return Fate::Passed };
        match (ip.header().protocol(), &packet.transport) {
            (IpNumber::UDP, _) => {
                self.datagram(now, frame, ip);
                return Fate::Kept;
            }
            (_, Some(TransportSlice::Tcp(tcp))) => self.segment(now, frame, ip, tcp),
            (protocol @ IpNumber::TCP, _) if self.expects(protocol) => {
                self.note(Err("the one behind it is a fragment of a segment".to_owned()));
            }
            _ => {}
        }
        Fate::Passed
    }
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

/// The checksum of a datagram that is not in fragments.
fn udp_checksum(ip: &Ipv4Slice<'_>) -> Result<(), String> {
    let bytes = ip.payload().payload;
    let udp = UdpHeaderSlice::from_slice(bytes).map_err(|_| "it is too short")?.to_header();
    let (source, destination) = (ip.header().source(), ip.header().destination());
    let due = udp.calc_checksum_ipv4_raw(source, destination, &bytes[UDP_HEADER_BYTES..]);
    checksum_holds(udp.checksum, due.ok())
}

/// Whether it is the one that is due, or 0, which says that there is none (RFC 768).
fn checksum_holds(checksum: u16, due: Option<u16>) -> Result<(), String> {
    (checksum == 0 || Some(checksum) == due)
        .then_some(())
        .ok_or_else(|| "its UDP checksum is wrong".to_owned())
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

#[cfg(test)]
#[path = "in_turn_tests.rs"]
mod tests;

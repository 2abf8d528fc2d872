//! The other end of a kernel's cable: judges what the guest's senders send, and answers the rest as a host
//! does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etherparse::{IpNumber, Ipv4Slice, NetSlice, SlicedPacket};
use warikomi_clock::Time;
use warikomi_inject::{GUEST_IP, NETWORK_IP, NETWORK_MAC};
use warikomi_protocol::payload::{HEAD_BYTES, Head, MOST_BYTES, filler};
use warikomi_wire::{Responder, Responses, Wire, WireCounters};

use crate::cpu_time::CpuTime;

/// Bytes of a UDP header (RFC 768).
const UDP_BYTES: usize = 8;
/// First four bytes of what pktgen sends (Linux net/core/pktgen.c, PKTGEN_MAGIC).
const PKTGEN_MAGIC: u32 = 0xbe9b_e955;

/// What a guest is going to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Frames of the packet generator.
    Pktgen { payload_bytes: u32 },
    /// Datagrams with our head, in fragments or whole.
    Udp { run_id: u32, payload_bytes: u32 },
    /// A connection.
    Tcp,
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Frames of it.
    pub(super) frames: u64,
    /// Whole messages, each in its turn. A connection has none.
    pub(super) messages: u64,
    /// When the first frame came.
    pub(super) began: Option<Time>,
    /// When the last one did.
    pub(super) ended: Option<Time>,
    /// What was wrong first, if anything was: lost, doubled, out of order, or changed.
    pub(super) wrong: Option<String>,
}

/// What the wire and whoever asks it share.
#[derive(Default)]
struct State {
    expected: Option<Expected>,
    seen: Seen,
    /// The datagram of which not all fragments have come.
    open: Option<Open>,
    /// The number of the generator's last packet.
    last_number: Option<u32>,
    cpu: Option<CpuTime>,
}

/// The beginning of a datagram.
#[derive(Clone, Copy, Debug)]
struct Open {
    identification: u16,
    /// Bytes of its IP payload that have come.
    bytes: usize,
}

/// Tells the wire what comes next, and reads what came.
#[derive(Clone)]
pub struct Judge {
    state: Arc<Mutex<State>>,
    responses: Arc<Responses>,
}

impl Judge {
    /// From now on this is expected; `cpu` is noted while it comes.
    pub(super) fn begin(&self, expected: Expected, cpu: CpuTime) {
        *self.state() = State { expected: Some(expected), cpu: Some(cpu), ..State::default() };
    }

    /// What has come since.
    pub(super) fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    /// The share of the time (0 to 1) between the first frame and the last in which the guest had a
    /// processor; `None` if that was too short to tell.
    pub(super) fn cpu_share(&self) -> Option<f64> {
        self.state().cpu.as_ref().and_then(CpuTime::share)
    }

    /// Bytes that the host has received over TCP.
    pub(super) fn tcp_bytes(&self) -> u64 {
        self.responses.tcp_bytes()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is only counted: whoever panicked has left sound numbers.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host at the other end of the cable. UDP it judges, and nobody answers it; what else comes, such as ARP
/// and TCP, is answered as [`Responder`] does.
pub struct JudgingHost {
    judge: Judge,
    host: Responder,
    /// UDP, which the host does not get to see.
    swallowed: WireCounters,
    filler: Vec<u8>,
}

impl JudgingHost {
    /// A host that expects nothing yet, and its judge.
    pub fn new() -> (JudgingHost, Judge) {
        let host = Responder::default();
        let judge = Judge { state: Arc::default(), responses: host.responses() };
        let filler = (0..MOST_BYTES as usize).map(filler).collect();
        let swallowed = WireCounters::default();
        (JudgingHost { judge: judge.clone(), host, swallowed, filler }, judge)
    }
}

impl Wire for JudgingHost {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        let packet = SlicedPacket::from_ethernet(frame).ok();
        let ip = packet.as_ref().and_then(|packet| match &packet.net {
            Some(NetSlice::Ipv4(ip)) => Some(ip),
            _ => None,
        });
        let protocol = ip.map(|ip| ip.header().protocol());
        if let (Some(ip), Some(protocol @ (IpNumber::UDP | IpNumber::TCP))) = (ip, protocol) {
            let is_datagram = protocol == IpNumber::UDP;
            self.judge.state().frame(now, is_datagram, frame, ip, &self.filler);
            if is_datagram {
                self.swallowed.tx_frames += 1;
                self.swallowed.tx_bytes += frame.len() as u64;
                return;
            }
        }
        self.host.transmit(now, frame);
    }

    fn next_arrival(&self) -> Time {
        self.host.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        self.host.receive(now)
    }

    fn counters(&self) -> WireCounters {
        let counters = self.host.counters();
        WireCounters {
            tx_frames: counters.tx_frames + self.swallowed.tx_frames,
            tx_bytes: counters.tx_bytes + self.swallowed.tx_bytes,
            ..counters
        }
    }
}

impl State {
    fn frame(
        &mut self,
        now: Time,
        is_datagram: bool,
        frame: &[u8],
        ip: &Ipv4Slice<'_>,
        filler: &[u8],
    ) {
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
        if let Some(cpu) = &mut self.cpu {
            cpu.note_from_time_to_time(now);
        }
        let judged = match expected {
            Expected::Tcp => return,
            Expected::Pktgen { payload_bytes } => {
                headers(frame, ip).and_then(|()| self.generated(ip, payload_bytes as usize))
            }
            Expected::Udp { run_id, payload_bytes } => headers(frame, ip)
                .and_then(|()| self.fragment(ip, run_id, payload_bytes as usize, filler)),
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
        filler: &[u8],
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
        let (start, end) = (from.max(UDP_BYTES + HEAD_BYTES), from + bytes.len());
        let due = filler.get(start - UDP_BYTES..(end - UDP_BYTES).max(start - UDP_BYTES));
        if due != bytes.get(start - from..) {
            return Err("its payload is not what was sent".to_owned());
        }
        if header.more_fragments() {
            self.open = Some(Open { identification, bytes: end });
            return Ok(());
        }
        if end != UDP_BYTES + payload_bytes {
            return Err(format!("the datagram has {end} bytes, {UDP_BYTES} of them header"));
        }
        self.seen.messages += 1;
        Ok(())
    }

    /// The beginning of a datagram.
    fn head(&self, bytes: &[u8], run_id: u32, payload_bytes: usize) -> Result<(), String> {
        let (udp, payload) = bytes.split_first_chunk::<UDP_BYTES>().ok_or("it is too short")?;
        if usize::from(u16::from_be_bytes([udp[4], udp[5]])) != UDP_BYTES + payload_bytes {
            return Err("its UDP header has another length".to_owned());
        }
        let head = Head::from_bytes(payload).ok_or("it has no head of ours")?;
        let due = Head { run_id, sequence: self.seen.messages };
        (head == due)
            .then_some(())
            .ok_or_else(|| format!("its head is {head:?}, and due was {due:?}"))
    }
}

/// Whether a TCP segment has more than its header.
fn has_data(ip: &Ipv4Slice<'_>) -> bool {
    const HEADER_WORDS: usize = 12;
    let bytes = ip.payload().payload;
    bytes.get(HEADER_WORDS).is_some_and(|words| bytes.len() > 4 * usize::from(words >> 4))
}

/// Whether Ethernet's and IP's headers are as they should be.
fn headers(frame: &[u8], ip: &Ipv4Slice<'_>) -> Result<(), String> {
    let header = ip.header();
    let sound = frame.get(..6) == Some(&NETWORK_MAC)
        && header.source_addr() == GUEST_IP
        && header.destination_addr() == NETWORK_IP
        && header.to_header().calc_header_checksum() == header.header_checksum();
    sound
        .then_some(())
        .ok_or_else(|| "an address, or the checksum of its IP header, is wrong".into())
}

/// The payload of a datagram that is not in fragments.
fn payload<'a>(ip: &Ipv4Slice<'a>, payload_bytes: usize) -> Result<&'a [u8], String> {
    let bytes = ip.payload().payload;
    let whole = !ip.is_payload_fragmented() && bytes.len() == UDP_BYTES + payload_bytes;
    match whole {
        true => Ok(&bytes[UDP_BYTES..]),
        false => Err(format!("it is no datagram of {payload_bytes} bytes")),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

//! The other end of the cable: judges every frame that the NIC sends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use warikomi_clock::Time;
use warikomi_inject::{GUEST_IP, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET, UDP_PORT};
use warikomi_nic::MIN_FRAME_BYTES;
use warikomi_protocol::payload::{HEAD_BYTES, Head, MOST_BYTES, filler};
use warikomi_wire::{Wire, WireCounters};

const ETHERNET_BYTES: usize = 14;
/// IEEE 802.3, 3.2.6.
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// Words of an IPv4 header without options.
const IPV4_WORDS: u8 = 5;
const UDP_HEADER_BYTES: usize = 8;
/// Most messages of a run: what is remembered of each is one bit.
const MAX_MESSAGES: u64 = 1 << 32;

/// How much of each payload is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Every byte.
    #[default]
    Whole,
    /// Its head only, with all headers before it: what a dummy driver sends behind these is of another
    /// message.
    Head,
}

/// What came of one run's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Messages that came, each counted once.
    pub messages: u64,
    /// Their bytes, without headers.
    pub message_bytes: u64,
    /// Messages that came again.
    pub duplicated: u64,
    /// Messages that came behind a later one.
    pub reordered: u64,
    /// Frames that are not as they were sent: headers, lengths, checksum, or bytes of the payload.
    pub corrupt: u64,
    /// Frames of no run, or of another run.
    pub foreign: u64,
    /// The highest sequence number and 1.
    end: u64,
}

impl Seen {
    /// Messages that did not come, of so many that were sent.
    pub fn lost(&self, sent: u64) -> u64 {
        sent.max(self.end).saturating_sub(self.messages)
    }

    /// What is wrong, if so many were sent; `None` if each came once, in order and unharmed, and nothing
    /// else.
    pub fn wrong(&self, sent: u64) -> Option<String> {
        let Seen { messages, duplicated, reordered, corrupt, foreign, .. } = *self;
        let sound = messages == sent
            && [self.lost(sent), duplicated, reordered, corrupt, foreign].iter().all(|&n| n == 0);
        (!sound).then(|| {
            format!(
                "of {sent} messages sent, {messages} came: {} lost, {duplicated} duplicated, \
                 {reordered} reordered; besides {corrupt} corrupt and {foreign} foreign frames",
                self.lost(sent)
            )
        })
    }
}

/// Reads what an [`OrderedSink`] has seen, and tells it what comes next.
#[derive(Clone, Debug)]
pub struct Judge(Arc<Mutex<State>>);

impl Judge {
    /// From now on messages of this run are expected, at most `most` of them.
    pub fn begin(&self, run_id: u32, most: u64, look: Look) {
        let words = most.min(MAX_MESSAGES).div_ceil(64) as usize;
        let mut state = self.state();
        state.run_id = Some(run_id);
        state.look = look;
        state.most = most.min(MAX_MESSAGES);
        state.came.clear();
        state.came.resize(words, 0);
        state.seen = Seen::default();
    }

    /// What has been seen since then.
    pub fn seen(&self) -> Seen {
        self.state().seen
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is only counted: whoever panicked has left sound numbers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sink that holds every frame against what was to be sent: a UDP datagram of this run, whole, in order,
/// once. Sequence numbers begin at 0 and leave none out.
#[derive(Debug)]
pub struct OrderedSink {
    state: Arc<Mutex<State>>,
    counters: WireCounters,
}

impl OrderedSink {
    /// A sink that expects nothing yet, and its judge.
    pub fn new() -> (OrderedSink, Judge) {
        let state = Arc::new(Mutex::new(State::default()));
        let counters = WireCounters::default();
        (OrderedSink { state: Arc::clone(&state), counters }, Judge(state))
    }
}

impl Wire for OrderedSink {
    fn transmit(&mut self, _now: Time, frame: &[u8]) {
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += frame.len() as u64;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).judge(frame);
    }

    fn next_arrival(&self) -> Time {
        Time::NEVER
    }

    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        None
    }

    fn counters(&self) -> WireCounters {
        self.counters
    }
}

#[derive(Debug)]
struct State {
    run_id: Option<u32>,
    look: Look,
    most: u64,
    /// A bit for each sequence number.
    came: Vec<u64>,
    seen: Seen,
    filler: Vec<u8>,
}

impl Default for State {
    fn default() -> Self {
        State {
            run_id: None,
            look: Look::Whole,
            most: 0,
            came: Vec::new(),
            seen: Seen::default(),
            filler: (0..MOST_BYTES as usize).map(filler).collect(),
        }
    }
}

/// What a frame turned out to be.
enum Verdict {
    Message { sequence: u64, bytes: u64 },
    Corrupt,
    Foreign,
}

impl State {
    fn judge(&mut self, frame: &[u8]) {
        match self.verdict(frame).unwrap_or(Verdict::Corrupt) {
            Verdict::Message { sequence, bytes } => self.came(sequence, bytes),
            Verdict::Corrupt => self.seen.corrupt += 1,
            Verdict::Foreign => self.seen.foreign += 1,
        }
    }

    /// `None` for what claims to be a datagram and is not as it should be.
    fn verdict(&self, frame: &[u8]) -> Option<Verdict> {
        if frame.get(ETHERNET_BYTES - 2..ETHERNET_BYTES)? != ETHERTYPE_IPV4 {
            return Some(Verdict::Foreign);
        }
        let payload = datagram(frame)?;
        let head = Head::from_bytes(payload)?;
        if Some(head.run_id) != self.run_id {
            return Some(Verdict::Foreign);
        }
        let whole = payload.get(HEAD_BYTES..)? == self.filler.get(HEAD_BYTES..payload.len())?;
        let good = (self.look == Look::Head || whole) && head.sequence < self.most;
        good.then_some(Verdict::Message { sequence: head.sequence, bytes: payload.len() as u64 })
    }

    fn came(&mut self, sequence: u64, bytes: u64) {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        let Some(word) = self.came.get_mut(word) else { return };
        if *word & bit != 0 {
            self.seen.duplicated += 1;
            return;
        }
        *word |= bit;
        self.seen.messages += 1;
        self.seen.message_bytes += bytes;
        self.seen.reordered += u64::from(sequence < self.seen.end);
        self.seen.end = self.seen.end.max(sequence + 1);
    }
}

/// The payload of a datagram from the target to the network, if all its headers are as they should be, and
/// the frame ends with it but for padding.
fn datagram(frame: &[u8]) -> Option<&[u8]> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return None };
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return None };
    let header = ip.header();
    let bytes = ETHERNET_BYTES + usize::from(header.total_len());
    let ends = frame.len() == bytes || (frame.len() == MIN_FRAME_BYTES && bytes < frame.len());
    let sound = frame.get(..6) == Some(&NETWORK_MAC)
        && header.ihl() == IPV4_WORDS
        && header.to_header().calc_header_checksum() == header.header_checksum()
        && header.source_addr() == GUEST_IP
        && header.destination_addr() == NETWORK_IP
        && udp.destination_port() == UDP_PORT
        && udp.checksum() == 0
        && usize::from(udp.length()) == UDP_HEADER_BYTES + udp.payload().len()
        && bytes == PAYLOAD_OFFSET + udp.payload().len()
        && ends;
    sound.then(|| udp.payload())
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

//! The transmit rings.
//!
//! A doorbell makes the transmitter walk its ring until it comes to a descriptor that it does not
//! own. Without an engine all of that happens within the register write, so a descriptor that the
//! driver hands over later comes with a doorbell of its own, and none is lost. The walk is bounded;
//! what it leaves over is taken up by a timer. With an engine ([`paced`](super::paced)) transfers take
//! their time.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::offload::{self, Request, Segmenter, Work};
use super::paced::Pace;
use super::rx::{FIRST, LAST, OWN, RING_LIMIT, descriptor, following};
use super::{Rtl8168, TIMER_TX, regs};
use crate::alarm::Alarm;
use crate::checksum::VLAN_TYPE;
use crate::engine::Engine;
use crate::{MIN_FRAME_BYTES, NicContext};

/// Frame length in a transmit descriptor (RTL8169 Rev. 1.21, page 51).
const LENGTH: u32 = 0xffff;
/// The most that a chain of descriptors may hold: 64,000 bytes of large send and its headers.
const MAX_CHAIN_BYTES: usize = 65_536;
const TAG_BYTES: usize = 4;
/// Unit of MaxTxPacketSize.
const SIZE_UNIT: usize = 128;
/// Frames sent in one go before the support side gets to do something else.
const FRAMES_PER_DOORBELL: usize = 4_096;
/// How soon the rest is taken up.
const CONTINUE_AFTER: Span = Span::from_us(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ring {
    base: u64,
    index: u16,
    /// There may be more on it than the last walk got to.
    pub(super) unfinished: bool,
}

/// The two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Normal = 0,
    High = 1,
}

/// A descriptor of a chain.
#[derive(Clone, Copy, Debug)]
struct Piece {
    index: u16,
    opts1: u32,
    opts2: u32,
    address: u64,
}

impl Piece {
    fn bytes(&self) -> usize {
        (self.opts1 & LENGTH) as usize
    }
}

#[derive(Debug)]
pub(super) struct Transmitter {
    enabled: bool,
    pub(super) halted: bool,
    pub(super) rings: [Ring; 2],
    /// Room for a tag, then the frame.
    buffer: Vec<u8>,
    segment: Vec<u8>,
    /// The chain at the head of a ring.
    chain: Vec<Piece>,
    pub(super) alarm: Alarm,
    /// What takes time, if anything does.
    pub(super) pace: Option<Pace>,
    /// When the frame in hand was complete in the chip.
    pub(super) at: Time,
}

/// What a walk finds at a ring's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A descriptor that is the driver's, or a chain that is not complete yet.
    Nothing,
    /// A chain that makes a frame.
    Chain,
    /// A chain that makes no frame: no first mark, no end, no bytes, or too many.
    Unusable,
}

impl Transmitter {
    pub(super) fn new(engine: Option<Engine>) -> Self {
        Transmitter {
            enabled: false,
            halted: false,
            rings: [Ring::default(); 2],
            buffer: vec![0; TAG_BYTES + MAX_CHAIN_BYTES],
            segment: Vec::new(),
            chain: Vec::with_capacity(RING_LIMIT.into()),
            alarm: Alarm::new(TIMER_TX),
            pace: engine.map(Pace::new),
            at: Time::ZERO,
        }
    }

    pub(super) fn enable(&mut self, on: bool) {
        self.enabled = on;
    }

    /// Whether anything is sent at all.
    pub(super) fn is_open(&self) -> bool {
        self.enabled && !self.halted
    }

    pub(super) fn set_ring(&mut self, queue: Queue, base: u64) {
        self.rings[queue as usize] = Ring { base: base & !0xff, ..Ring::default() };
        if let Some(pace) = &mut self.pace {
            pace.ring_gone(queue);
        }
    }

    /// Soft reset: back to the start of the rings, whose addresses stay.
    pub(super) fn reset(&mut self) {
        (self.enabled, self.halted) = (false, false);
        for ring in &mut self.rings {
            (ring.index, ring.unfinished) = (0, false);
        }
        self.alarm.cancel();
        if let Some(pace) = &mut self.pace {
            pace.reset();
        }
    }

    /// Reads the chain at the head of a ring.
    pub(super) fn look(&mut self, cx: &mut NicContext<'_>, queue: Queue) -> Result<Head, DmaError> {
        let ring = self.rings[queue as usize];
        self.chain.clear();
        let (mut index, mut bytes) = (ring.index, 0);
        loop {
            let at = descriptor(ring.base, index);
            let opts1 = cx.dma_load_u32(at)?;
            if opts1 & OWN == 0 {
                return Ok(Head::Nothing);
            }
            let mut rest = [0; 12];
            cx.dma_read(at.wrapping_add(4), &mut rest)?;
            let [a, b, c, d, address @ ..] = rest;
            let opts2 = u32::from_le_bytes([a, b, c, d]);
            let piece = Piece { index, opts1, opts2, address: u64::from_le_bytes(address) };
            self.chain.push(piece);
            if self.chain.len() == 1 && opts1 & FIRST == 0 {
                return Ok(Head::Unusable);
            }
            bytes += piece.bytes();
            if opts1 & LAST != 0 {
                let usable = (1..=MAX_CHAIN_BYTES).contains(&bytes);
                return Ok(if usable { Head::Chain } else { Head::Unusable });
            }
            index = following(index, opts1);
            // An end mark that has moved behind the head leads round without passing it.
            if index == ring.index || self.chain.len() >= RING_LIMIT.into() {
                return Ok(Head::Unusable);
            }
        }
    }

    /// Begins the transfers of the chain's pieces: when the last one is completed.
    pub(super) fn transfer_chain(&mut self, from: Time) -> Time {
        let Some(pace) = &mut self.pace else { return from };
        let (mut at, mut held) = (from, 0);
        for piece in &self.chain {
            at = pace.engine.transfer(at, held, piece.bytes(), true);
            held += piece.bytes();
        }
        at
    }

    /// Collects the chain's frame into the buffer: its length, and what to do with it.
    fn collect(&mut self, cx: &mut NicContext<'_>) -> Result<(usize, Request), DmaError> {
        let mut bytes = 0;
        for piece in self.chain.iter().filter(|piece| piece.bytes() > 0) {
            let place = TAG_BYTES + bytes;
            bytes += piece.bytes();
            cx.dma_read(piece.address, &mut self.buffer[place..TAG_BYTES + bytes])?;
        }
        let request = self.chain.first().map(|first| Request::new(first.opts1, first.opts2));
        Ok((bytes, request.unwrap_or_default()))
    }

    /// Gives the chain's descriptors back, in order.
    fn complete(&mut self, cx: &mut NicContext<'_>, queue: Queue) -> Result<(), DmaError> {
        let ring = &mut self.rings[queue as usize];
        for piece in &self.chain {
            cx.dma_store_u32(descriptor(ring.base, piece.index), piece.opts1 & !OWN)?;
            ring.index = following(piece.index, piece.opts1);
        }
        cx.descriptors_sent(self.chain.len());
        Ok(())
    }

    /// Sends the frame of `bytes` bytes that stands in `buffer` behind room for a tag, padded to the
    /// shortest length that Ethernet allows.
    fn put_on_wire(
        &mut self,
        cx: &mut NicContext<'_>,
        buffer: &mut [u8],
        bytes: usize,
        tag: Option<[u8; 2]>,
    ) {
        const ADDRESSES: usize = 12;
        let (mut start, mut end) = (TAG_BYTES, TAG_BYTES + bytes);
        if let (Some(tag), true) = (tag, bytes >= ADDRESSES) {
            start = 0;
            buffer.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES, 0);
            buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&VLAN_TYPE);
            buffer[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tag);
        }
        let shortest = start + MIN_FRAME_BYTES;
        if end < shortest {
            buffer[end..shortest].fill(0);
            end = shortest;
        }
        if let Some(pace) = &mut self.pace {
            pace.engine.complete(self.at, end - start);
        }
        cx.frame_tx_at(self.at, &buffer[start..end]);
    }
}

/// What a walk has done so far.
#[derive(Default)]
pub(super) struct Walk {
    descriptors: usize,
    frames: usize,
    errors: bool,
}

impl Rtl8168 {
    /// A doorbell.
    pub(super) fn transmit(&mut self, cx: &mut NicContext<'_>, queue: Queue) {
        if !self.tx.is_open() {
            return;
        }
        if self.tx.pace.is_some() {
            return self.begin_paced(cx, queue);
        }
        let mut walk = Walk::default();
        let ended = self.walk(cx, queue, &mut walk);
        if let Ok(false) = ended {
            self.tx.rings[queue as usize].unfinished = true;
            self.tx.alarm.set(cx, cx.now() + CONTINUE_AFTER);
        }
        self.walked(cx, &walk, ended);
    }

    /// Reports what a walk has done, and how it ended: `true` at a ring's end.
    pub(super) fn walked(
        &mut self,
        cx: &mut NicContext<'_>,
        walk: &Walk,
        ended: Result<bool, DmaError>,
    ) {
        if walk.frames > 0 {
            self.intr.sent(cx, u32::try_from(walk.frames).unwrap_or(u32::MAX));
        }
        let mut report = if walk.errors { regs::TX_ERR } else { 0 };
        match ended {
            Ok(true) => report |= regs::TX_DESC_UNAVAIL,
            Ok(false) => {}
            Err(_) => {
                self.tx.halted = true;
                report |= regs::SYS_ERR;
            }
        }
        self.intr.report(cx, report);
    }

    /// The timer: takes up what a bounded walk has left, or what takes its time.
    pub(super) fn transmit_rest(&mut self, cx: &mut NicContext<'_>) {
        if !self.tx.alarm.event(cx) {
            return;
        }
        if self.tx.pace.is_some() {
            return self.transmit_paced(cx);
        }
        for queue in [Queue::High, Queue::Normal] {
            if std::mem::take(&mut self.tx.rings[queue as usize].unfinished) {
                self.transmit(cx, queue);
            }
        }
    }

    /// Sends what is on a ring. Whether its end was reached.
    fn walk(
        &mut self,
        cx: &mut NicContext<'_>,
        queue: Queue,
        walk: &mut Walk,
    ) -> Result<bool, DmaError> {
        self.tx.at = cx.now();
        while walk.descriptors < RING_LIMIT.into() && walk.frames < FRAMES_PER_DOORBELL {
            match self.tx.look(cx, queue)? {
                Head::Nothing => return Ok(true),
                head => self.send_chain(cx, queue, head, walk)?,
            }
        }
        Ok(false)
    }

    /// Sends the chain that was found at a ring's head, and gives it back.
    pub(super) fn send_chain(
        &mut self,
        cx: &mut NicContext<'_>,
        queue: Queue,
        head: Head,
        walk: &mut Walk,
    ) -> Result<(), DmaError> {
        let sent = if head == Head::Chain {
            let (bytes, request) = self.tx.collect(cx)?;
            self.send(cx, bytes, request)
        } else {
            None
        };
        match sent {
            Some(frames) => walk.frames += frames,
            None => {
                self.tally.tx_errors += 1;
                walk.errors = true;
            }
        }
        walk.descriptors += self.tx.chain.len();
        self.tx.complete(cx, queue)
    }

    /// Sends the frame in the buffer. The number of frames that went out, or `None` if it could
    /// not be sent.
    fn send(&mut self, cx: &mut NicContext<'_>, bytes: usize, request: Request) -> Option<usize> {
        self.phy.mode()?;
        let limit = usize::from(self.file.u8(regs::MAX_TX_PACKET_SIZE)) * SIZE_UNIT;
        let limit = limit.min(self.setup.max_frame_bytes);
        let mut buffer = std::mem::take(&mut self.tx.buffer);
        let frame = &mut buffer[TAG_BYTES..TAG_BYTES + bytes];
        let sent = match request.work {
            Work::Segment { transport, mss } => {
                self.send_segments(cx, frame, (transport, mss), request.tag, limit)
            }
            _ if bytes > limit => None,
            work => {
                if let Work::Checksum { transport, ipv4, protocol } = work {
                    offload::fill_checksums(frame, transport, ipv4, protocol);
                }
                self.tx.put_on_wire(cx, &mut buffer, bytes, request.tag);
                Some(1)
            }
        };
        self.tx.buffer = buffer;
        self.tally.tx_packets += sent.unwrap_or(0) as u64;
        sent
    }

    fn send_segments(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: &[u8],
        (transport, mss): (usize, usize),
        tag: Option<[u8; 2]>,
        limit: usize,
    ) -> Option<usize> {
        let segmenter = Segmenter::new(frame, transport, mss)?;
        let mut segment = std::mem::take(&mut self.tx.segment);
        let mut sent = Some(0);
        for index in 0..segmenter.count(frame) {
            segmenter.segment(frame, index, TAG_BYTES, &mut segment);
            let bytes = segment.len() - TAG_BYTES;
            if bytes > limit {
                sent = None;
                break;
            }
            segment.resize(segment.len().max(TAG_BYTES + MIN_FRAME_BYTES), 0);
            self.tx.put_on_wire(cx, &mut segment, bytes, tag);
            sent = sent.map(|sent| sent + 1);
        }
        self.tx.segment = segment;
        sent
    }
}

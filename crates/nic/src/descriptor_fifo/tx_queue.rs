//! The FIFO of descriptors, and the packet that is put together from them.

use warikomi_clock::Span;
use warikomi_pci::DmaError;
use warikomi_wire::HEADER_BYTES;

use super::fifo::Fifo;
use super::{regs, timers};
use crate::NicContext;
use crate::queue::{
    Arbitration, Engine, Found, Outgoing, TxDescriptor, TxEngine, TxFormat, TxLimits,
};
use crate::strict::Look;

/// Transfers completed in one go.
const LIMITS: TxLimits =
    TxLimits { chains: 64, descriptors: usize::MAX, frames: usize::MAX, pause: Span::from_ns(1) };

/// The longest IP packet with its Ethernet header: the longest that is cut into segments.
const MOST_PACKET_BYTES: usize = 65_535 + HEADER_BYTES;

impl TxFormat for Fifo {
    type Place = u64;
    /// What TX_SEGMENT held.
    type Words = u32;

    const SOURCE: &'static str = "docs/descriptor-fifo.md, section 4";
    const DESCRIPTORS: usize = regs::FIFO;
    const IN_MEMORY: bool = false;
    const WHOLE_FRAMES: bool = false;
    const MAX_BYTES: usize = usize::MAX;

    #[inline]
    fn load(&self, _cx: &mut NicContext<'_>, place: u64) -> Found<TxDescriptor<u64, u32>> {
        Ok(self.get(place).map(|piece| TxDescriptor {
            place,
            next: place + 1,
            buffer: piece.address,
            bytes: piece.bytes(),
            first: piece.has(regs::FIRST),
            last: piece.has(regs::LAST),
            since: piece.at,
            words: piece.segment,
        }))
    }

    fn look(&self, _cx: &NicContext<'_>, place: u64) -> Option<Look<u64>> {
        Fifo::look(self, place)
    }

    fn is_set(&self) -> bool {
        true
    }
}

/// What a packet's first descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The packet goes out as it is.
    Whole,
    /// It is cut into segments of `mss` bytes of payload; the TCP header begins at `transport`.
    Segments { transport: usize, mss: usize },
}

impl Request {
    fn of(segment: u32) -> Request {
        match segment & regs::SEGMENT_BYTES {
            0 => Request::Whole,
            mss => Request::Segments {
                transport: ((segment & regs::SEGMENT_HEADER) >> regs::SEGMENT_HEADER_SHIFT)
                    as usize,
                mss: mss as usize,
            },
        }
    }
}

/// The packet whose pieces are being transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// The queue holds no packet.
    None,
    /// So many of its bytes are in the buffer so far; and what it asks for.
    Good(usize, Request),
    /// It makes no frame; its pieces are passed over up to the last.
    Unusable,
}

impl Packet {
    /// Moves a piece's bytes into the card's memory, behind those of its packet that are there.
    pub(super) fn collect(
        self,
        cx: &mut NicContext<'_>,
        out: &Outgoing<'_, Fifo>,
        buffer: &mut [u8],
        max_frame_bytes: usize,
    ) -> Result<Packet, DmaError> {
        let (held, request) = match self {
            _ if out.chain[0].first => (0, Request::of(out.chain[0].words)),
            Packet::Good(held, request) => (held, request),
            Packet::None | Packet::Unusable => return Ok(Packet::Unusable),
        };
        let end = held + out.chain[0].bytes;
        let too_long = request == Request::Whole && end > max_frame_bytes;
        let place = buffer.get_mut(held..end).filter(|_| !too_long);
        let Some(place) = place else { return Ok(Packet::Unusable) };
        out.collect(cx, place)?;
        Ok(Packet::Good(end, request))
    }
}

#[derive(Debug)]
pub(super) struct Transmitter {
    pub(super) engine: TxEngine<Fifo>,
    pub(super) packet: Packet,
    /// Room for the longest packet.
    pub(super) buffer: Box<[u8]>,
    /// A segment of it.
    pub(super) segment: Vec<u8>,
    /// The longest frame.
    pub(super) max_frame_bytes: usize,
}

impl Transmitter {
    /// For frames of so many bytes, made of packets that are no longer, or else (`segments`) as long as IP has them.
    pub(super) fn new(engine: Engine, max_frame_bytes: usize, segments: bool) -> Self {
        let fifo = [Fifo::new()];
        let most_bytes = if segments { MOST_PACKET_BYTES } else { max_frame_bytes };
        Transmitter {
            engine: TxEngine::new(fifo, Arbitration::Strict, Some(engine), LIMITS, timers::TX),
            packet: Packet::None,
            buffer: vec![0; most_bytes].into(),
            segment: Vec::new(),
            max_frame_bytes,
        }
    }

    pub(super) fn reset(&mut self) {
        self.engine.reset();
        self.fifo_mut().reset();
        self.packet = Packet::None;
    }

    pub(super) fn fifo_mut(&mut self) -> &mut Fifo {
        &mut self.engine.queue_mut(0).format
    }

    /// TX_REMAINING.
    pub(super) fn remaining(&self) -> usize {
        let queue = self.engine.queue(0);
        queue.format.remaining(queue.head())
    }

    /// The driver switches the engine on or off. A transfer that was under way begins anew later.
    pub(super) fn enable(&mut self, cx: &mut NicContext<'_>, on: bool) {
        if on == self.engine.is_enabled() {
            return;
        }
        self.engine.enable(on);
        if on {
            self.engine.start(cx);
        } else {
            self.engine.stop();
        }
    }
}

//! What is given to a card from outside.

use warikomi_wire::{HEADER_BYTES, wire_time};

use crate::MAX_FRAME_BYTES;
use crate::bus::Bus;
use crate::queue::{Engine, Line};

/// Memory on the card for frames that wait for the line; the longest chain has room in it.
const MEMORY_BYTES: usize = 512 << 10;

/// Bus, line and longest frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    bus: Option<Bus>,
    line_bps: Option<u64>,
    /// The longest frame in bytes without check sequence, with a tag.
    pub(crate) max_frame_bytes: usize,
}

impl Setup {
    /// Transmits over this bus, and a line of `line_bps` bits a second; neither sends nor takes IP packets of more than
    /// `mtu` bytes.
    pub(crate) fn new(bus: Option<Bus>, line_bps: Option<u64>, mtu: Option<u32>) -> Setup {
        const TAG_BYTES: usize = 4;
        let longest = |mtu| mtu as usize + HEADER_BYTES + TAG_BYTES;
        let max_frame_bytes = mtu.map_or(MAX_FRAME_BYTES, longest).min(MAX_FRAME_BYTES);
        Setup { bus, line_bps, max_frame_bytes }
    }

    /// An engine, if anything takes time.
    pub(crate) fn engine(&self) -> Option<Engine> {
        let line = self.line_bps.map(|bps| Line { bits_per_second: bps, frame_time: wire_time });
        let takes_time = self.bus.is_some() || line.is_some();
        takes_time.then(|| Engine::new(self.bus, line, MEMORY_BYTES))
    }
}

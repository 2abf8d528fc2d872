//! What happens to a card: all that a driver, a wire and an experiment may do.

use warikomi_nic::{Link, RxFault};
use warikomi_pci::Width;

/// First address of the memory of a history.
pub const BASE: u64 = 0x1000;
/// Bytes of memory of a bench.
pub const MEMORY: usize = 0x2_0000;
/// Where an orderly driver has its receive ring.
pub const RX_RING: u64 = BASE;
/// Where it has its transmit ring.
pub const TX_RING: u64 = BASE + 0x8000;
/// Where it has its buffers.
pub const BUFFER: u64 = BASE + 0x1_0000;

/// A frame that an orderly driver transmits.
#[derive(Clone, Copy, Debug)]
pub struct TxRequest {
    /// Requests in its descriptors, as far as a card has them.
    pub opts: [u32; 2],
    /// How many pieces it has.
    pub pieces: u64,
    /// Bytes of each piece.
    pub bytes: u32,
}

/// Something that happens to a card.
#[derive(Clone, Debug)]
pub enum Step {
    /// The driver reads a register.
    Read {
        /// Number of the BAR.
        bar: u8,
        /// Offset of the register.
        offset: u64,
        /// Width of the access.
        width: Width,
    },
    /// The driver writes a register.
    Write {
        /// Number of the BAR.
        bar: u8,
        /// Offset of the register.
        offset: u64,
        /// Width of the access.
        width: Width,
        /// The value to write.
        value: u64,
    },
    /// The driver writes to configuration space.
    Config {
        /// Offset of the register.
        offset: u16,
        /// Width of the access.
        width: Width,
        /// The value to write.
        value: u64,
    },
    /// The driver writes a word to memory.
    Memory {
        /// Bus address.
        address: u64,
        /// The word to write.
        word: u32,
    },
    /// A descriptor ring's worth of the same descriptor, whose last has an end mark (bit 30) if wanted.
    Ring {
        /// Bus address of the first descriptor.
        address: u64,
        /// Words of each descriptor.
        words: [u32; 4],
        /// Number of descriptors.
        length: u64,
        /// Whether the last is marked.
        end: bool,
    },
    /// A driver that knows what it does opens the card: with this many receive buffers of this size.
    Open {
        /// Number of receive buffers.
        length: u64,
        /// Bytes of each receive buffer.
        size: u32,
    },
    /// It gives every receive descriptor back.
    GiveBack,
    /// It transmits a frame.
    Transmit(TxRequest),
    /// A frame arrives.
    Frame {
        /// Bytes of the frame.
        bytes: Vec<u8>,
        /// The fault of the frame, if it has one.
        fault: Option<RxFault>,
    },
    /// Frames arrive in a burst.
    Burst {
        /// Bytes of each frame.
        bytes: Vec<u8>,
        /// How many come.
        frames: usize,
        /// How many were announced.
        announced: usize,
    },
    /// Time passes.
    Wait {
        /// Microseconds to wait.
        us: u64,
    },
    /// Time goes on to what is due next.
    Next,
    /// The cable changes.
    Plug(Link),
    /// Somebody asks how far frames have come.
    Progress {
        /// Descriptors to look at.
        limit: usize,
    },
    /// Somebody asks for free descriptors.
    Free {
        /// Descriptors to look at.
        limit: usize,
    },
    /// The target starts again.
    PowerOn,
}

impl Step {
    /// A write to a register.
    pub fn write(bar: u8, offset: u64, width: Width, value: u64) -> Step {
        Step::Write { bar, offset, width, value }
    }
}

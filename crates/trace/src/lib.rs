//! What happened at a device's edge, in a compact binary form.
//!
//! Beside it stand what a trace becomes ([`export`]), whether a driver does the same again ([`Behaviour`]), and
//! real traffic as other programs record it ([`capture`]).
//!
//! [`Recorded`] is a NIC around a NIC: every access, transfer, interrupt and frame that passes goes on
//! a [`Tape`], a piece of memory that was allocated before, and from there into a file when all is
//! over. [`Reader`] gives the events back.
//!
//! ```text
//! file    magic (8) version (4) length (4) CRC-32 of the header (4) CRC-32 of the 12 bytes before (4)
//!         header (JSON) block ... block end
//! block   mark (4) length (4) events (4) CRC-32 of the payload (4) CRC-32 of the 16 bytes before (4)
//!         payload
//! end     a block of another mark, whose payload is: events (8), events that did not fit (8)
//! event   head (2), time, a, b          all integers little-endian
//! ```
//!
//! An event is a kind, a time and two numbers. The two bytes of its head have the kind (bits 0 to 4)
//! and how long the three numbers are (3 bits each: 0 to 6 or 8 bytes). The time is the difference from
//! the last event in picoseconds, exact, and 0 bytes long within one call. Addresses are differences
//! from the last one of their kind. A frame is given whole once; as long as the next ones differ from
//! it in their sequence number only, which is compared byte by byte, only the number and the check
//! sequence are written.
//!
//! Everything in a file is checked before it is used, and the error names the first byte that cannot
//! be trusted: of a file that is cut, the byte that is missing; of a damaged one, the first of the
//! header or block whose check sequence does not match, or the event that makes no sense.

mod behaviour;
pub mod capture;
mod event;
pub mod export;
mod file;
mod reader;
mod recorded;
mod register;
mod tape;

pub use behaviour::{Behaviour, Comparison, Difference};
pub use event::{Access, Event, EventKind, FrameBytes};
pub use file::Header;
pub use reader::{Frames, Reader, Summary, TraceError};
pub use recorded::Recorded;
pub use tape::Tape;

/// What a trace begins with. The line ends show a transfer that takes it for text.
const MAGIC: [u8; 8] = *b"\x89WKT\r\n\x1a\n";
/// The form's version. Form 2 says for which queue a frame was, and of which vector a message is.
const VERSION: u32 = 2;
/// The oldest that is read: what form 1 does not say is 0 there, and its NICs had one of each.
const OLDEST_VERSION: u32 = 1;
const BLOCK_MARK: [u8; 4] = *b"WKB\x01";
const END_MARK: [u8; 4] = *b"WKB\x02";
const FRONT_BYTES: usize = 16;
const BLOCK_HEADER_BYTES: usize = 20;
const END_BYTES: usize = 16;
/// A block is closed before it would be longer.
const BLOCK_BYTES: usize = 16 * 1024;
/// The longest payload of a block: a frame may follow the last event.
const MAX_BLOCK_BYTES: usize = 2 * BLOCK_BYTES + 64;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// An event without a frame: head and three numbers of 8 bytes, in 32 bytes that are written at once.
const MAX_EVENT_BYTES: usize = 32;
/// The lengths that three bits can say.
const LENGTHS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 8];

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

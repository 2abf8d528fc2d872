//! Realtek RTL8139, 10/100 Mbit/s, in both its modes: the ring of bytes and four transmit registers that Linux drives
//! with 8139too ([`RTL8139`], an RTL8139C), and the descriptor rings of the C+ mode that it drives with 8139cp
//! ([`RTL8139CP`], an RTL8139C+, which can be driven either way).
//!
//! What they do is taken from what the drivers of Linux 6.1 rely on, and from Realtek's data sheets; see `regs.rs` for
//! the sources. Not modelled: wake-up frames, early receive, loopback, pause frames, collisions, the receive FIFO
//! and thresholds, power states, retransmission of aborted frames, and frames whose check sequence the driver
//! has made itself.

mod access;
mod byte_ring;
mod chip;
mod device;
mod eeprom;
mod intr;
mod model;
mod offload;
mod regs;
mod rx;
mod rx_queue;
mod slots;
mod timers;
mod tx;
mod tx_queue;
mod verdict;

pub use self::chip::{Chip, RTL8139, RTL8139CP};
pub use self::device::Rtl8139;

/// Descriptors that a ring has at most (8139cp.c, CP_RX_RING_SIZE and CP_TX_RING_SIZE); one without an end mark wraps
/// here.
const RING_LIMIT: u16 = 64;

//! Realtek RTL8168C (XID 0x3c0), the gigabit NIC that Linux drives with r8169.
//!
//! This revision was chosen because r8169 uses MSI for it, has no firmware to load for it, and
//! knows its PHY. What it does is taken from what the driver of Linux 6.1 relies on; see
//! [`regs`] for the sources. Not modelled: wake-up frames, the EEPROM's serial protocol, MAC and
//! PHY loopback, pause frames, collisions, the receive FIFO, power states.

mod access;
mod device;
mod indirect;
mod intr;
mod model;
mod offload;
pub mod regs;
mod rx;
mod rx_queue;
mod timers;
mod tx;
mod tx_queue;
mod verdict;

pub use self::device::Rtl8168;
pub use self::model::INFO;

/// Descriptors that a ring has at most; a ring without an end mark wraps here.
const RING_LIMIT: u16 = 1_024;

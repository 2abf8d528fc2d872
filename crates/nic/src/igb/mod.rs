//! Intel 82576, the gigabit NIC with many queues that Linux drives with igb: one of its two ports, copper, as a function
//! by itself.
//!
//! Sixteen queues each way, ten vectors by MSI-X (one by MSI or INTA#), a controller with an EEPROM. What it does is
//! taken from Intel's "82576 Gigabit Ethernet Controller Datasheet" (321027), which is cited here as "82576" with its
//! sections, and from what the driver of Linux 6.12 relies on. [`regs`] has the registers; what the 82574L has as well
//! is in `crate::intel`.
//!
//! Not modelled: virtual functions and their mailboxes, pools (VMDq), filters that name a queue (ETQF, FTQF, SYNQF), header
//! split and replication, the window of I/O ports (its EEPROM has it off), SerDes and SGMII, wake-up, management, the
//! EEPROM's serial lines behind EECD, pause frames that stop the transmitter, DMA coalescing, IPsec and MACsec,
//! thresholds of descriptor prefetch and write-back, the receive FIFO: a frame that finds no descriptor is missed at
//! once.

mod access;
mod descriptor;
mod device;
mod intr;
mod model;
mod offload;
mod phy;
mod queues;
pub mod regs;
mod rss;
mod rx;
mod rx_queue;
mod timers;
mod tx;
mod tx_queue;

pub use self::device::Igb;
pub use self::model::INFO;

//! Intel 82574L, the gigabit NIC that Linux drives with e1000e.
//!
//! Two queues each way, five vectors by MSI-X (one by MSI or INTA#), a controller with an EEPROM and without flash
//! memory. What it does is taken from Intel's "82574 GbE Controller Family Datasheet" (document 317694), which is
//! cited here as "82574" with its sections, and from what the driver of Linux 6.1 relies on. [`regs`] has the
//! registers.
//!
//! Not modelled: wake-up, management (a BMC on the card's side bus), the EEPROM's serial lines behind EECD, pause
//! frames that stop the transmitter, collisions, loopback, thresholds of descriptor prefetch and write-back, the
//! receive FIFO: a frame that finds no descriptor is missed at once.

mod access;
mod delay;
mod descriptor;
mod device;
mod intr;
mod model;
mod offload;
mod phy;
pub mod regs;
mod rss;
mod rx;
mod rx_queue;
mod timers;
mod tx;
mod tx_queue;

pub use self::device::E1000e;
pub use self::model::INFO;

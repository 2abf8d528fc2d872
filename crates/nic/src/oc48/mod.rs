//! A card for packet over SONET at OC-48c: 2.4 Gbit/s, packets of up to 64 KB, descriptors in a FIFO
//! on the card. Its data sheet is docs/oc48.md; with another line rate and MTU it resembles cards of
//! 10 Gbit/s and more.

mod device;
mod fifo;
mod line;
mod model;
pub mod regs;
mod rx;
mod rx_queue;
mod timers;
mod tx;
mod tx_queue;

pub use self::device::Oc48;
pub use self::line::{LINE_BPS, MTU, USUAL_BUS};
pub use self::model::INFO;

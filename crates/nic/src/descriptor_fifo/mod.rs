//! Cards with a FIFO of descriptors on the card, of which each [`Card`] is a description: packet over SONET at
//! OC-48c (2.4 Gbit/s) and OC-192c (9.6 Gbit/s) with packets of up to 64 KB, and 10 Gigabit Ethernet with an MTU
//! of 16,114 bytes. Their data sheet is docs/descriptor-fifo.md.

mod card;
mod device;
mod fifo;
mod model;
mod regs;
mod rx;
mod rx_queue;
mod timers;
mod tx;
mod tx_queue;

pub use self::card::{Card, GE10, OC48, OC192};
pub use self::device::DescriptorFifo;

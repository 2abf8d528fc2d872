//! Cards with a FIFO of descriptors, judged from the driver's side by their data sheet (docs/descriptor-fifo.md).

#![allow(missing_docs)]

mod card;
mod family;
mod receive;
mod registers;
mod segments;
mod transmit;

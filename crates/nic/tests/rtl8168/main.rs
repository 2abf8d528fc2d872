//! The RTL8168 model, judged from the driver's side.

#![allow(missing_docs)]

mod account;
mod driver;
mod faults;
mod interrupts;
mod link;
mod paced;
mod receive;
mod registers;
mod speed;
mod transmit;

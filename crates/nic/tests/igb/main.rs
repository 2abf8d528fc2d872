//! The 82576 model, judged from the driver's side.

#![allow(missing_docs)]

#[path = "../intel/admission.rs"]
mod admission;
mod driver;
mod interrupts;
mod link;
mod queues;
mod receive;
mod registers;
mod stamps;
mod transmit;

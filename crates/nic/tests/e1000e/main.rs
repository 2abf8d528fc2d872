//! The 82574L model, judged from the driver's side.

#![allow(missing_docs)]

#[path = "../intel/admission.rs"]
mod admission;
mod driver;
mod interrupts;
mod link;
mod receive;
mod registers;
mod split;
mod stamps;
mod transmit;

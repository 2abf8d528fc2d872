//! The model oc48, judged from the driver's side by its data sheet (docs/oc48.md).

#![allow(missing_docs)]

mod card;
mod receive;
mod registers;
mod transmit;

//! The round trip of a small message: an application in the driver's process (a user-level network interface) sends
//! it, a host at the other end of the line sends it back, and the application takes it, for each way to receive.
//!
//! The application ([`RoundTrips`](warikomi_stack::RoundTrips)), the driver and its loop are the same code in real
//! time ([`real`]), where the processor says what they take, and in virtual time, where that is declared. One message
//! is on its way at a time, and the next goes as soon as the answer is there, so that what is measured is the way and
//! not a queue.

mod columns;
mod flags;
mod real;
mod row;

pub use flags::RoundTrip;
pub use real::{BringUp, measure};
pub use row::Row;

//! The region through which a driver in a process of its own is attached to a function.
//!
//! One file in memory, handed over a Unix socket, and a pipe. What lies where in it
//! ([`layout`]) and what an entry of the register ring says ([`Access`]) is all that the two sides
//! know of each other; `include/warikomi_driver.h` says the same in C.

mod access;
pub mod layout;

pub use access::{Access, BadAccess, Operation, Space};

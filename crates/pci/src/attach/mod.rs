//! The window through which a driver in a process of its own is attached to a function.
//!
//! Files in memory, handed over a Unix socket, and a pipe. What lies where in the window
//! ([`layout`]), what a driver that can be replaced leaves for the next ([`area`]), and what an entry of the register ring says ([`Access`]) is all that the two sides
//! know of each other; `include/warikomi_layout.h` is made from them for C.

mod access;
pub mod area;
pub mod bridge;
pub mod layout;

pub use access::{Access, AnswerPlace, BadAccess, Operation, Space};

//! From a result to what a person reads.

pub mod terminal;

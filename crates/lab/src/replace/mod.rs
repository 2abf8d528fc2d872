//! Replacing a driver under traffic, and proving that nothing was lost.

pub mod kernel;
mod row;

pub use row::{Load, ReplaceRow, Spread};

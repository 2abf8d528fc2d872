//! Replacing a driver under traffic, and proving that nothing was lost.

mod row;

pub use row::{Load, ReplaceRow, Spread};

//! An interrupt at one place in the driver, and what comes of it.

mod columns;
mod flags;

pub use flags::At;

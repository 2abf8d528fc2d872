//! An interrupt at one place in the driver, and what comes of it.

mod columns;
mod flags;

pub use flags::At;
pub(crate) use flags::{condition_help, operation_help};

//! An interrupt struck at a place in a driver that runs in a kernel: what `at` and `explore` share.

mod code;
mod condition;
mod frames;
mod napi;
mod operation;
mod registers;
mod scene;
mod striker;
mod striking;
mod trial;
mod verdict;
mod watched;

pub(crate) use code::driver_code;
pub(crate) use condition::{Check, Condition, FORMS, checks};
pub(crate) use registers::register_named;
pub(crate) use scene::Scene;
pub(crate) use striker::Where;
pub(crate) use striking::striking_help;
pub(crate) use trial::Attempt;

pub use operation::{OPERATIONS, Operation};
pub use striking::Striking;
pub use trial::Trial;
pub use verdict::Verdict;

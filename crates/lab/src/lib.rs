//! The experiments, one module each, and what they share: a [`Session`] is a target with its
//! driver loaded and its link up.

pub mod bench;
pub mod doctor;
pub mod export;
pub mod inject;
pub mod record;
pub mod replay;
mod session;

pub use session::{GuestSettings, Session, SessionError, SessionOptions, bring_up};

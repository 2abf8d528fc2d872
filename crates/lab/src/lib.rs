//! The experiments, one module each, and what they share: a [`Session`] is a target with its
//! driver loaded and its link up.

pub mod accuracy;
pub mod bench;
pub mod cost;
mod cpu_time;
pub mod doctor;
pub mod export;
pub mod inject;
pub mod layouts;
mod object;
pub mod receive;
pub mod record;
pub mod replace;
pub mod replay;
pub mod service;
mod session;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod transmit;
pub mod virtual_time;

pub use session::{
    CoreWatch, GuestSettings, PacketPath, ProcessSessionOptions, Session, SessionError,
    SessionOptions, bring_up,
};

//! The experiments, one module each.

pub mod accuracy;
pub mod bench;
pub mod cost;
mod cpu_time;
pub mod doctor;
pub mod inject;
mod object;
pub mod receive;
pub mod record;
pub mod replace;
pub mod replay;
pub mod sweep;
pub mod transmit;

pub use warikomi_session::{
    CoreWatch, GuestSettings, PacketPath, ProcessSessionOptions, Session, SessionError,
    SessionOptions, bring_up,
};

//! The experiments, one module each.

pub mod accuracy;
pub mod cost;
mod error;
pub mod inject;
pub mod layouts;
pub mod receive;
pub mod record;
pub mod replace;
pub mod replay;
pub mod sweep;
pub mod transmit;

pub use error::Error;
pub use warikomi_session::{
    CoreWatch, GuestSettings, PacketPath, ProcessSessionOptions, Session, SessionError,
    SessionOptions, bring_up,
};

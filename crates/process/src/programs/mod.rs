//! What runs in the processes of a packet path.
//!
//! Each `main` returns when the support side has gone in the orderly way, and with an error that says
//! what happened otherwise.

mod agent;
pub mod application;
mod direct;
pub mod driver;
pub mod echo;
mod line;
mod network;
mod pinger;
mod port;
pub mod sender;
pub mod stack;
pub mod starter;
pub mod store;
pub mod store_client;
mod tell;
mod work;

pub use direct::DirectUpper;
pub use driver::{Above, above_driver};

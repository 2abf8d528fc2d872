//! Replacing a driver while it runs.
//!
//! The [`Supervisor`] decides, the target does ([`warikomi_process`]): the supervisor is a state
//! machine that is stepped beside [`Target::poll`](warikomi_target::Target::poll) and never waits, so that
//! the NIC goes on meanwhile.
//! It keeps a warm driver ready, hands over in the way that was asked for, and puts another driver in the
//! place of one that has died, hangs, or leaves work lying. docs/replacement.md has the protocol.
//! A [`service`] goes on under one until it is stopped.

mod beside;
mod drivers;
mod events;
#[cfg(test)]
mod orders_tests;
mod phase;
mod planned;
mod policy;
mod recovery;
pub mod service;
mod supervisor;
mod watch;

pub use beside::Beside;
pub use drivers::Drivers;
pub use events::{Event, Kind, Refused, Replacement, Service, Status};
pub use policy::{Backoff, Policy};
pub use supervisor::Supervisor;
pub use warikomi_process::{How, ParseWayError, Program, Way};
pub use watch::{Verdict, Watch};

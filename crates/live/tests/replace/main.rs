//! Drivers in processes of their own that are replaced, killed, and replaced by drivers that are no good,
//! while frames come in: the service goes on, and of the frames none is lost that need not be.
//!
//! Every program is this very test binary, run again to be one test, [`programs::part`].

mod bad;
mod planned;
mod programs;
mod rig;
mod soak;
mod spare;
mod store;
mod sudden;

use std::time::Duration;

/// Longer than anything here takes, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);

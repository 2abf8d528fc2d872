//! How an application waits for what it receives.

use serde::{Deserialize, Serialize};

/// How a reception waits for its next datagram: asleep until an interrupt, or polling the device
/// first. An option that this kernel does not have is refused, in the kernel's own words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wait {
    /// Waits in `epoll_wait` rather than in the receiving system call.
    pub epoll: bool,
    /// Polls the device for so long before it sleeps, in microseconds; 0 does not poll. Through
    /// `SO_BUSY_POLL`, or with `epoll` through `EPIOCSPARAMS`, and where that is missing (before
    /// Linux 6.9) through `net.core.busy_poll` for as long as the reception lasts.
    pub busy_poll_us: u32,
    /// Most frames of one such poll; 0 leaves it to the kernel.
    pub busy_poll_budget: u16,
    /// Asks the kernel to leave the device to this polling as long as it goes on
    /// (`SO_PREFER_BUSY_POLL`): has effect only where NAPI defers interrupts, too.
    pub prefer_busy_poll: bool,
}

//! The ways that Linux has to receive.

use std::fmt;
use std::str::FromStr;

use warikomi_protocol::commands::Wait;

/// Most frames of one busy poll: as many as NAPI takes in one.
const BUSY_POLL_BUDGET: u16 = 64;

/// How long an application that prefers busy polling may go without asking before interrupts come
/// back, in nanoseconds: the 20 ms of the kernel's own documentation (`networking/napi.rst`).
const SUSPEND_TIMEOUT_NS: u64 = 20_000_000;

/// A way to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Nothing deferred; the application sleeps in the receiving call.
    Interrupt,
    /// The kernel polls once more after T before it enables the interrupt; the application sleeps.
    NapiDefer,
    /// The application polls the device for T in the receiving call, then sleeps (`SO_BUSY_POLL`).
    BusyPoll,
    /// The same, and the device is left to it meanwhile (`SO_PREFER_BUSY_POLL`).
    PreferBusyPoll,
    /// The application polls the device for T in `epoll_wait`, then sleeps.
    EpollBusyPoll,
    /// The same, and interrupts stay off as long as there is something to receive.
    IrqSuspend,
}

impl Strategy {
    /// All, in the order in which they are shown.
    pub const ALL: [Strategy; 6] = [
        Strategy::Interrupt,
        Strategy::NapiDefer,
        Strategy::BusyPoll,
        Strategy::PreferBusyPoll,
        Strategy::EpollBusyPoll,
        Strategy::IrqSuspend,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Interrupt => "interrupt",
            Strategy::NapiDefer => "napi-defer",
            Strategy::BusyPoll => "busy-poll",
            Strategy::PreferBusyPoll => "prefer-busy-poll",
            Strategy::EpollBusyPoll => "epoll-busy-poll",
            Strategy::IrqSuspend => "irq-suspend",
        }
    }

    /// Whether a poll time is part of it.
    pub fn polls(self) -> bool {
        self != Strategy::Interrupt
    }

    /// Whether NAPI has to defer interrupts for it, by the poll time.
    pub(super) fn defers(self) -> bool {
        matches!(self, Strategy::NapiDefer | Strategy::PreferBusyPoll | Strategy::IrqSuspend)
    }

    /// How the application waits.
    pub(super) fn wait(self, poll_us: u32) -> Wait {
        let polling = |epoll, prefer_busy_poll| Wait {
            epoll,
            busy_poll_us: poll_us,
            busy_poll_budget: BUSY_POLL_BUDGET,
            prefer_busy_poll,
        };
        match self {
            Strategy::Interrupt | Strategy::NapiDefer => Wait::default(),
            Strategy::BusyPoll => polling(false, false),
            Strategy::PreferBusyPoll => polling(false, true),
            Strategy::EpollBusyPoll => polling(true, false),
            Strategy::IrqSuspend => polling(true, true),
        }
    }

    /// How long interrupts may be suspended, in nanoseconds, if they are.
    pub(super) fn suspend_timeout_ns(self) -> Option<u64> {
        (self == Strategy::IrqSuspend).then_some(SUSPEND_TIMEOUT_NS)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is no strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no way to receive; choose of: {all}", all = Strategy::ALL.map(Strategy::name).join(", "))]
pub struct NoStrategy(String);

impl FromStr for Strategy {
    type Err = NoStrategy;

    fn from_str(text: &str) -> Result<Self, NoStrategy> {
        let found = Strategy::ALL.into_iter().find(|strategy| strategy.name() == text.trim());
        found.ok_or_else(|| NoStrategy(text.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_is_found_by_it() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
            assert_eq!(
                strategy.wait(7).busy_poll_us > 0,
                strategy.polls() && strategy != Strategy::NapiDefer
            );
        }
        let refused = "poll".parse::<Strategy>().unwrap_err().to_string();
        assert!(refused.contains("napi-defer, busy-poll"), "{refused}");
    }
}

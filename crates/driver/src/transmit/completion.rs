//! How completed transfers are noticed.

use std::fmt;
use std::str::FromStr;

/// Free space of the send buffer, in percent, between which an adaptive driver changes its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    low_percent: u8,
    high_percent: u8,
}

impl Thresholds {
    /// Interrupts are switched on below `low_percent` of free space, and off at `high_percent`: above 0, up
    /// to 100, the low one below the high one.
    pub fn new(low_percent: u8, high_percent: u8) -> Result<Thresholds, ParseCompletionError> {
        let possible = 0 < low_percent && low_percent < high_percent && high_percent <= 100;
        let thresholds = Thresholds { low_percent, high_percent };
        possible
            .then_some(thresholds)
            .ok_or(ParseCompletionError::Thresholds { low_percent, high_percent })
    }

    /// Below this much free space interrupts are switched on.
    pub fn low_percent(self) -> u8 {
        self.low_percent
    }

    /// At this much free space they are switched off.
    pub fn high_percent(self) -> u8 {
        self.high_percent
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { low_percent: 25, high_percent: 50 }
    }
}

/// How a driver notices that transfers are completed, and frees what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Each completed packet interrupts, and the handler frees.
    Interrupt,
    /// No interrupts: whatever has been sent is freed at each new transmit. Dead-locks if the send buffer
    /// is full before the device is.
    InterruptFree,
    /// Free of interrupts, until the send buffer's free space falls below a threshold; then with them, until
    /// it has recovered. While there is much free space, the device is not asked at each new transmit.
    Adaptive(Thresholds),
}

/// Why a text is no completion strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCompletionError {
    /// No such name.
    #[error(
        "'{0}' is no completion strategy; there are interrupt, interrupt-free and adaptive (adaptive:25%,50%)"
    )]
    Unknown(String),
    /// Thresholds that cross, or are out of range.
    #[error(
        "thresholds of {low_percent}% and {high_percent}% of free space are not possible: both must be above 0% and up to 100%, the first below the second, as in adaptive:25%,50%"
    )]
    Thresholds {
        /// The first.
        low_percent: u8,
        /// The second.
        high_percent: u8,
    },
}

impl FromStr for Completion {
    type Err = ParseCompletionError;

    fn from_str(text: &str) -> Result<Completion, ParseCompletionError> {
        let text = text.trim();
        let unknown = || ParseCompletionError::Unknown(text.to_owned());
        match text.split_once(':') {
            None => match text {
                "interrupt" => Ok(Completion::Interrupt),
                "interrupt-free" => Ok(Completion::InterruptFree),
                "adaptive" => Ok(Completion::Adaptive(Thresholds::default())),
                _ => Err(unknown()),
            },
            Some(("adaptive", both)) => {
                let (low, high) = both.split_once(',').ok_or_else(unknown)?;
                let percent = |text: &str| {
                    text.trim().trim_end_matches('%').parse::<u8>().map_err(|_| unknown())
                };
                Ok(Completion::Adaptive(Thresholds::new(percent(low)?, percent(high)?)?))
            }
            Some(_) => Err(unknown()),
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Completion::Interrupt => f.write_str("interrupt"),
            Completion::InterruptFree => f.write_str("interrupt-free"),
            Completion::Adaptive(thresholds) if *thresholds == Thresholds::default() => {
                f.write_str("adaptive")
            }
            Completion::Adaptive(Thresholds { low_percent, high_percent }) => {
                write!(f, "adaptive:{low_percent}%,{high_percent}%")
            }
        }
    }
}

/// An adaptive driver that has much free space asks the device once in so many packets. A register read
/// takes about as long as all else that is done for a packet; a sixteenth of it is little.
const PACKETS_UNASKED: usize = 16;

/// Decides when interrupts of completed transfers are on, and when the driver asks by itself.
#[derive(Clone, Copy, Debug)]
pub struct Completer {
    completion: Completion,
    interrupts: bool,
    /// There is less free space than that at which interrupts are switched off.
    short_of_room: bool,
}

impl Completer {
    /// At the beginning nothing is on its way.
    pub fn new(completion: Completion) -> Completer {
        let interrupts = completion == Completion::Interrupt;
        Completer { completion, interrupts, short_of_room: false }
    }

    /// Whether interrupts are on.
    #[inline]
    pub fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// Whether somebody without room may wait for completed packets: for that the device is armed, also
    /// while interrupts are off because there is more free space than the threshold (and less than the
    /// message needs).
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.completion != Completion::InterruptFree
    }

    /// Whether the driver asks the device before a new transmit what it has sent, when it has not asked for
    /// so many packets.
    #[inline]
    pub fn asks_before_transmit(&self, unasked: usize) -> bool {
        let may_put_off = matches!(self.completion, Completion::Adaptive(_)) && !self.short_of_room;
        !self.interrupts && (!may_put_off || unasked >= PACKETS_UNASKED)
    }

    /// The send buffer has so much free space of so much in all: whether interrupts are on from now on.
    #[inline]
    pub fn room(&mut self, free_bytes: u64, all_bytes: u64) -> bool {
        if let Completion::Adaptive(thresholds) = self.completion {
            let less_than = |percent: u8| {
                free_bytes.saturating_mul(100) < all_bytes.saturating_mul(percent.into())
            };
            self.short_of_room = less_than(thresholds.high_percent);
            self.interrupts = if self.interrupts {
                self.short_of_room
            } else {
                less_than(thresholds.low_percent)
            };
        }
        self.interrupts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adaptive() -> Completer {
        Completer::new(Completion::Adaptive(Thresholds::default()))
    }

    #[test]
    fn an_adaptive_driver_asks_now_and_then_if_there_is_room_and_always_if_there_is_little() {
        let mut completer = adaptive();
        assert!(!completer.asks_before_transmit(PACKETS_UNASKED - 1));
        assert!(completer.asks_before_transmit(PACKETS_UNASKED));
        assert!(!completer.room(49, 100) && completer.asks_before_transmit(0), "between the two");
        assert!(completer.room(24, 100) && !completer.asks_before_transmit(1_000), "interrupts");
        assert!(!completer.room(50, 100) && !completer.asks_before_transmit(0), "enough again");
    }

    #[test]
    fn fixed_strategies_ask_always_or_never() {
        for free in [0, 30, 100] {
            let [mut with, mut without] =
                [Completion::Interrupt, Completion::InterruptFree].map(Completer::new);
            assert!(with.room(free, 100) && !with.asks_before_transmit(1_000));
            assert!(!without.room(free, 100) && without.asks_before_transmit(0));
        }
    }
}

//! How completed transfers are noticed.

use std::fmt;
use std::str::FromStr;

use warikomi_clock::{Span, Time};

use super::watching::Watch;

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
    /// it has recovered for some packets in a row. While there is much free space, the device is not asked at each new
    /// transmit.
    Adaptive(Thresholds),
    /// The same as a study of adaptive transmission had it: while interrupts are off the device's register of
    /// free descriptors is read at each new transmit, however much free space there is. Which thresholds it had
    /// was not published.
    AdaptivePublished(Thresholds),
    /// Watches more than the send buffer: the lesser of its free space and the descriptor ring's, what share of the
    /// processor is left, and the receive side. Completions are asked for at the next transmission, with the receive
    /// side, or by interrupt, whichever is the cheapest that comes soon enough; and the choice of what is copied is
    /// made anew when the mix of packets changes.
    AdaptiveWatching(Thresholds),
}

impl Completion {
    /// The thresholds of a strategy that has some.
    fn thresholds(self) -> Option<Thresholds> {
        match self {
            Completion::Interrupt | Completion::InterruptFree => None,
            Completion::Adaptive(thresholds)
            | Completion::AdaptivePublished(thresholds)
            | Completion::AdaptiveWatching(thresholds) => Some(thresholds),
        }
    }

    /// Whether more resources than the send buffer are watched.
    #[inline]
    pub fn watches(self) -> bool {
        matches!(self, Completion::AdaptiveWatching(_))
    }

    /// Whether it is one and the same whatever happens.
    pub fn is_fixed(self) -> bool {
        self.thresholds().is_none()
    }
}

/// Why a text is no completion strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCompletionError {
    /// No completion strategy has this name.
    #[error(
        "'{0}' is no completion strategy; there are interrupt, interrupt-free, adaptive, \
         adaptive-published and adaptive-watching (adaptive:25%,50%)"
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

const PUBLISHED: &str = "adaptive-published";
const WATCHING: &str = "adaptive-watching";

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
                PUBLISHED => Ok(Completion::AdaptivePublished(Thresholds::default())),
                WATCHING => Ok(Completion::AdaptiveWatching(Thresholds::default())),
                _ => Err(unknown()),
            },
            Some((name @ ("adaptive" | PUBLISHED | WATCHING), both)) => {
                let (low, high) = both.split_once(',').ok_or_else(unknown)?;
                let percent = |text: &str| {
                    text.trim().trim_end_matches('%').parse::<u8>().map_err(|_| unknown())
                };
                let thresholds = Thresholds::new(percent(low)?, percent(high)?)?;
                Ok(match name {
                    PUBLISHED => Completion::AdaptivePublished(thresholds),
                    WATCHING => Completion::AdaptiveWatching(thresholds),
                    _ => Completion::Adaptive(thresholds),
                })
            }
            Some(_) => Err(unknown()),
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Completion::Interrupt => "interrupt",
            Completion::InterruptFree => "interrupt-free",
            Completion::Adaptive(_) => "adaptive",
            Completion::AdaptivePublished(_) => PUBLISHED,
            Completion::AdaptiveWatching(_) => WATCHING,
        })?;
        match self.thresholds() {
            Some(Thresholds { low_percent, high_percent })
                if self.thresholds() != Some(Thresholds::default()) =>
            {
                write!(f, ":{low_percent}%,{high_percent}%")
            }
            _ => Ok(()),
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
    /// Packets handed over in a row with that much free space, while interrupts are on.
    packets_with_room: usize,
    watch: Watch,
}

impl Completer {
    /// At the beginning nothing is on its way.
    pub fn new(completion: Completion) -> Completer {
        let interrupts = completion == Completion::Interrupt;
        let watch = Watch::default();
        Completer { completion, interrupts, short_of_room: false, packets_with_room: 0, watch }
    }

    /// Whether interrupts of completed transfers are on.
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
        let may_put_off = match self.completion {
            Completion::Adaptive(_) => !self.short_of_room,
            Completion::AdaptiveWatching(_) => !self.short_of_room && !self.watch.has_spare(),
            _ => false,
        };
        !self.interrupts && (!may_put_off || unasked >= PACKETS_UNASKED)
    }

    /// The send buffer has so much free space of so much in all: whether interrupts are on from now on.
    #[inline]
    pub fn room(&mut self, free_bytes: u64, all_bytes: u64) -> bool {
        if let Some(thresholds) = self.completion.thresholds() {
            let less_than = |percent: u8| {
                free_bytes.saturating_mul(100) < all_bytes.saturating_mul(percent.into())
            };
            if self.completion.watches() {
                let percent = if self.short_of_room {
                    thresholds.high_percent
                } else {
                    thresholds.low_percent
                };
                self.short_of_room = less_than(percent);
                return self.interrupts;
            }
            self.short_of_room = less_than(thresholds.high_percent);
            self.interrupts = if self.interrupts {
                self.short_of_room || !self.has_recovered()
            } else {
                less_than(thresholds.low_percent)
            };
            if self.short_of_room || !self.interrupts {
                self.packets_with_room = 0;
            }
        }
        self.interrupts
    }

    /// Whether there has been enough free space for long enough. As published there has as soon as there is; but one
    /// message may take half of the send buffer, and each would switch interrupts on and off.
    fn has_recovered(&self) -> bool {
        let at_once = matches!(self.completion, Completion::AdaptivePublished(_));
        at_once || self.packets_with_room >= PACKETS_UNASKED
    }

    /// The same of a driver that watches more: of the socket's buffer and the descriptor ring the one counts that has
    /// less room. Whether interrupts are on from now on.
    #[inline]
    pub fn resources(&mut self, now: Time, socket: (u64, u64), ring: (u64, u64)) -> bool {
        let product = |free: u64, all: u64| u128::from(free) * u128::from(all);
        let ring_has_less = product(ring.0, socket.1) < product(socket.0, ring.1);
        let (free, all) = if ring_has_less { ring } else { socket };
        self.room(free, all);
        self.watch.look(now);
        self.interrupts = self.watch.wants_interrupts(now, self.short_of_room);
        self.interrupts
    }

    /// Whether more resources than the send buffer are watched.
    #[inline]
    pub fn watches(&self) -> bool {
        self.completion.watches()
    }

    /// A packet was handed over.
    #[inline]
    pub fn transmitted(&mut self, now: Time) {
        if self.watches() {
            self.watch.transmitted(now);
        } else if self.interrupts {
            self.packets_with_room += 1;
        }
    }

    /// The processor had nothing to do for so long.
    #[inline]
    pub fn idled(&mut self, span: Span) {
        self.watch.idled(span);
    }

    /// The receive side has taken packets while so many, the oldest of them for so long, have been held: whether it
    /// asks the device what it has sent. Who is interrupted by each completed packet need not; all others ask when
    /// they transmit.
    #[inline]
    pub fn asks_with_receive(&mut self, now: Time, packets: usize, held: Span) -> bool {
        if !self.watches() {
            return false;
        }
        self.watch.received(now);
        self.watch.asks_with_receive(packets, held, self.short_of_room)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thresholds() -> impl Strategy<Value = Thresholds> {
        (1u8..100, 1u8..100).prop_map(|(low, more)| {
            Thresholds::new(low, low.saturating_add(more).min(100)).unwrap()
        })
    }

    fn adaptive() -> Completer {
        Completer::new(Completion::Adaptive(Thresholds::default()))
    }

    #[test]
    fn as_published_it_reads_the_register_at_each_transmit_while_interrupts_are_off() {
        let mut completer = Completer::new(Completion::AdaptivePublished(Thresholds::default()));
        assert!(completer.may_wait() && completer.asks_before_transmit(0), "with all room");
        assert!(!completer.room(49, 100) && completer.asks_before_transmit(0), "between the two");
        assert!(completer.room(24, 100) && !completer.asks_before_transmit(1_000), "interrupts");
        assert!(!completer.room(50, 100) && completer.asks_before_transmit(0), "enough again");
    }

    #[test]
    fn an_adaptive_driver_asks_now_and_then_if_there_is_room_and_always_if_there_is_little() {
        let mut completer = adaptive();
        assert!(!completer.asks_before_transmit(PACKETS_UNASKED - 1));
        assert!(completer.asks_before_transmit(PACKETS_UNASKED));
        assert!(!completer.room(49, 100) && completer.asks_before_transmit(0), "between the two");
        assert!(completer.room(24, 100) && !completer.asks_before_transmit(1_000), "interrupts");
        transmit(&mut completer, PACKETS_UNASKED);
        assert!(!completer.room(50, 100) && !completer.asks_before_transmit(0), "enough again");
    }

    fn transmit(completer: &mut Completer, packets: usize) {
        (0..packets).for_each(|_| completer.transmitted(Time::ZERO));
    }

    #[test]
    fn room_that_is_soon_gone_again_switches_nothing() {
        let mut completer = adaptive();
        assert!(completer.room(24, 100));
        for _ in 0..3 {
            transmit(&mut completer, PACKETS_UNASKED - 1);
            assert!(completer.room(50, 100), "16 in a row are wanted");
            assert!(completer.room(49, 100));
        }
        transmit(&mut completer, PACKETS_UNASKED - 1);
        assert!(completer.room(100, 100));
        transmit(&mut completer, 1);
        assert!(!completer.room(100, 100));
        // The next time begins anew.
        assert!(completer.room(24, 100) && completer.room(100, 100));
    }

    fn watching() -> Completer {
        Completer::new(Completion::AdaptiveWatching(Thresholds::default()))
    }

    /// A packet every 10 us, of which the processor idles for so many; this much of the socket and of the ring is free.
    fn watched(completer: &mut Completer, idle_us: u64, socket_free: u64, ring_free: u64) -> bool {
        let us = Span::from_us;
        let (mut now, mut on) = (Time::ZERO, false);
        for _ in 0..100 {
            now += us(10);
            completer.idled(us(idle_us));
            completer.transmitted(now);
            on = completer.resources(now, (socket_free, 1_000), (ring_free, 64));
        }
        on
    }

    #[test]
    fn a_watching_driver_is_short_of_room_when_either_the_socket_or_the_ring_is() {
        for (socket, ring, asks) in [(1_000, 64, false), (240, 64, true), (1_000, 15, true)] {
            let mut completer = watching();
            assert!(!watched(&mut completer, 0, socket, ring), "no interrupt: it transmits soon");
            assert_eq!(completer.asks_before_transmit(0), asks, "{socket} {ring}");
            assert!(completer.asks_before_transmit(PACKETS_UNASKED));
        }
    }

    #[test]
    fn a_watching_driver_asks_each_time_while_the_processor_has_time_to_spare() {
        let mut completer = watching();
        watched(&mut completer, 5, 1_000, 64);
        assert!(completer.asks_before_transmit(0));
        let now = Time::ZERO + Span::from_ms(2);
        assert!(completer.asks_with_receive(now, 1, Span::ZERO));
        let mut busy = watching();
        watched(&mut busy, 0, 1_000, 64);
        assert!(!busy.asks_with_receive(now, 1, Span::ZERO));
        assert!(!adaptive().asks_with_receive(now, 100, Span::from_ms(1)), "it does not watch");
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

    #[test]
    fn interrupts_come_on_below_the_low_threshold_and_go_off_at_the_high_one() {
        let mut completer = adaptive();
        let mut at = |percent| {
            transmit(&mut completer, PACKETS_UNASKED);
            completer.room(percent, 100)
        };
        for (percent, on) in [
            (100, false),
            (25, false),
            (24, true),
            (30, true),
            (49, true),
            (50, false),
            (25, false),
        ] {
            assert_eq!(at(percent), on, "{percent}%");
        }
    }

    #[test]
    fn fixed_strategies_stay_as_they_are_and_only_one_of_all_may_not_wait() {
        for (completion, interrupts, may_wait) in [
            (Completion::Interrupt, true, true),
            (Completion::InterruptFree, false, false),
            (Completion::Adaptive(Thresholds::default()), false, true),
            (Completion::AdaptivePublished(Thresholds::default()), false, true),
            (Completion::AdaptiveWatching(Thresholds::default()), false, true),
        ] {
            let mut completer = Completer::new(completion);
            assert_eq!((completer.interrupts(), completer.may_wait()), (interrupts, may_wait));
            if completion.is_fixed() {
                assert!([0, 50, 100].iter().all(|free| completer.room(*free, 100) == interrupts));
            }
        }
    }

    #[test]
    fn texts_that_are_no_strategy_are_refused_with_what_is() {
        for (text, said) in [
            ("polling", "there are interrupt, interrupt-free, adaptive, adaptive-published and"),
            ("adaptive:25", "there are"),
            ("adaptive:a,b", "there are"),
            ("adaptive:300%,400%", "there are"),
            ("adaptive:50%,25%", "50% and 25%"),
            ("adaptive:0%,25%", "above 0%"),
            ("adaptive:25%,101%", "up to 100%"),
            ("adaptive:25%,25%", "the first below the second"),
            ("adaptive-published:50%,25%", "50% and 25%"),
            ("adaptive-watching:50%,25%", "50% and 25%"),
            ("interrupt:25%,50%", "there are"),
        ] {
            let refused = text.parse::<Completion>().unwrap_err().to_string();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }

    proptest! {
        /// Between two changes the free space has crossed from one threshold to the other.
        #[test]
        fn it_changes_at_most_once_for_each_way_between_the_thresholds(
            thresholds in thresholds(),
            published: bool,
            all in 1u64..u64::MAX / 100,
            free in prop::collection::vec(0.0f64..=1.0, 1..200),
        ) {
            let strategy = if published { Completion::AdaptivePublished } else { Completion::Adaptive };
            let mut completer = Completer::new(strategy(thresholds));
            let (mut on, mut changes, mut crossings, mut was_below) = (false, 0, 0, false);
            for share in free {
                let free = ((share * all as f64) as u64).min(all);
                let percent = |percent: u8| all.saturating_mul(percent.into());
                let below = free * 100 < percent(thresholds.low_percent());
                let above = free * 100 >= percent(thresholds.high_percent());
                if below && !was_below || above && was_below {
                    (crossings, was_below) = (crossings + 1, below);
                }
                // Each stays for long enough.
                transmit(&mut completer, PACKETS_UNASKED);
                let now = completer.room(free, all);
                changes += u32::from(now != on);
                on = now;
                prop_assert!(on || !below, "off below the low threshold");
                prop_assert!(!on || !above, "on above the high threshold");
            }
            prop_assert!(changes <= crossings, "{changes} changes for {crossings} crossings");
        }

        #[test]
        fn what_is_written_is_read_again(thresholds in thresholds()) {
            for completion in [
                Completion::Interrupt,
                Completion::InterruptFree,
                Completion::Adaptive(thresholds),
                Completion::AdaptivePublished(thresholds),
                Completion::AdaptiveWatching(thresholds),
            ] {
                prop_assert_eq!(completion.to_string().parse(), Ok(completion));
            }
        }

        #[test]
        fn no_text_upsets_it(text in ".{0,30}") {
            let _ = text.parse::<Completion>();
            let _ = format!("adaptive:{text}").parse::<Completion>();
        }
    }
}

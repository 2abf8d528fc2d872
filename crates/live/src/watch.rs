//! Whether a driver is alive.

use warikomi_clock::{Span, Time};
use warikomi_process::Seat;

/// What a look at a driver found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Well,
    /// Its process has ended, or says that it has failed.
    Over,
    /// Its loop stands still, and it does not sleep.
    Silent,
    /// Work waits, its loop goes round, and it takes none of it up.
    Stuck,
}

/// Watches one driver. What it says is only compared with what it said before.
#[derive(Clone, Debug)]
pub struct Watch {
    silent_for: Span,
    stuck_for: Span,
    /// The last look, and what was seen then.
    last: Option<Look>,
    /// How long the loop has stood still.
    silent: Span,
    /// How long work has waited.
    stuck: Span,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Time,
    heartbeat: u64,
    packets: u64,
}

/// Of the time between two looks, this part of the patience counts at most: if we ourselves were not
/// there, the driver is not to blame.
const MOST_OF_PATIENCE: u64 = 8;

impl Watch {
    /// Begins to watch.
    pub fn new(silent_for: Span, stuck_for: Span) -> Watch {
        Watch { silent_for, stuck_for, last: None, silent: Span::ZERO, stuck: Span::ZERO }
    }

    /// Looks at the driver; `work_waits` is what others know of its work.
    pub fn look(&mut self, now: Time, seat: &Seat, work_waits: bool) -> Verdict {
        if seat.is_over() {
            return Verdict::Over;
        }
        let look = Look { at: now, heartbeat: seat.heartbeat, packets: seat.packets };
        let Some(last) = self.last.replace(look) else { return Verdict::Well };
        let passed = now.since(last.at);
        let beats = look.heartbeat != last.heartbeat;
        let works = look.packets != last.packets;
        let count = |still: bool, so_far: Span, patience: Span| {
            if still { so_far + passed.min(patience / MOST_OF_PATIENCE) } else { Span::ZERO }
        };
        self.silent = count(!beats && !seat.sleeps, self.silent, self.silent_for);
        self.stuck = count(work_waits && !works, self.stuck, self.stuck_for);
        if self.silent >= self.silent_for {
            Verdict::Silent
        } else if self.stuck >= self.stuck_for {
            Verdict::Stuck
        } else {
            Verdict::Well
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use warikomi_process::Seat;

    pub(crate) const SEAT: Seat = Seat {
        generation: 1,
        process_id: Some(1),
        state: 1,
        heartbeat: 0,
        sleeps: false,
        packets: 0,
        ended: None,
        last_words: None,
        read_dispatches: None,
        times: [Time::NEVER; 5],
    };

    fn watch() -> Watch {
        Watch::new(Span::from_ms(8), Span::from_ms(16))
    }

    /// The first look, a millisecond after the other, that does not find it well.
    fn first_verdict(mut seat_at: impl FnMut(u64) -> (Seat, bool)) -> Option<(u64, Verdict)> {
        let mut watch = watch();
        (0..100).find_map(|at_ms| {
            let (seat, work) = seat_at(at_ms);
            let verdict = watch.look(Time::ZERO + Span::from_ms(at_ms), &seat, work);
            (verdict != Verdict::Well).then_some((at_ms, verdict))
        })
    }

    #[test]
    fn a_loop_that_stands_still_is_silent_unless_it_sleeps() {
        assert_eq!(first_verdict(|_| (SEAT, false)), Some((8, Verdict::Silent)));
        assert_eq!(first_verdict(|_| (Seat { sleeps: true, ..SEAT }, false)), None);
        assert_eq!(first_verdict(|at| (Seat { heartbeat: at / 7, ..SEAT }, false)), None);
    }

    #[test]
    fn work_that_waits_is_found_also_with_one_that_sleeps() {
        let idle = |at| Seat { heartbeat: at, ..SEAT };
        assert_eq!(first_verdict(|at| (idle(at), true)), Some((16, Verdict::Stuck)));
        let asleep = Seat { sleeps: true, ..SEAT };
        assert_eq!(first_verdict(|_| (asleep.clone(), true)), Some((16, Verdict::Stuck)));
        assert_eq!(first_verdict(|at| (Seat { packets: at / 15, ..idle(at) }, true)), None);
        assert_eq!(first_verdict(|at| (idle(at), at % 15 != 0)), None);
    }

    #[test]
    fn one_that_has_ended_or_failed_is_over() {
        let ended = Seat { ended: Some("signal: 9".to_owned()), ..SEAT };
        assert_eq!(first_verdict(|_| (ended.clone(), false)), Some((0, Verdict::Over)));
        assert_eq!(first_verdict(|_| (Seat { state: 3, ..SEAT }, false)), Some((0, Verdict::Over)));
    }

    #[test]
    fn time_in_which_nobody_looked_is_not_held_against_it() {
        let mut watch = watch();
        for at_ms in [0, 1_000, 2_000, 3_000] {
            let verdict = watch.look(Time::ZERO + Span::from_ms(at_ms), &SEAT, true);
            assert_eq!(verdict, Verdict::Well);
        }
    }

    proptest! {
        /// Whatever it says, one that beats and works is well, and one that says the same for ever is not.
        #[test]
        fn only_what_changes_counts(words in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 30), work: bool) {
            let mut watch = watch();
            let mut now = Time::ZERO;
            for (number, &(heartbeat, packets, sleeps)) in words.iter().enumerate() {
                now += Span::from_ms(1);
                // Different from the one before, whatever it is.
                let heartbeat = heartbeat << 1 | number as u64 & 1;
                let packets = packets << 1 | number as u64 & 1;
                let seat = Seat { heartbeat, packets, sleeps, ..SEAT };
                prop_assert_eq!(watch.look(now, &seat, work), Verdict::Well);
            }
            let (heartbeat, packets, _) = words[0];
            let seat = Seat { heartbeat, packets, ..SEAT };
            let found = (0..20).any(|_| {
                now += Span::from_ms(1);
                watch.look(now, &seat, work) != Verdict::Well
            });
            prop_assert!(found);
        }
    }
}

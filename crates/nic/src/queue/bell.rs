//! Which doorbells a driver owes, for a strict card.
//!
//! A driver hands a frame over and rings. Both are posted, and the card takes all that it finds at a doorbell, so
//! a frame may go with the doorbell of another, and its own comes later to an empty ring. Each descriptor that
//! was carried out is therefore good for one doorbell, before or within some time after it; one that comes to an
//! empty ring and is good for nothing rang for nothing.
//!
//! Some drivers ring once more on purpose when a descriptor is done and the next is not yet, because real cards lose
//! doorbells (Linux r8169, rtl_tx, "8168 hack"). When such a doorbell arrives the card may be done. It is told
//! apart by what the driver must have seen: each takes at least one descriptor that was carried out since the last.

use warikomi_clock::{Span, Time};

/// How long a doorbell may be under way when its frame has gone: as long as others may have the core of a driver that has
/// just handed a frame over. On a machine that is half busy 57 ms were seen.
const UNDER_WAY: Span = Span::from_ms(500);

/// The doorbell of a queue.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// What the card had carried out when it rang last, and when that had changed last.
    last: Option<(u64, Time)>,
    /// Descriptors carried out that no doorbell has come for; less than 0 if one has come before its frame went.
    due: i64,
    /// Descriptors carried out that no doorbell has come again for.
    again: u64,
}

/// What a doorbell is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// A frame that waits, or one that went with another's.
    Frame,
    /// Nothing, but frames were just carried out: the driver may have seen that one was not done yet.
    Again,
    /// Nothing.
    Nothing,
}

impl Bell {
    /// It rings, and `done` descriptors have been carried out so far; what it is good for. It is for a
    /// frame in any case if the descriptor at the head is the card's.
    pub(super) fn ring(&mut self, now: Time, done: u64, owned: bool) -> Ring {
        let (before, at) = self.last.unwrap_or((done, now));
        let went = i64::try_from(done.saturating_sub(before)).unwrap_or(i64::MAX);
        self.last = Some((done, if went > 0 { now } else { at }));
        (self.due, self.again) = match went {
            0 if now.since(at) > UNDER_WAY => (self.due.min(0), 0),
            went => (self.due.saturating_add(went), self.again.saturating_add(went.unsigned_abs())),
        };
        if owned || self.due > 0 {
            self.due = (self.due - 1).max(-1);
            return Ring::Frame;
        }
        match self.again.checked_sub(1) {
            Some(left) => {
                self.again = left;
                Ring::Again
            }
            None => Ring::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn each_frame_has_a_doorbell_of_its_own_and_no_more() {
        let mut bell = Bell::default();
        assert_eq!(
            bell.ring(at(0), 0, true),
            Ring::Frame,
            "the first goes with it, and the second"
        );
        assert_eq!(bell.ring(at(1), 2, true), Ring::Frame, "the second's; the third goes with it");
        assert_eq!(bell.ring(at(2), 3, false), Ring::Frame, "the third's");
        for us in 3..6 {
            assert_eq!(bell.ring(at(us), 3, false), Ring::Again, "one for each of the three");
        }
        assert_eq!(bell.ring(at(6), 3, false), Ring::Nothing);
        assert_eq!(bell.ring(at(7), 3, true), Ring::Frame, "another frame");
        assert_eq!(bell.ring(at(8), 4, false), Ring::Again);
        assert_eq!(bell.ring(at(9), 4, false), Ring::Nothing);
    }

    #[test]
    fn one_that_comes_long_after_its_frame_is_for_nothing() {
        let mut bell = Bell::default();
        bell.ring(at(0), 0, true);
        bell.ring(at(1), 16, true);
        assert_eq!(bell.ring(at(490_000), 17, false), Ring::Frame);
        assert_eq!(bell.ring(at(1_000_000), 17, false), Ring::Nothing);
    }

    #[test]
    fn while_something_is_under_way_any_may_come() {
        let mut bell = Bell::default();
        (0..20).for_each(|us| assert_eq!(bell.ring(at(us), 0, true), Ring::Frame));
        assert_eq!(bell.ring(at(20), 1, false), Ring::Again, "the one frame had its doorbell");
        assert_eq!(bell.ring(at(21), 1, false), Ring::Nothing);
    }
}

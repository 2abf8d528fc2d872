//! Which doorbells a driver owes, for a strict card.
//!
//! A driver hands a frame over and rings. Both are posted, and the card takes all that it finds at a doorbell, so
//! a frame may go with the doorbell of another, and its own comes later to an empty ring. Each descriptor that
//! was carried out is therefore good for one doorbell, before or within some time after it; one that comes to an
//! empty ring and is good for nothing rang for nothing.

use warikomi_clock::{Span, Time};

/// How long a doorbell may be under way when its frame has gone.
const UNDER_WAY: Span = Span::from_ms(10);

/// The doorbell of a queue.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// What the card had carried out when it rang last, and when that had changed last.
    last: Option<(u64, Time)>,
    /// Descriptors carried out that no doorbell has come for; less than 0 if one has come before its frame went.
    due: i64,
}

impl Bell {
    /// It rings, and `done` descriptors have been carried out so far; whether it may. It always may if the
    /// descriptor at the head is the card's.
    pub(super) fn ring(&mut self, now: Time, done: u64, owned: bool) -> bool {
        let (before, at) = self.last.unwrap_or((done, now));
        let went = i64::try_from(done.saturating_sub(before)).unwrap_or(i64::MAX);
        self.last = Some((done, if went > 0 { now } else { at }));
        self.due = match went {
            0 if now.since(at) > UNDER_WAY => self.due.min(0),
            went => self.due.saturating_add(went),
        };
        let may = owned || self.due > 0;
        if may {
            self.due = (self.due - 1).max(-1);
        }
        may
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
        assert!(bell.ring(at(0), 0, true), "the first goes with it, and the second");
        assert!(bell.ring(at(1), 2, true), "the second's, and the third goes with it");
        assert!(bell.ring(at(2), 3, false), "the third's");
        assert!(!bell.ring(at(3), 3, false), "for no frame");
        assert!(!bell.ring(at(4), 3, false));
        assert!(bell.ring(at(5), 3, true), "another frame");
        assert!(!bell.ring(at(6), 4, false));
    }

    #[test]
    fn one_that_comes_long_after_its_frame_is_for_nothing() {
        let mut bell = Bell::default();
        bell.ring(at(0), 0, true);
        bell.ring(at(1), 16, true);
        assert!(bell.ring(at(9_000), 17, false));
        assert!(!bell.ring(at(20_000), 17, false));
    }

    #[test]
    fn while_something_is_under_way_any_may_come() {
        let mut bell = Bell::default();
        (0..20).for_each(|us| assert!(bell.ring(at(us), 0, true)));
        assert!(!bell.ring(at(20), 1, false));
    }
}

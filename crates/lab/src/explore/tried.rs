//! How often a place is tried until it is sure what comes of it.

use crate::strike::Verdict;

/// How often a place is tried that an operation reached before and does not now.
pub(super) const TRIES_TO_REACH: u32 = 4;

/// How often a place is struck at which something looks wrong.
const TRIES_TO_CONFIRM: u32 = 3;

/// The same for what the machine may have caused. The first time counts for little: it is why there are others.
const TRIES_TO_EXCUSE: u32 = 5;

/// What the machine may have caused must be seen so often.
const CONFIRMED: u32 = 3;

/// A try that does not reach the place says nothing of it, and is repeated. Where something looked wrong, at most this
/// often: how a driver answers, and so which code it runs, depends on timing.
const MOST_MISSED: u32 = 10;

/// What came of the tries of one place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    /// Tries that struck.
    pub(super) struck: u32,
    /// Tries that did not come to the place.
    pub(super) missed: u32,
    /// Of those that struck, tries in which something was wrong.
    pub(super) bad: u32,
}

impl Tried {
    pub(super) fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::NotReached => self.missed += 1,
            _ => self.struck += 1,
        }
        self.bad += u32::from(verdict.is_bad());
    }

    /// Whether no more tries are needed, with this as the worst that was seen. A place that is not reached is given up
    /// after `to_reach`.
    pub(super) fn is_enough(&self, worst: Verdict, to_reach: u32) -> bool {
        let enough = if may_be_the_machine(worst) { TRIES_TO_EXCUSE } else { TRIES_TO_CONFIRM };
        match self {
            Tried { struck: 0, missed, .. } => *missed >= to_reach,
            Tried { bad: 0, .. } => true,
            Tried { struck, missed, .. } => *struck >= enough || *missed >= MOST_MISSED,
        }
    }

    /// What it comes to: what the machine may have caused is nothing unless it was seen often enough.
    pub(super) fn verdict(&self, worst: Verdict) -> Verdict {
        match may_be_the_machine(worst) && self.bad < CONFIRMED {
            true => Verdict::Accounted,
            false => worst,
        }
    }
}

/// A machine that stops us for long makes a packet late, and may make it look stuck.
fn may_be_the_machine(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Late | Verdict::Stuck)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries with these verdicts, one after another, until that is enough: how many there were, and what they come to.
    fn tried(verdicts: &[Verdict]) -> (usize, Tried, Verdict) {
        let (mut tried, mut worst) = (Tried::default(), Verdict::NotTried);
        for (number, verdict) in verdicts.iter().enumerate() {
            tried.add(*verdict);
            worst = worst.max(*verdict);
            if tried.is_enough(worst, TRIES_TO_REACH) {
                return (number + 1, tried, tried.verdict(worst));
            }
        }
        panic!("{tried:?} are not enough");
    }

    #[test]
    fn a_try_that_does_not_come_to_the_place_is_made_again() {
        use Verdict::{NotReached, Stuck};
        let verdicts = [Stuck, NotReached, Stuck, NotReached, Stuck, Stuck, Stuck];
        let (tries, tried, verdict) = tried(&verdicts);
        assert_eq!((tries, tried.struck, tried.bad, verdict), (7, 5, 5, Stuck));
    }

    #[test]
    fn tries_have_an_end() {
        use Verdict::{Accounted, Hung, NotReached, Stuck};
        let rarely = [&[Stuck][..], &[NotReached; 20]].concat();
        assert_eq!(tried(&rarely).0, 11);
        assert_eq!(tried(&[NotReached; 9]).0, 4);
        assert_eq!(tried(&[NotReached, Accounted, Stuck]).0, 2);
        let (tries, tried, verdict) = tried(&[Hung, Accounted, Accounted, Hung]);
        assert_eq!((tries, tried.struck, tried.bad, verdict), (3, 3, 1, Hung));
    }

    #[test]
    fn what_the_machine_may_have_caused_must_be_seen_three_times_of_five() {
        use Verdict::{Accounted, Late};
        let seen = |count: usize| [[Late].repeat(count), [Accounted].repeat(5)].concat();
        for (count, comes_to) in [(1, Accounted), (2, Accounted), (3, Late), (4, Late)] {
            let (tries, tried, verdict) = tried(&seen(count));
            assert_eq!((tries, tried.bad, verdict), (5, count as u32, comes_to));
        }
    }
}

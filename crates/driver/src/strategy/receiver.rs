//! A strategy at work.

use warikomi_clock::{Span, Time};

use super::auto::Estimator;
use super::{DEFAULT_BUDGET, Strategy};

/// What the driver's loop must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Look at the ring, and take so many packets at most.
    Poll {
        /// The most packets to take.
        budget: usize,
    },
    /// Let others run, and then look.
    Yield {
        /// Packets to take then, at most.
        budget: usize,
    },
    /// Arm the interrupt, look once more, and sleep if that look finds nothing; if it finds something,
    /// disarm (see [`Receiver::stays_armed`]) and go on.
    Arm {
        /// Packets that the last look takes at most.
        budget: usize,
    },
}

impl Next {
    /// Packets that the next look takes at most.
    pub fn budget(self) -> usize {
        match self {
            Next::Poll { budget } | Next::Yield { budget } | Next::Arm { budget } => budget,
        }
    }
}

/// How long a receiver by interrupts looks after its last packet. A fraction of what going to sleep
/// costs; within it, interrupts that follow closely are handled one by one, each with a single posted
/// write, instead of each waiting until the device has been armed again.
const LINGER: Span = Span::from_us(1);

/// Carries a strategy out.
///
/// After each look at the ring, and after each sleep, [`next`](Self::next) says what to do; it always
/// learns what the look has found.
#[derive(Clone, Debug)]
pub struct Receiver {
    strategy: Strategy,
    /// When the last packet was found, or the last sleep ended.
    active: Time,
    /// The last call of `next`.
    asked: Time,
    /// Whether the interrupt has been armed: one that never sleeps does it once.
    armed: bool,
    estimator: Option<Estimator>,
}

impl Receiver {
    /// A receiver that begins at `now`, awake.
    pub fn new(strategy: Strategy, now: Time) -> Receiver {
        let estimator = match strategy {
            Strategy::Auto { cpu_budget } => Some(Estimator::new(cpu_budget)),
            _ => None,
        };
        Receiver { strategy, active: now, asked: now, armed: false, estimator }
    }

    /// The strategy.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Packets that a look takes at most.
    #[inline]
    pub fn budget(&self) -> usize {
        match self.strategy {
            Strategy::Napi { budget } => budget,
            _ => DEFAULT_BUDGET,
        }
    }

    /// Whether interrupts stay unmasked while the receiver is awake, so that there is one for each
    /// packet, each acknowledged on its own.
    #[inline]
    pub fn stays_armed(&self) -> bool {
        matches!(self.strategy, Strategy::Interrupt | Strategy::Awake)
    }

    /// How long it looks after the last packet before it sleeps; `None` if it never sleeps.
    #[inline]
    pub fn poll_time(&self) -> Option<Span> {
        match self.strategy {
            Strategy::Interrupt => Some(LINGER),
            Strategy::Poll | Strategy::Awake => None,
            Strategy::Napi { .. } => Some(Span::ZERO),
            Strategy::Hybrid { poll_time } => Some(poll_time),
            Strategy::Auto { .. } => self.estimator.as_ref().map(Estimator::poll_time),
        }
    }

    /// The first instant at which a look that finds nothing is followed by a sleep: until then, such
    /// looks change nothing, and virtual time may leave them out.
    #[inline]
    pub fn polls_until(&self) -> Time {
        self.poll_time().map_or(Time::NEVER, |poll_time| self.active + poll_time)
    }

    /// What comes after a look at the ring that ended at `now` and found `found` packets.
    #[inline]
    pub fn next(&mut self, now: Time, found: usize) -> Next {
        let budget = self.budget();
        let asked = std::mem::replace(&mut self.asked, now);
        if found > 0 {
            if let Some(estimator) = &mut self.estimator {
                estimator.found(asked.since(self.active), now.since(asked));
            }
            self.active = now;
        }
        if let Strategy::Napi { budget } = self.strategy {
            return if found >= budget { Next::Yield { budget } } else { Next::Arm { budget } };
        }
        if self.strategy == Strategy::Awake && !self.armed {
            return Next::Arm { budget };
        }
        if found > 0 || now < self.polls_until() {
            return Next::Poll { budget };
        }
        if let Some(estimator) = &mut self.estimator {
            estimator.reconsider();
        }
        Next::Arm { budget }
    }

    /// The interrupt was armed. Until then one that never sleeps asks for it: the answer to a call of
    /// [`next`](Self::next) need not be carried out.
    #[inline]
    pub fn armed(&mut self) {
        self.armed = true;
    }

    /// The receiver slept.
    pub fn slept(&mut self, from: Time, to: Time) {
        if let Some(estimator) = &mut self.estimator {
            estimator.slept(from.since(self.active), to.since(from));
        }
        (self.active, self.asked) = (to, to);
    }

    /// Processor time that one sleep has taken: the system calls, the switch to somebody else and
    /// back.
    pub fn sleep_cost(&mut self, cost: Span) {
        if let Some(estimator) = &mut self.estimator {
            estimator.sleep_cost(cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, proptest};

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    #[test]
    fn a_receiver_by_polling_never_sleeps() {
        let mut receiver = Receiver::new(Strategy::Poll, us(0));
        for at in 0..100_000 {
            assert_eq!(receiver.next(us(at * 1_000), 0), Next::Poll { budget: 64 });
        }
        assert_eq!(receiver.polls_until(), Time::NEVER);
    }

    #[test]
    fn a_receiver_by_interrupts_sleeps_soon_after_the_last_packet() {
        let mut receiver = Receiver::new(Strategy::Interrupt, us(0));
        assert_eq!(receiver.next(us(5), 3), Next::Poll { budget: 64 });
        assert_eq!(receiver.next(us(6), 0), Next::Arm { budget: 64 });
        assert!(receiver.stays_armed());
    }

    #[test]
    fn one_that_stays_awake_arms_once() {
        let mut receiver = Receiver::new(Strategy::Awake, us(0));
        // Nobody has carried out what it said first.
        for at in [0, 1] {
            assert_eq!(receiver.next(us(at), 0), Next::Arm { budget: 64 });
        }
        receiver.armed();
        for at in 2..1_000 {
            assert_eq!(receiver.next(us(at * 1_000), 0), Next::Poll { budget: 64 });
        }
        assert!(receiver.stays_armed());
    }

    #[test]
    fn napi_goes_on_while_its_budget_is_used_up() {
        let mut receiver = Receiver::new(Strategy::Napi { budget: 16 }, us(0));
        assert_eq!(receiver.next(us(1), 16), Next::Yield { budget: 16 });
        assert_eq!(receiver.next(us(1), 15), Next::Arm { budget: 16 });
        assert_eq!(receiver.next(us(1), 0), Next::Arm { budget: 16 });
        assert!(!receiver.stays_armed());
    }

    #[test]
    fn a_packet_or_a_sleep_begins_the_poll_time_anew() {
        let strategy = Strategy::Hybrid { poll_time: Span::from_us(100) };
        let mut receiver = Receiver::new(strategy, us(0));
        assert_eq!(receiver.next(us(99), 0), Next::Poll { budget: 64 });
        assert_eq!(receiver.next(us(99), 1), Next::Poll { budget: 64 });
        assert_eq!(receiver.next(us(198), 0), Next::Poll { budget: 64 });
        assert_eq!(receiver.next(us(199), 0), Next::Arm { budget: 64 });
        receiver.slept(us(199), us(500));
        assert_eq!(receiver.next(us(599), 0), Next::Poll { budget: 64 });
        assert_eq!(receiver.polls_until(), us(600));
        assert_eq!(receiver.next(us(600), 0), Next::Arm { budget: 64 });
    }

    proptest! {
        /// Whatever happens and whatever the clock does, nobody sleeps before the poll time is over,
        /// and everybody but `poll` sleeps when nothing has come for it.
        #[test]
        fn no_sleep_before_its_time_and_none_later(
            kind in 0usize..5,
            steps in prop::collection::vec((0u64..2_000_000_000, 0usize..100, any::<bool>()), 1..200),
        ) {
            let mut receiver = Receiver::new(Strategy::ALL[kind], us(0));
            let (mut now, mut active) = (us(0), us(0));
            for (ps, found, sleep) in steps {
                let last = now;
                now += Span::from_ps(ps);
                if found > 0 {
                    active = now;
                }
                let until = receiver.poll_time().map(|time| active + time);
                match receiver.next(now, found) {
                    Next::Arm { .. } => {
                        prop_assert!(kind == 2 || until.is_some_and(|until| now >= until));
                        if sleep {
                            receiver.slept(now, now + now.since(last));
                            now += now.since(last);
                            active = now;
                        }
                    }
                    Next::Poll { .. } if kind != 4 => {
                        prop_assert!(found > 0 || until.is_none_or(|until| now < until));
                    }
                    Next::Poll { .. } => {}
                    Next::Yield { budget } => prop_assert!(kind == 2 && found >= budget),
                }
            }
        }
    }
}

//! How long a run goes on for something that does not come, so that none goes on for good.

use warikomi_clock::{Span, Time};

use super::arrivals::START;
use super::{Disturbances, VirtualError};

/// The longest that a target may take to come to rest, once no frame comes and all that was planned is over. Of 27,000
/// histories the slowest took 0.12 s.
const LONGEST_WAIT: Span = Span::from_ms(10_000);

/// What may happen at one instant at most: more comes only of work that takes no time.
const MOST_AT_AN_INSTANT: u64 = 1_000_000;

/// How long has been waited, and what has happened since time went on.
pub(super) struct Deadline {
    /// When all that was planned is over, but for deaths.
    planned_until: Time,
    /// Since when no frame comes and the target is not at rest.
    waits_since: Option<Time>,
    at_this_instant: u64,
}

impl Deadline {
    pub(super) fn new(disturbances: &Disturbances) -> Deadline {
        let held = disturbances.stalls.iter().chain(&disturbances.core_taken);
        let orders = disturbances.orders.iter().map(|(at, _)| *at);
        let ends = held.map(|(at, span)| *at + *span).chain(orders).chain([disturbances.until]);
        Deadline {
            planned_until: Time::ZERO + START + ends.max().unwrap_or(Span::ZERO),
            waits_since: None,
            at_this_instant: 0,
        }
    }

    /// Something is due at `next`, and it is `now`.
    #[inline]
    pub(super) fn happens(&mut self, now: Time, next: Time) -> Result<(), VirtualError> {
        self.at_this_instant = if next > now { 0 } else { self.at_this_instant + 1 };
        if self.at_this_instant > MOST_AT_AN_INSTANT {
            return Err(VirtualError::NoTime { events: MOST_AT_AN_INSTANT, at: now });
        }
        Ok(())
    }

    /// How long has been waited for what nothing planned holds up, if that is too long.
    pub(super) fn overdue(&mut self, now: Time) -> Option<Span> {
        let since = self.waits_since.get_or_insert(now);
        let waited = now.since(*since.max(&mut self.planned_until));
        (waited > LONGEST_WAIT).then_some(waited)
    }
}

#[cfg(test)]
mod tests {
    use warikomi_driver::strategy::Strategy;

    use super::*;
    use crate::planted::Bug;
    use crate::tests::options;
    use crate::{
        CostModel, NoObserver, Options, Order, Outcome, Pair, Topology, Traffic, Way, run_observed,
    };

    fn run(options: &Options, pair: &Pair) -> Result<Outcome, VirtualError> {
        let traffic = Traffic { bursts: 3, ..options.traffic };
        run_observed(&Options { traffic, ..options.clone() }, pair, &mut NoObserver)
    }

    /// Looks at the replacement would follow each other for good.
    #[test]
    fn a_driver_that_never_hands_over_ends_the_run_with_an_error() {
        let orders = vec![(Span::from_us(10), Order::Replace)];
        let options = Options {
            topology: Topology::Application,
            way: Way::SharedState,
            disturbances: Disturbances { orders, ..Disturbances::default() },
            ..options()
        };
        let sound = Pair::by_name("rtl8168").unwrap();
        run(&options, &sound).unwrap();
        let error = run(&options, &Bug::KeepsDevice.planted_in(sound)).unwrap_err().to_string();
        let expected = "for driver 2 to take the device of driver 1 (HandingOver)";
        assert!(error.contains(expected), "{error}");
    }

    /// What happens without taking time would follow itself for good.
    #[test]
    fn work_that_takes_no_time_ends_the_run_with_an_error() {
        let mut costs = CostModel::default();
        costs.vary(|_| 0);
        let options = Options { costs, strategy: Strategy::Poll, compute: false, ..options() };
        let error = run(&options, &Pair::by_name("rtl8168").unwrap()).unwrap_err();
        assert!(matches!(error, VirtualError::NoTime { .. }), "{error}");
    }

    #[test]
    fn what_is_planned_is_not_waited_for() {
        let core_taken = vec![(Span::from_ms(1), Span::from_ms(30_000))];
        let taken = Disturbances { core_taken, ..Disturbances::default() };
        let mut deadline = Deadline::new(&taken);
        let over = Time::ZERO + START + Span::from_ms(30_001);
        assert_eq!(deadline.overdue(Time::ZERO), None);
        assert_eq!(deadline.overdue(over + LONGEST_WAIT), None);
        let more = Span::from_ms(1);
        assert_eq!(deadline.overdue(over + LONGEST_WAIT + more), Some(LONGEST_WAIT + more));
    }
}

//! From a plan to absolute deadlines.

use warikomi_clock::{Arrivals, Span, Time};

use crate::Plan;

/// The deadlines of a plan.
///
/// Deadlines follow from the plan and the start alone, never from when a packet in fact went out,
/// so errors do not add up. They are sums of whole picoseconds, so rounding does not add up either.
/// Behind a line, a deadline is the later of its arrival and the moment at which the line has sent
/// the burst before it.
#[derive(Clone, Debug)]
pub struct Pacer {
    next: Time,
    arrival: Time,
    arrivals: Arrivals,
    burst_wire_time: Span,
    remaining: u64,
    paced: bool,
}

impl Pacer {
    /// The deadlines of `plan`, the first of them at `start`.
    pub fn new(plan: &Plan, start: Time) -> Pacer {
        let remaining = plan.count.div_ceil(u64::from(plan.packets_per_interrupt.max(1)));
        Pacer {
            next: if remaining == 0 { Time::NEVER } else { start },
            arrival: start,
            arrivals: plan.arrivals(),
            burst_wire_time: plan.burst_wire_time(),
            remaining,
            paced: plan.spacing() > Span::ZERO,
        }
    }

    /// The next deadline; [`Time::NEVER`] when there is none left. Without an interval and without
    /// a line it stays at the start: always due.
    #[inline]
    pub fn peek(&self) -> Time {
        self.next
    }

    /// Goes on to the deadline after this one.
    #[inline]
    pub fn advance(&mut self) {
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining == 0 {
            self.next = Time::NEVER;
            return;
        }
        self.arrival += self.arrivals.next_gap();
        self.next = self.arrival.max(self.next + self.burst_wire_time);
    }

    /// Deadlines that are left, with the one that [`Pacer::peek`] shows.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Whether deadlines mean anything: not if the plan is as fast as possible.
    #[inline]
    pub fn paced(&self) -> bool {
        self.paced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use proptest::prelude::*;

    fn deadlines(plan: &Plan, start: Time) -> Vec<u64> {
        let mut pacer = Pacer::new(plan, start);
        std::iter::from_fn(|| {
            let due = pacer.peek();
            pacer.advance();
            (due != Time::NEVER).then_some(due.as_ps())
        })
        .collect()
    }

    #[test]
    fn as_fast_as_possible_is_always_due() {
        let plan = Plan { interval: Span::ZERO, count: 3, ..Plan::default() };
        assert_eq!(deadlines(&plan, Time::from_ps(9)), [9, 9, 9]);
        assert!(!Pacer::new(&plan, Time::ZERO).paced());
    }

    #[test]
    fn a_deadline_for_each_burst() {
        let plan = Plan { packets_per_interrupt: 4, count: 9, ..Plan::default() };
        assert_eq!(deadlines(&plan, Time::ZERO), [0, 38_000_000, 76_000_000]);
    }

    #[test]
    fn one_seed_is_one_schedule() {
        let plan = |seed| Plan {
            arrival: Arrival::Poisson,
            seed: warikomi_clock::Seed(seed),
            ..Plan::default()
        };
        assert_eq!(deadlines(&plan(3), Time::ZERO), deadlines(&plan(3), Time::ZERO));
        assert_ne!(deadlines(&plan(3), Time::ZERO), deadlines(&plan(4), Time::ZERO));
    }

    #[test]
    fn a_line_keeps_the_mean_of_random_arrivals() {
        let plan = Plan {
            arrival: Arrival::Poisson,
            line_rate_bps: Some(1_000_000_000),
            count: 50_000,
            ..Plan::default()
        };
        let due = deadlines(&plan, Time::ZERO);
        let wire = plan.burst_wire_time().as_ps();
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] >= wire));
        let mean_us = *due.last().unwrap() as f64 / (due.len() - 1) as f64 / 1e6;
        assert!((mean_us - 38.0).abs() < 1.0, "{mean_us}");
    }

    proptest! {
        #[test]
        fn errors_never_add_up(ps in 1u64..1_000_000, start in 0u64..1 << 40, count in 1u64..500) {
            let plan = Plan { interval: Span::from_ps(ps), count, ..Plan::default() };
            let due = deadlines(&plan, Time::from_ps(start));
            let expected: Vec<u64> = (0..count).map(|k| start + k * ps).collect();
            prop_assert_eq!(due, expected);
        }
    }
}

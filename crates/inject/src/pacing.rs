//! From a plan to absolute deadlines.

use warikomi_clock::{Arrivals, Span, Time};

use crate::Plan;

/// The deadlines of a plan.
///
/// Deadlines follow from the plan and the start alone, never from when a packet in fact went out,
/// so errors do not add up. They are sums of whole picoseconds, so rounding does not add up either.
/// Behind a line, a deadline is the later of its arrival and the moment at which the line has sent
/// what was before it. Where packets arrive in bursts, only the first of each has an arrival; the
/// others follow it as the line sends them.
#[derive(Clone, Debug)]
pub struct Pacer {
    next: Time,
    arrival: Time,
    arrivals: Arrivals,
    /// Deadlines to an arrival, and how many of them have passed.
    deadlines_per_arrival: u64,
    passed: u64,
    wire_time: Span,
    last_wire_time: Span,
    remaining: u64,
    paced: bool,
}

impl Pacer {
    /// The deadlines of `plan`, the first of them at `start`.
    pub fn new(plan: &Plan, start: Time) -> Pacer {
        let remaining = plan.count.div_ceil(u64::from(plan.packets_per_interrupt.max(1)));
        let wire_time = plan.burst_wire_time();
        let last_wire_time = match (plan.burst(), plan.line_rate_bps) {
            (Some(burst), Some(bps)) => warikomi_wire::wire_time(burst.last_frame_bytes(), bps),
            _ => wire_time,
        };
        Pacer {
            next: if remaining == 0 { Time::NEVER } else { start },
            arrival: start,
            arrivals: plan.arrivals(),
            deadlines_per_arrival: plan.burst().map_or(1, |burst| burst.frames()),
            passed: 0,
            wire_time,
            last_wire_time,
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
        self.passed += 1;
        if self.passed < self.deadlines_per_arrival {
            self.next += self.wire_time;
            return;
        }
        self.passed = 0;
        self.arrival += self.arrivals.next_gap();
        self.next = self.arrival.max(self.next + self.last_wire_time);
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

    fn bursts(arrival: Arrival, interval: Span) -> Plan {
        Plan {
            arrival,
            interval,
            size_bytes: 1_000,
            burst_bytes: Some(2_100),
            line_rate_bps: Some(1_000_000_000),
            count: 7,
            ..Plan::default()
        }
    }

    #[test]
    fn frames_of_a_burst_follow_each_other_as_the_line_sends_them() {
        let due = deadlines(&bursts(Arrival::Bursts, Span::from_us(100)), Time::ZERO);
        // 1,024 bytes on the line each, and then the next burst.
        let expected = [0, 8_192, 16_384, 100_000, 108_192, 116_384, 200_000];
        assert_eq!(due, expected.map(|ns| ns * 1_000));
    }

    #[test]
    fn bursts_that_arrive_too_early_wait_for_the_line() {
        let plan = bursts(Arrival::Bursts, Span::ZERO);
        let due = deadlines(&plan, Time::ZERO);
        // The third frame has 100 bytes, 124 on the line.
        let expected = [0, 8_192, 16_384, 17_376, 25_568, 33_760, 34_752];
        assert_eq!(due, expected.map(|ns| ns * 1_000));
        assert_eq!(plan.duration(), Span::from_ns(3 * 17_376));
        assert!(Pacer::new(&plan, Time::ZERO).paced());
    }

    #[test]
    fn random_bursts_keep_the_load() {
        let plan = Plan { count: 60_000, ..bursts(Arrival::PoissonBursts, Span::from_us(60)) };
        let due = deadlines(&plan, Time::ZERO);
        let mean_us = *due.last().unwrap() as f64 / 19_999.0 / 1e6;
        assert!((mean_us - 60.0).abs() < 2.0, "{mean_us}");
        assert_eq!(due, deadlines(&plan, Time::ZERO));
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

//! The poll time that suits the arrivals and a budget of processor time.
//!
//! **What is known.** Between one packet and the next that is not there yet lies a gap `g`. A receiver
//! that polls for `T` pays `g` for it if `g <= T`, and nobody waits; otherwise it pays `T` and the cost
//! `C` of a sleep, and the packet waits for the wake-up. So from the gaps alone follow, for every `T`,
//! the use of the processor
//!
//! ```text
//! U(T) = (work + sum of g where g <= T + (T + C) * number of gaps > T) / (work + sum of all g)
//! ```
//!
//! and the mean wake-up delay, which is proportional to the number of gaps longer than `T`. Every gap is
//! seen whole, whatever `T` is in force: by the clock if it was polled through, by the length of the
//! sleep if not.
//!
//! **The estimator** keeps a histogram of gaps, eight buckets to an octave from 64 ns to 0.1 s, in each
//! the number of gaps and their sum; their upper edges are the candidates for `T`. The past fades with
//! time, within 256 times the gap in which one finds oneself at an arbitrary instant (the sum of the
//! squares over the sum), but not sooner than in a quarter of a second and not later than in 10 s: with
//! few long gaps among many short ones it is the long ones that must be many. `C` is measured, and
//! smoothed over some sixteen sleeps. What a wake-up takes lies at the end of each sleep and belongs to
//! no gap; it is taken to be the second half of `C`, but a gap that was slept through was in any case longer than the poll
//! time. A pause longer than 0.1 s counts as 0.1 s, because the budget is not to be saved up.
//!
//! **The choice**, before each sleep and every 64 gaps: of the candidates whose predicted use is within
//! the budget, less a reserve of 4% of it, the one with the fewest gaps beyond it, which is the longest;
//! and of those with equally few, the shortest. Candidates shorter than `C` are considered only when no
//! longer one fits: a receiver that polls for `C` never pays more than twice what one would that knew
//! the next gap (the ski-rental argument), so `C` is safe against arrivals that change their nature. If
//! none fits, it is the candidate that uses least, and before anything is known it is `C`.
//!
//! A prediction may err, so the use that there really was, faded as the gaps are, corrects it: what was
//! used too little of the budget is added to what may be predicted, up to a fifth of the budget; what was
//! used too much is taken off, up to a twentieth.
//!
//! `tests/regret.rs` holds it against every fixed poll time.

use warikomi_clock::Span;

use super::CpuBudget;

const BUCKETS_PER_OCTAVE: usize = 8;
const SHORTEST_NS: f64 = 64.0;
/// Up to 2^21 times the shortest: 0.134 s.
const BUCKETS: usize = 21 * BUCKETS_PER_OCTAVE;
const LONGEST_NS: f64 = 1e8;

/// How long the past counts, in gaps in which one finds oneself at an arbitrary instant.
const MEMORY_GAPS: f64 = 256.0;
const SHORTEST_MEMORY_NS: f64 = 0.25e9;
const LONGEST_MEMORY_NS: f64 = 10e9;
/// Gaps without which nothing is known.
const LEAST_GAPS: u64 = 16;
/// Gaps polled through after which the choice is made anew.
const RECONSIDER_EVERY: u64 = 64;
/// Share of the budget that is kept for what is not foreseen.
const RESERVE: f64 = 0.04;
/// Shares of the budget by which the use that there was may raise and lower what may be predicted.
const RAISE: f64 = 0.2;
const LOWER: f64 = 0.05;

/// Processor time of a sleep, before one was measured.
const FIRST_SLEEP_COST_NS: f64 = 5_000.0;
/// Weight of a new measurement of it.
const SLEEP_COST_WEIGHT: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    edge_ns: f64,
    gaps: f64,
    sum_ns: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Estimator {
    budget: f64,
    buckets: Vec<Bucket>,
    work_ns: f64,
    /// All time, and the squares of the gaps' lengths.
    time_ns: f64,
    squares: f64,
    /// Processor time taken.
    used_ns: f64,
    /// Weight of the next gap: instead of fading the past, the present grows.
    weight: f64,
    gaps: u64,
    sleep_cost_ns: Option<f64>,
    poll_time: Span,
}

impl Estimator {
    pub(super) fn new(budget: CpuBudget) -> Self {
        Estimator {
            budget: budget.share() * (1.0 - RESERVE),
            buckets: (0..BUCKETS)
                .map(|number| Bucket { edge_ns: edge_ns(number), ..Bucket::default() })
                .collect(),
            work_ns: 0.0,
            time_ns: 0.0,
            squares: 0.0,
            used_ns: 0.0,
            weight: 1.0,
            gaps: 0,
            sleep_cost_ns: None,
            poll_time: span(FIRST_SLEEP_COST_NS),
        }
    }

    /// The poll time in force.
    #[inline]
    pub(super) fn poll_time(&self) -> Span {
        self.poll_time
    }

    /// A look found packets: after this long of looks that found none, and having worked for so long.
    #[inline]
    pub(super) fn found(&mut self, gap: Span, work: Span) {
        let work_ns = work.as_ns().min(LONGEST_NS);
        self.work_ns += work_ns * self.weight;
        self.time_ns += work_ns * self.weight;
        self.used_ns += work_ns * self.weight;
        if gap > Span::ZERO {
            self.add(gap.as_ns(), gap.as_ns(), gap.as_ns());
            if self.gaps.is_multiple_of(RECONSIDER_EVERY) {
                self.reconsider();
            }
        }
    }

    /// A sleep ended: before it, looks found nothing for `polled`.
    pub(super) fn slept(&mut self, polled: Span, asleep: Span) {
        let seen_ns = polled.as_ns() + asleep.as_ns();
        let longer_than_polled = polled.as_ns() * (1.0 / BUCKETS_PER_OCTAVE as f64).exp2();
        self.add(
            (seen_ns - self.cost_ns() / 2.0).max(longer_than_polled),
            seen_ns,
            polled.as_ns() + self.cost_ns(),
        );
    }

    pub(super) fn sleep_cost(&mut self, cost: Span) {
        let old = self.sleep_cost_ns.unwrap_or(cost.as_ns());
        self.sleep_cost_ns = Some(old + (cost.as_ns() - old) * SLEEP_COST_WEIGHT);
    }

    fn cost_ns(&self) -> f64 {
        self.sleep_cost_ns.unwrap_or(FIRST_SLEEP_COST_NS)
    }

    /// Takes a gap in that took `seen_ns` of the time, and `used_ns` of the processor's.
    fn add(&mut self, gap_ns: f64, seen_ns: f64, used_ns: f64) {
        let (gap_ns, seen_ns) = (gap_ns.min(LONGEST_NS), seen_ns.min(LONGEST_NS));
        self.used_ns += used_ns.min(LONGEST_NS) * self.weight;
        let bucket = &mut self.buckets[bucket_of(gap_ns)];
        bucket.gaps += self.weight;
        bucket.sum_ns += gap_ns * self.weight;
        self.gaps += 1;
        self.time_ns += seen_ns * self.weight;
        self.squares += seen_ns * seen_ns * self.weight;
        let memory_ns = MEMORY_GAPS * self.squares / self.time_ns.max(1.0);
        let memory_ns = memory_ns.clamp(SHORTEST_MEMORY_NS, LONGEST_MEMORY_NS);
        self.weight *= 1.0 + seen_ns / memory_ns;
        if self.weight > 1e12 {
            self.rescale();
        }
    }

    /// Keeps the weights in a range in which sums are exact enough.
    #[cold]
    fn rescale(&mut self) {
        for bucket in &mut self.buckets {
            bucket.gaps /= self.weight;
            bucket.sum_ns /= self.weight;
        }
        self.work_ns /= self.weight;
        self.time_ns /= self.weight;
        self.squares /= self.weight;
        self.used_ns /= self.weight;
        self.weight = 1.0;
    }

    /// Chooses the poll time anew: a third of a microsecond, next to what a sleep costs.
    pub(super) fn reconsider(&mut self) {
        let cost = self.cost_ns();
        self.poll_time = span(if self.gaps < LEAST_GAPS { cost } else { self.choose(cost) });
    }

    fn choose(&self, cost: f64) -> f64 {
        let all: f64 = self.buckets.iter().map(|bucket| bucket.gaps).sum();
        let nothing = all * 1e-9;
        let budget_ns = self.budget * self.time_ns;
        let left_ns = budget_ns - self.used_ns;
        let left_ns = left_ns.clamp(-LOWER * budget_ns, RAISE * budget_ns);
        let allowed_ns = budget_ns + left_ns;
        // Beginning with not polling at all.
        let (mut within, mut polled_ns, mut edge_ns) = (0.0, 0.0, 0.0);
        let mut least = (f64::INFINITY, 0.0);
        // The best that fits, as (gaps beyond it, poll time): of all, and of those that are no shorter
        // than the cost.
        let (mut best, mut best_safe) = (None, None);
        let better = |best: Option<(f64, f64)>, beyond: f64, ns: f64| match best {
            Some((fewest, _)) if fewest <= beyond => best,
            _ => Some((beyond, ns)),
        };
        let mut buckets = self.buckets.iter();
        loop {
            // Behind the last gap there is exactly nothing, whatever rounding says.
            let beyond = if all - within > nothing { all - within } else { 0.0 };
            let used_ns = self.work_ns + polled_ns + beyond * (edge_ns + cost);
            if used_ns < least.0 {
                least = (used_ns, edge_ns);
            }
            if used_ns <= allowed_ns {
                best = better(best, beyond, edge_ns);
                if edge_ns >= cost {
                    best_safe = better(best_safe, beyond, edge_ns);
                }
            }
            let Some(bucket) = buckets.next() else { break };
            within += bucket.gaps;
            polled_ns += bucket.sum_ns;
            edge_ns = bucket.edge_ns;
        }
        best_safe.or(best).map_or(least.1, |(_, ns)| ns)
    }
}

/// The bucket of a gap: its upper edge is at least the gap.
fn bucket_of(gap_ns: f64) -> usize {
    let octaves = (gap_ns / SHORTEST_NS).max(1.0).log2();
    ((octaves * BUCKETS_PER_OCTAVE as f64).ceil() as usize).min(BUCKETS - 1)
}

/// Upper edge of a bucket.
fn edge_ns(bucket: usize) -> f64 {
    SHORTEST_NS * (bucket as f64 / BUCKETS_PER_OCTAVE as f64).exp2()
}

fn span(ns: f64) -> Span {
    // Rounded up: a gap that ends at the edge is polled through.
    Span::from_ps((ns * 1_000.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_gap_is_below_its_buckets_edge_and_not_below_the_one_before() {
        for ns in (1..2_000).map(|step| 1.0106_f64.powi(step)).filter(|ns| *ns < LONGEST_NS) {
            let bucket = bucket_of(ns);
            assert!(edge_ns(bucket) >= ns * (1.0 - 1e-9), "{ns}");
            assert!(bucket == 0 || edge_ns(bucket - 1) < ns, "{ns}");
        }
        assert!(edge_ns(BUCKETS - 1) >= LONGEST_NS);
    }

    #[test]
    fn before_anything_is_known_it_polls_for_what_a_sleep_costs() {
        let mut estimator = Estimator::new(CpuBudget::from_ppm(250_000));
        estimator.sleep_cost(Span::from_us(7));
        estimator.reconsider();
        assert_eq!(estimator.poll_time(), Span::from_us(7));
    }

    #[test]
    fn of_poll_times_that_save_no_sleep_it_takes_the_shortest() {
        let mut estimator = Estimator::new(CpuBudget::from_ppm(250_000));
        for _ in 0..100 {
            estimator.found(Span::from_us(10), Span::ZERO);
            estimator.slept(Span::from_us(10), Span::from_us(5_000));
        }
        estimator.reconsider();
        let us = estimator.poll_time().as_us();
        assert!((10.0..11.0).contains(&us), "{us}");
    }

    proptest! {
        /// However odd the times: a poll time comes out, and the weights stay finite.
        #[test]
        fn nothing_upsets_it(
            ppm in 1u32..1_000_000,
            steps in prop::collection::vec((0u64..u64::MAX, 0u64..1_000_000_000, any::<bool>()), 1..300),
        ) {
            let mut estimator = Estimator::new(CpuBudget::from_ppm(ppm));
            for (gap, other, sleep) in steps {
                let (gap, other) = (Span::from_ps(gap >> (other % 60)), Span::from_ps(other));
                if sleep { estimator.slept(other, gap) } else { estimator.found(gap, other) }
                estimator.sleep_cost(other);
                estimator.reconsider();
                prop_assert!(estimator.poll_time() <= span(edge_ns(BUCKETS - 1)).max(Span::from_ms(1)));
                prop_assert!(estimator.weight.is_finite() && estimator.weight >= 1.0);
            }
        }
    }
}

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
//! the number of gaps and their sum; their upper edges are the candidates for `T`. Older gaps fade: each
//! gap longer than `C` takes 1/512 from the weight of all before it, and dense traffic fades within a
//! second, so that it is as well remembered as it can be told from noise. `C` is measured, and smoothed
//! over some sixteen sleeps. What a wake-up takes lies at the end of each sleep and belongs to no gap; it
//! is taken to be `C`. A pause longer than 0.1 s counts as 0.1 s, because the budget is not to be saved
//! up.
//!
//! **The choice**, before each sleep and every 64 gaps: of the candidates whose predicted use is within
//! the budget, less a reserve of 2% of it, the one with the fewest gaps beyond it, which is the longest;
//! and of those with equally few, the shortest. Candidates shorter than `C` are considered only when no
//! longer one fits: a receiver that polls for `C` never pays more than twice what one would that knew
//! the next gap (the ski-rental argument), so `C` is safe against arrivals that change their nature. If
//! none fits, it is the candidate that uses least, and before anything is known it is `C`.

use warikomi_clock::Span;

use super::CpuBudget;

const BUCKETS_PER_OCTAVE: usize = 8;
const SHORTEST_NS: f64 = 64.0;
/// Up to 2^21 times the shortest: 0.134 s.
const BUCKETS: usize = 21 * BUCKETS_PER_OCTAVE;
const LONGEST_NS: f64 = 1e8;

/// Gaps longer than a sleep's cost that are remembered.
const MEMORY_GAPS: f64 = 512.0;
/// How long dense traffic is remembered.
const MEMORY_NS: f64 = 1e9;
/// Gaps without which nothing is known.
const LEAST_GAPS: u64 = 16;
/// Gaps polled through after which the choice is made anew.
const RECONSIDER_EVERY: u64 = 64;
/// Share of the budget that is kept for what is not foreseen.
const RESERVE: f64 = 0.02;

/// Processor time of a sleep, before one was measured.
const FIRST_SLEEP_COST_NS: f64 = 5_000.0;
/// Weight of a new measurement of it.
const SLEEP_COST_WEIGHT: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    gaps: f64,
    sum_ns: f64,
}

/// A choice of `T`, and what it leads to.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    ns: f64,
    share: f64,
    beyond: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Estimator {
    budget: f64,
    buckets: Vec<Bucket>,
    work_ns: f64,
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
            buckets: vec![Bucket::default(); BUCKETS],
            work_ns: 0.0,
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
        self.work_ns += work.as_ns() * self.weight;
        if gap > Span::ZERO {
            self.add(gap.as_ns());
            if self.gaps.is_multiple_of(RECONSIDER_EVERY) {
                self.reconsider();
            }
        }
    }

    /// A sleep ended: before it, looks found nothing for `polled`.
    pub(super) fn slept(&mut self, polled: Span, asleep: Span) {
        let seen = polled.as_ns() + asleep.as_ns() - self.cost_ns();
        self.add(seen.max(polled.as_ns()));
    }

    pub(super) fn sleep_cost(&mut self, cost: Span) {
        let old = self.sleep_cost_ns.unwrap_or(cost.as_ns());
        self.sleep_cost_ns = Some(old + (cost.as_ns() - old) * SLEEP_COST_WEIGHT);
    }

    fn cost_ns(&self) -> f64 {
        self.sleep_cost_ns.unwrap_or(FIRST_SLEEP_COST_NS)
    }

    fn add(&mut self, gap_ns: f64) {
        let gap_ns = gap_ns.min(LONGEST_NS);
        let bucket = &mut self.buckets[bucket_of(gap_ns)];
        bucket.gaps += self.weight;
        bucket.sum_ns += gap_ns * self.weight;
        self.gaps += 1;
        let fading = if gap_ns > self.cost_ns() { 1.0 / MEMORY_GAPS } else { gap_ns / MEMORY_NS };
        self.weight /= 1.0 - fading;
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
        self.weight = 1.0;
    }

    /// Chooses the poll time anew.
    pub(super) fn reconsider(&mut self) {
        let cost = self.cost_ns();
        if self.gaps < LEAST_GAPS {
            self.poll_time = span(cost);
            return;
        }
        let fits = |candidate: &Candidate| candidate.share <= self.budget;
        let rank = |a: &Candidate, b: &Candidate| {
            a.beyond.total_cmp(&b.beyond).then(a.ns.total_cmp(&b.ns))
        };
        let safe = self.candidates().filter(|candidate| candidate.ns >= cost);
        let chosen = safe
            .filter(fits)
            .min_by(rank)
            .or_else(|| self.candidates().filter(fits).min_by(rank))
            .or_else(|| self.candidates().min_by(|a, b| a.share.total_cmp(&b.share)));
        if let Some(chosen) = chosen {
            self.poll_time = span(chosen.ns);
        }
    }

    /// Not polling at all, and the upper edge of each bucket.
    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let cost = self.cost_ns();
        let all: f64 = self.buckets.iter().map(|bucket| bucket.gaps).sum();
        let time = self.work_ns + self.buckets.iter().map(|bucket| bucket.sum_ns).sum::<f64>();
        let candidate = move |ns: f64, within: Bucket| {
            // What lies beyond is exactly nothing behind the last gap, whatever rounding says.
            let beyond = if all - within.gaps < all * 1e-9 { 0.0 } else { all - within.gaps };
            let used = self.work_ns + within.sum_ns + beyond * (ns + cost);
            Candidate { ns, share: used / time, beyond }
        };
        let edges = self.buckets.iter().enumerate().scan(
            Bucket::default(),
            move |within, (number, bucket)| {
                within.gaps += bucket.gaps;
                within.sum_ns += bucket.sum_ns;
                Some(candidate(edge_ns(number), *within))
            },
        );
        std::iter::once(candidate(0.0, Bucket::default())).chain(edges)
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

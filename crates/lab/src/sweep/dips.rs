//! Where the end-to-end curve dips: a longer interval at which the application gets less than at a shorter one and
//! at a longer one.
//!
//! Each interval of the coarse pass is made several times. The shares of every second cycle are ranked, and the intervals
//! are parted where the ranks change: by optimal partitioning (B. Jackson et al., 2005), whose result PELT (R. Killick
//! et al., 2012) finds with fewer steps, which a hundred intervals do not need. The cost of a part is the sum of
//! squares about its mean, and each further part must save twice the noise's variance times the logarithm of the number
//! of cycles (Schwarz's criterion); the noise is that of cycles of one interval.
//!
//! Where a part is below the one before it, a valley begins, and it ends where a part is at that level again. A valley is tested by the other cycles, which had no say in choosing it (sample
//! splitting): it is a dip if the rank sum test (Wilcoxon, Mann and Whitney; exact, two-sided) says so against each
//! neighbour, at the level [`ALPHA`] divided by the number of valleys (Bonferroni).
//!
//! A counter of the guest's changed with a dip if the same test says so of its counts there and beside it, at the same
//! level divided by the number of counters. That is no proof of a cause, but it says where to look.

use std::ops::Range;

use serde::Serialize;
use warikomi_measure::{median, rank_sum};

use super::counters::NAMES;
use super::cycle::Cycle;

/// The level of significance.
pub(super) const ALPHA: f64 = 0.01;
/// The least variance of ranks that is believed: half a rank's, where all cycles of each interval are alike.
const LEAST_VARIANCE: f64 = 0.25;

/// A dip, in shares from 0 to 1, medians of its cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Dip {
    /// Frame length in bytes.
    pub size_bytes: usize,
    /// The first interval of it.
    pub from_ns: f64,
    /// The last.
    pub until_ns: f64,
    /// What the application gets at shorter intervals beside it.
    pub before_share: f64,
    /// In it.
    pub end_to_end_share: f64,
    /// At longer intervals beside it.
    pub behind_share: f64,
    /// What the driver takes in the dip.
    pub driver_share: f64,
    /// Whether the driver's curve is lower there than beside it, too.
    pub driver_dips: bool,
    /// The greater of the two probabilities that it is below its neighbours by chance.
    pub p: f64,
    /// Which counters changed with it, or that none did.
    pub counters: String,
}

fn end_to_end(cycle: &Cycle) -> Option<f64> {
    cycle.end_to_end_share
}

fn driver(cycle: &Cycle) -> Option<f64> {
    Some(cycle.driver_share)
}

/// Cycles of consecutive intervals that belong together, in order of the intervals.
type Part<'a> = Vec<&'a Cycle>;

fn shares(part: &[&Cycle], of: fn(&Cycle) -> Option<f64>) -> Vec<f64> {
    part.iter().filter_map(|cycle| of(cycle)).collect()
}

fn median_of(part: &[&Cycle], of: fn(&Cycle) -> Option<f64>) -> f64 {
    median(shares(part, of))
}

/// A valley between two parts.
struct Triple<'a> {
    before: Part<'a>,
    dip: Part<'a>,
    behind: Part<'a>,
}

impl<'a> Triple<'a> {
    fn of(groups: &[Vec<&'a Cycle>], parts: &[Range<usize>; 3]) -> Triple<'a> {
        let [before, dip, behind] = parts.each_ref().map(|range| groups[range.clone()].concat());
        Triple { before, dip, behind }
    }

    fn is_low(&self) -> bool {
        let share = |part: &Part<'_>| median_of(part, end_to_end);
        share(&self.dip) < share(&self.before) && share(&self.dip) < share(&self.behind)
    }

    /// Those of the neighbours that are next to it, as many as the test takes together.
    fn beside(&self) -> [&[&'a Cycle]; 2] {
        let (before, behind) = (&self.before, &self.behind);
        let most = rank_sum::MOST / 2;
        [&before[before.len().saturating_sub(most)..], &behind[..behind.len().min(most)]]
    }

    /// The greater of the probabilities that it is unlike its neighbours by chance.
    fn p_value(&self) -> Option<f64> {
        let dip = shares(&self.dip, end_to_end);
        let against = |other: &[&Cycle]| rank_sum::p_value(&dip, &shares(other, end_to_end));
        let [before, behind] = self.beside();
        Some(against(before)?.max(against(behind)?))
    }

    /// Whether the driver takes less here than at shorter intervals: its curve grows as well.
    fn driver_dips(&self) -> bool {
        let [before, _] = self.beside();
        let p = rank_sum::p_value(&shares(&self.dip, driver), &shares(before, driver));
        median_of(&self.dip, driver) < median_of(before, driver) && p.is_some_and(|p| p <= ALPHA)
    }
}

/// The dips of a curve, of which there are several cycles at each interval. Cycles that others disturbed say nothing.
pub(super) fn dips(cycles: &[Cycle]) -> Vec<Dip> {
    let all = by_interval(cycles);
    let half = |first: usize| -> Vec<Vec<&Cycle>> {
        let half = |group: &Vec<_>| group.iter().skip(first).step_by(2).copied().collect();
        all.iter().map(half).collect()
    };
    let (chosen_by, tested_by) = (half(0), half(1));
    let valleys = valleys(&chosen_by);
    let level = ALPHA / valleys.len().max(1) as f64;
    let judged = valleys.iter().filter_map(|valley| {
        let (shown, tested) = (Triple::of(&all, valley), Triple::of(&tested_by, valley));
        Dip::of(&shown, &tested).filter(|dip| tested.is_low() && dip.p <= level)
    });
    judged.collect()
}

/// The valleys of a curve, each with the part before it and the part behind.
fn valleys(groups: &[Vec<&Cycle>]) -> Vec<[Range<usize>; 3]> {
    let parts = parts(groups);
    let share = |part: &Range<usize>| median_of(&groups[part.clone()].concat(), end_to_end);
    let shares: Vec<f64> = parts.iter().map(share).collect();
    let (mut valleys, mut at) = (Vec::new(), 1);
    while at < parts.len() {
        let level = shares[at - 1];
        let back = (at..parts.len()).find(|&later| shares[later] >= level);
        // A curve that does not come back has no valley there.
        if let Some(back) = back.filter(|&back| back > at) {
            let valley = parts[at].start..parts[back - 1].end;
            valleys.push([parts[at - 1].clone(), valley, parts[back].clone()]);
            at = back;
        }
        at += 1;
    }
    valleys
}

/// Of these cycles those that count, the cycles of one interval together, in order of the intervals.
fn by_interval(cycles: &[Cycle]) -> Vec<Vec<&Cycle>> {
    let counts = |cycle: &&Cycle| !cycle.disturbed && cycle.end_to_end_share.is_some();
    let mut sorted: Vec<&Cycle> = cycles.iter().filter(counts).collect();
    sorted.sort_by(|a, b| a.interval_ns.total_cmp(&b.interval_ns));
    sorted.chunk_by(|a, b| a.interval_ns == b.interval_ns).map(<[_]>::to_vec).collect()
}

/// The parts of the curve between its change points.
fn parts(groups: &[Vec<&Cycle>]) -> Vec<Range<usize>> {
    let ranks = ranks(groups);
    let variance = within(&ranks).max(LEAST_VARIANCE);
    let count = ranks.iter().map(Vec::len).sum::<usize>();
    let penalty = 2.0 * variance * (count.max(1) as f64).ln();
    // Up to each interval the least cost, and where the last part of that begins.
    let mut best = vec![(0.0, 0)];
    for end in 1..=ranks.len() {
        let up_to = |begin: usize| (best[begin].0 + cost(&ranks[begin..end]) + penalty, begin);
        let least = (0..end).map(up_to).min_by(|a, b| a.0.total_cmp(&b.0));
        best.extend(least);
    }
    let (mut parts, mut end) = (Vec::new(), groups.len());
    while end > 0 {
        let begin = best[end].1;
        parts.push(begin..end);
        end = begin;
    }
    parts.reverse();
    parts
}

/// The ranks of the shares among all; equal ones share the mean of theirs.
fn ranks(groups: &[Vec<&Cycle>]) -> Vec<Vec<f64>> {
    let mut all: Vec<f64> = groups.iter().flatten().filter_map(|cycle| end_to_end(cycle)).collect();
    all.sort_by(f64::total_cmp);
    let rank = |cycle: &&Cycle| {
        let share = end_to_end(cycle)?;
        let below = all.partition_point(|other| *other < share);
        let up_to = all.partition_point(|other| *other <= share);
        Some((below + 1 + up_to) as f64 / 2.0)
    };
    groups.iter().map(|group| group.iter().filter_map(rank).collect()).collect()
}

/// The sum of squares about the mean of all.
fn cost(groups: &[Vec<f64>]) -> f64 {
    let values = || groups.iter().flatten();
    let count = values().count().max(1) as f64;
    let mean = values().sum::<f64>() / count;
    values().map(|value| (value - mean).powi(2)).sum()
}

/// The variance among cycles of one interval.
fn within(groups: &[Vec<f64>]) -> f64 {
    let freedom: usize = groups.iter().map(|group| group.len().saturating_sub(1)).sum();
    let squares: f64 = groups.iter().map(|group| cost(std::slice::from_ref(group))).sum();
    squares / freedom.max(1) as f64
}

impl Dip {
    /// Of a part as all cycles show it, tested by some.
    fn of(shown: &Triple<'_>, tested: &Triple<'_>) -> Option<Dip> {
        let (first, last) = (shown.dip.first()?, shown.dip.last()?);
        Some(Dip {
            size_bytes: first.size_bytes,
            from_ns: first.interval_ns,
            until_ns: last.interval_ns,
            before_share: median_of(&shown.before, end_to_end),
            end_to_end_share: median_of(&shown.dip, end_to_end),
            behind_share: median_of(&shown.behind, end_to_end),
            driver_share: median_of(&shown.dip, driver),
            driver_dips: tested.driver_dips(),
            p: tested.p_value()?,
            counters: explain(&tested.dip, &tested.beside().concat()),
        })
    }
}

/// Which counters are otherwise in the dip than beside it, in words.
fn explain(dip: &[&Cycle], beside: &[&Cycle]) -> String {
    let level = ALPHA / NAMES.len() as f64;
    let mut changed = Vec::new();
    let mut known = false;
    for (at, meaning) in NAMES.iter().enumerate() {
        let counts = |cycles: &[&Cycle]| -> Vec<f64> {
            cycles.iter().filter_map(|cycle| Some(cycle.counts()[at]? as f64)).collect()
        };
        let (there, elsewhere) = (counts(dip), counts(beside));
        let Some(p) = rank_sum::p_value(&there, &elsewhere) else { continue };
        known = true;
        let (there, elsewhere) = (median(there), median(elsewhere));
        if p <= level && there != elsewhere {
            changed.push(format!("{meaning}: {there} a cycle, {elsewhere} beside it"));
        }
    }
    match (known, changed.is_empty()) {
        (false, _) => "this target has no counters".to_owned(),
        (true, true) => "no counter explains it".to_owned(),
        (true, false) => changed.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cycle::{Phase, Request};
    use super::*;
    use warikomi_clock::Seed;

    const REPEATS: u32 = 11;

    /// Cycles at 20 intervals, with what `of` makes of each: its number, and noise from 0 to 1.
    fn curve(seed: u64, of: impl Fn(usize, f64, &mut Cycle)) -> Vec<Cycle> {
        let mut dice = Seed(seed).dice();
        let mut cycles = Vec::new();
        for repeat in 1..=REPEATS {
            for at in 0..20 {
                let interval_ns = 100.0 * 1.2f64.powi(at as i32);
                let request =
                    Request { size_bytes: 1_500, phase: Phase::Curve, repeat, interval_ns };
                let mut cycle = Cycle { driver_share: 1.0, ..Cycle::of(&request) };
                of(at, dice.number(0, 999) as f64 / 1e3, &mut cycle);
                cycles.push(cycle);
            }
        }
        cycles
    }

    /// Grows with the interval up to all.
    fn growing(at: usize, noise: f64) -> f64 {
        (at as f64 / 15.0 + 0.02 * noise).min(1.0)
    }

    #[test]
    fn a_curve_that_only_grows_has_no_dip_whatever_its_noise() {
        for seed in 0..20 {
            let cycles = curve(seed, |at, noise, cycle| {
                cycle.end_to_end_share = Some(growing(at, noise));
            });
            assert_eq!(dips(&cycles), [], "seed {seed}");
            let flat = curve(seed, |_, noise, cycle| cycle.end_to_end_share = Some(noise));
            assert_eq!(dips(&flat), [], "seed {seed}");
        }
    }

    #[test]
    fn a_dip_is_found_where_it_is_and_the_counter_that_changed_is_named() {
        let cycles = curve(1, |at, noise, cycle| {
            let dips = at == 9 || at == 10;
            cycle.end_to_end_share = Some(growing(at, noise) * if dips { 0.5 } else { 1.0 });
            cycle.socket_overflows = Some(if dips { 800 + (noise * 90.0) as u64 } else { 0 });
            cycle.context_switches = Some(100 + (noise * 50.0) as u64);
        });
        let found = dips(&cycles);
        let [dip] = &found[..] else { panic!("{found:?}") };
        let near = |ns: f64, at: i32| (ns - 100.0 * 1.2f64.powi(at)).abs() < 1e-6;
        assert!(near(dip.from_ns, 9) && near(dip.until_ns, 10), "{dip:?}");
        assert!(dip.p < 0.01 && !dip.driver_dips && dip.end_to_end_share < dip.before_share);
        assert!(dip.counters.starts_with("socket overflow: 8"), "{dip:?}");
        assert!(dip.counters.ends_with(" a cycle, 0 beside it"), "no other: {dip:?}");
    }

    #[test]
    fn what_no_counter_explains_is_said_and_that_the_driver_dips_too() {
        let cycles = curve(2, |at, noise, cycle| {
            let share = growing(at, noise) * if at == 12 { 0.7 } else { 1.0 };
            (cycle.end_to_end_share, cycle.driver_share) = (Some(share), share);
            cycle.context_switches = Some(100 + (noise * 50.0) as u64);
        });
        let found = dips(&cycles);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].driver_dips);
        assert_eq!(found[0].counters, "no counter explains it");
    }

    #[test]
    fn disturbed_cycles_and_a_target_without_counters_say_nothing() {
        let mut cycles = curve(3, |at, noise, cycle| {
            cycle.end_to_end_share = Some(growing(at, noise) * if at == 9 { 0.3 } else { 1.0 });
        });
        assert_eq!(dips(&cycles)[0].counters, "this target has no counters");
        for cycle in cycles.iter_mut().filter(|cycle| cycle.end_to_end_share < Some(0.3)) {
            cycle.disturbed = true;
        }
        assert_eq!(dips(&cycles), []);
        assert_eq!(dips(&[]), []);
    }
}

//! The smallest interval that can be kept.
//!
//! Three answers, because the question has three meanings. An interval is *kept* if at least
//! [`KEPT_SHARE`] of the intervals between injections are within 6.25% of it; it is kept *at the handler* if as
//! many of those between the handler's first looks are. Intervals that fall into a hiccup are left out of both. A *pace* is kept if at
//! least as many packets go out before the next one is due: single intervals may then differ, but
//! errors do not add up. Whether the driver takes the packets is another matter (the share that
//! found a descriptor is kept, too): this is about what can be injected.

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_inject::{Plan, Warmup};
use warikomi_session::Session;

use super::series::{MOST_RETRIES, Series, is_disturbed};
use crate::error::Error;
use crate::inject::{Application, inject, run_id};
use crate::watch::Watch;

/// Places of the series of a run.
const INJECTED: usize = 0;
const HANDLER: usize = 2;

/// The share of intervals that must be within 6.25%, or of packets that must be in time.
pub const KEPT_SHARE: f64 = 0.99;

/// Packets a cycle.
const CYCLE_PACKETS: u64 = 2_000;
/// Cycles of which the median decides, so that one pause of the host does not.
const CYCLES: usize = 3;
/// Nothing can be injected in less.
const SHORTEST: Span = Span::from_ns(20);
/// Longer intervals than these, and than the requested one, are not tried.
const LONGEST: Span = Span::from_us(100);
/// Nor are these, whatever was requested: the search would take minutes.
const LONGEST_OF_ALL: Span = Span::from_ms(1);
/// How much longer the next interval of the coarse pass is.
const STRIDE: f64 = 1.5;
/// The search ends when the interval is known to this share.
const PRECISION: f64 = 0.02;

/// One interval that was tried: medians of three cycles, shares from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The interval.
    pub interval_ns: f64,
    /// Intervals between injections that were within 6.25% of it, of those that fall into no hiccup.
    pub kept_share: f64,
    /// Packets that went out before the next was due.
    pub paced_share: f64,
    /// Packets that found a descriptor.
    pub on_ring_share: f64,
    /// Intervals at the driver's handler that were, likewise; 0 without any.
    pub handler_kept_share: f64,
    /// Intervals at the handler that fall into a hiccup.
    pub excused_share: f64,
    /// Cycles that were done again because they were disturbed.
    pub retried: u32,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Smallest {
    /// The smallest interval that was kept; `None` if none was.
    pub(super) kept_ns: Option<f64>,
    /// The smallest interval at which the pace was kept.
    pub(super) paced_ns: Option<f64>,
    /// The smallest interval that was kept at the handler, hiccups aside.
    pub(super) handler_ns: Option<f64>,
    /// The longest that was looked at.
    pub(super) longest: Span,
}

pub(super) fn search(
    session: &mut Session,
    plan: &Plan,
    retry: bool,
    watch: &mut Watch,
) -> Result<(Vec<Tried>, Smallest), Error> {
    let longest = plan.spacing().max(LONGEST).min(LONGEST_OF_ALL);
    let mut tried: Vec<Tried> = Vec::new();
    let mut attempt = |interval_ns: f64| {
        if let Some(known) = tried.iter().find(|known| known.interval_ns == interval_ns) {
            return Ok(*known);
        }
        let done = tried.len() as u64;
        watch.progress(done, most_attempts(longest), "looking for the smallest interval");
        let new = watch
            .step(&format!("{interval_ns} ns"), |_| cycles(session, plan, retry, interval_ns))?;
        tried.push(new);
        Ok::<Tried, Error>(new)
    };
    let limit = (SHORTEST.as_ns(), longest.as_ns());
    let kept_ns = bisect(limit, |ns| attempt(ns).map(|at| at.kept_share >= KEPT_SHARE))?;
    let paced_ns = bisect(limit, |ns| attempt(ns).map(|at| at.paced_share >= KEPT_SHARE))?;
    let handler_ns = bisect(limit, |ns| attempt(ns).map(|at| at.handler_kept_share >= KEPT_SHARE))?;
    tried.sort_by(|a, b| a.interval_ns.total_cmp(&b.interval_ns));
    Ok((tried, Smallest { kept_ns, paced_ns, handler_ns, longest }))
}

fn most_attempts(longest: Span) -> u64 {
    let strides = (longest.as_ns() / SHORTEST.as_ns()).log(STRIDE).ceil();
    let halvings = (STRIDE.ln() / PRECISION.ln_1p()).log2().ceil();
    (strides + 3.0 * halvings) as u64 + 1
}

/// The smallest interval in nanoseconds at which `holds`, known to [`PRECISION`]: from the shortest
/// one up, because pauses of the host spoil a larger share of long intervals than of short ones.
fn bisect<E>(
    (shortest, longest): (f64, f64),
    mut holds: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    let (mut fails, mut found) = (0.0, shortest);
    while !holds(found)? {
        if found >= longest {
            return Ok(None);
        }
        (fails, found) = (found, (found * STRIDE).min(longest));
    }
    while fails > 0.0 && found / fails > 1.0 + PRECISION {
        // Whole nanoseconds would be too coarse for the shortest, picoseconds are what a plan has.
        let between = ((found * fails).sqrt() * 1e3).round() / 1e3;
        if holds(between)? {
            found = between;
        } else {
            fails = between;
        }
    }
    Ok(Some(found))
}

fn cycles(
    session: &mut Session,
    plan: &Plan,
    retry: bool,
    interval_ns: f64,
) -> Result<Tried, Error> {
    let interval = Span::from_ps((interval_ns * 1e3).round() as u64);
    let warmup = Warmup { count: 200, ..plan.warmup };
    let plan = Plan { interval, count: CYCLE_PACKETS, line_rate_bps: None, warmup, ..plan.clone() };
    let mut shares = [const { Vec::new() }; 5];
    let (mut done, mut retried) = (0, 0);
    while done < CYCLES {
        let run =
            inject(session, &plan, Application::default(), run_id(&*session.target), &mut |_| ())?;
        run.check()?;
        let totals = run.ledger.totals();
        let series = Series::of(&run, interval);
        if retry && retried < MOST_RETRIES && is_disturbed(&series) {
            retried += 1;
            continue;
        }
        done += 1;
        let series = series.map(|series| series.figures(Span::ZERO));
        let kept = |place: usize| series[place].and_then(|figures| figures.quiet_within_6_25_share);
        let paced = run.ledger.rows().filter(|row| match (row.injected, row.planned) {
            (Some(at), Some(due)) => at.since(due) < interval,
            _ => false,
        });
        let share = |packets: u64| packets as f64 / totals.planned as f64;
        let found = [
            kept(INJECTED).unwrap_or(0.0),
            share(paced.count() as u64),
            share(totals.on_ring()),
            kept(HANDLER).unwrap_or(0.0),
            series[HANDLER].map_or(0.0, |figures| figures.excused_share),
        ];
        for (into, value) in shares.iter_mut().zip(found) {
            into.push(value);
        }
    }
    let [kept_share, paced_share, on_ring_share, handler_kept_share, excused_share] =
        shares.map(|mut of_cycles| {
            of_cycles.sort_by(f64::total_cmp);
            of_cycles[CYCLES / 2]
        });
    Ok(Tried {
        interval_ns,
        kept_share,
        paced_share,
        on_ring_share,
        handler_kept_share,
        excused_share,
        retried,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(threshold: f64) -> (Option<f64>, usize) {
        let mut attempts = 0;
        let found = bisect((20.0, 100_000.0), |ns| {
            attempts += 1;
            Ok::<bool, ()>(ns >= threshold)
        });
        (found.unwrap(), attempts)
    }

    #[test]
    fn the_smallest_is_found_to_its_precision_and_never_below_it() {
        for threshold in [20.5, 203.7, 999.0, 38_000.0, 99_999.0] {
            let (found, attempts) = found(threshold);
            let found = found.unwrap();
            assert!(found >= threshold && found <= threshold * (1.0 + PRECISION), "{found}");
            assert!(attempts as u64 <= most_attempts(LONGEST), "{attempts}");
        }
    }

    #[test]
    fn what_never_holds_is_not_found_and_what_always_does_is_the_shortest() {
        assert_eq!(found(1e9).0, None);
        assert_eq!(found(0.0).0, Some(20.0));
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(bisect((20.0, 100.0), |_| Err::<bool, _>("gone")), Err("gone"));
    }
}

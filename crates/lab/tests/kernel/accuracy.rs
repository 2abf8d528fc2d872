//! How exactly intervals are kept, on the real kernel.

use warikomi_clock::Span;
use warikomi_inject::Plan;
use warikomi_lab::Watch;
use warikomi_lab::accuracy::{AccuracyOptions, KEPT_SHARE, Measured, accuracy};

use crate::bring::{plan, session};

fn measured(plan: Plan, repeat: u32, smallest: bool) -> Measured {
    let mut session = session("sink");
    let options = AccuracyOptions { plan, repeat, smallest, cycle: true, retry_disturbed: false };
    let found = accuracy(&mut session, &options, &mut Watch::unobserved()).unwrap();
    session.stop().unwrap();
    found
}

#[test]
fn every_figure_is_that_of_the_intervals_behind_it() {
    let found = measured(plan(1_500, Span::from_us(100), 500), 3, false);
    let ledger = found.result.ledger.unwrap();
    assert_eq!((ledger.injected, ledger.unaccounted), (500, 0));
    assert_eq!(ledger.unclaimed, ledger.accepted, "the packets are for the driver");
    let places: Vec<&str> = found.series.iter().map(|series| series.place.name()).collect();
    assert_eq!(places, ["injected", "raised", "handler"]);
    assert_eq!(found.series[0].intervals.len(), 499);
    let interrupts = found.result.interrupts.unwrap();
    assert_eq!(found.series[1].intervals.len() as u64, interrupts.raised - 1);
    assert_eq!(found.series[2].intervals.len() as u64, interrupts.handled - 1);
    let resolution_ns = found.result.figures["resolution_ns"].as_f64().unwrap();
    assert!(resolution_ns >= found.result.figures["clock_tick_ns"].as_f64().unwrap());
    for (row, series) in found.result.rows.unwrap().iter().zip(&found.series) {
        let figure = |name: &str| row[name].as_f64().unwrap();
        let errors: Vec<f64> =
            series.intervals.iter().map(|each| series.error_ns(each).abs()).collect();
        let within = |ns: f64| errors.iter().filter(|error| **error <= ns).count() as f64;
        let count = errors.len() as f64;
        assert_eq!(row["place"], series.place.name());
        assert_eq!(figure("count"), count);
        assert_eq!(figure("exact_share"), within(resolution_ns) / count);
        assert_eq!(figure("within_1_share"), within(1_000.0) / count);
        assert_eq!(figure("within_6_25_share"), within(6_250.0) / count);
        assert_eq!(figure("worst_error_ns"), errors.iter().copied().fold(0.0, f64::max));
        let quiet = series.intervals.iter().filter(|each| !each.not_running.any()).count();
        assert_eq!(figure("quiet_count"), quiet as f64);
    }
    // Four figures at three places in three repetitions, and the one that is shown is among them.
    assert_eq!(found.repeats.len(), 4 * 3 * 3);
    let exact = |repeat| {
        let is = |each: &&warikomi_measure::Repeat| {
            each.repeat == repeat && each.figure == "injected_exact_share"
        };
        found.repeats.iter().find(is).unwrap().value
    };
    let mut all = [exact(1), exact(2), exact(3)];
    all.sort_by(f64::total_cmp);
    let errors = found.series[0].intervals.iter();
    let shown = errors.filter(|each| found.series[0].error_ns(each).abs() <= resolution_ns).count();
    assert_eq!(all[1], shown as f64 / 499.0, "the middle one of {all:?}");
}

#[test]
fn the_smallest_interval_is_one_that_was_tried_and_kept() {
    let found = measured(plan(60, Span::from_us(50), 200), 1, true);
    assert!(found.tried.is_sorted_by(|a, b| a.interval_ns < b.interval_ns));
    assert!(found.tried[0].interval_ns == 20.0 && found.tried[0].paced_share < KEPT_SHARE);
    for (name, share) in [
        (
            "smallest_interval_ns",
            (|tried| tried.kept_share) as fn(&warikomi_lab::accuracy::Tried) -> f64,
        ),
        ("smallest_paced_interval_ns", |tried| tried.paced_share),
    ] {
        let reached = found.tried.iter().any(|tried| share(tried) >= KEPT_SHARE);
        let Some(ns) = found.result.figures.get(name) else {
            assert!(!reached, "{name}: {:?}", found.tried);
            continue;
        };
        let at = found.tried.iter().find(|tried| Some(tried.interval_ns) == ns.as_f64()).unwrap();
        assert!(share(at) >= KEPT_SHARE, "{name}: {at:?}");
    }
    let warned = found.result.warnings.iter().any(|warning| warning.what.contains("was kept"));
    assert_eq!(warned, !found.result.figures.contains_key("smallest_interval_ns"));
}

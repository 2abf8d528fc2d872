//! The experiments run on driver processes as they run on kernels.

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Arrival, Plan, Receiver};
use warikomi_lab::accuracy::{AccuracyOptions, accuracy};
use warikomi_lab::cost::{CostOptions, cost};
use warikomi_lab::inject::Application;
use warikomi_lab::sweep::{SweepPlan, sweep};
use warikomi_lab::{OnDemand, Watch};
use warikomi_measure::Warning;

use crate::{plan, session};

#[test]
fn accuracy_looks_at_interrupts_alone_too() {
    let mut session = session(Strategy::Poll);
    let plan = plan(1_500, Span::from_us(100), 500);
    let options =
        AccuracyOptions { plan, repeat: 1, smallest: false, cycle: false, retry_disturbed: false };
    let found = accuracy(&mut session, &options, &mut Watch::unobserved()).unwrap();
    session.stop().unwrap();
    let missing = |warning: &&Warning| warning.what.contains("no intervals at the handler");
    assert_eq!(found.result.warnings.iter().filter(missing).count(), 1, "a driver that polls");
    assert_eq!(found.result.target.kind, "process");
    assert_eq!(found.result.ledger.unwrap().unaccounted, 0);
    for spacing in ["200", "100"] {
        let figure = |name: &str| &found.result.figures[&format!("alone_{spacing}_{name}")];
        assert_eq!(figure("sent"), 100_000);
        assert_eq!(figure("handled"), 100_000, "one for one");
        // On a machine that is busy for milliseconds the times of some are written over, no more.
        assert!(figure("timed").as_u64() > Some(0));
    }
}

#[test]
fn accuracy_has_all_three_places_of_a_driver_that_stays_awake() {
    let mut session = session(Strategy::Awake);
    let plan = plan(1_500, Span::from_us(200), 500);
    let options =
        AccuracyOptions { plan, repeat: 1, smallest: false, cycle: false, retry_disturbed: false };
    let found = accuracy(&mut session, &options, &mut Watch::unobserved()).unwrap();
    session.stop().unwrap();
    let rows = found.result.rows.unwrap();
    let places: Vec<_> = rows.iter().map(|row| row["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["injected", "raised", "handler"]);
    let missing = |warning: &Warning| warning.what.contains("no intervals at the handler");
    assert!(!found.result.warnings.iter().any(missing));
}

#[test]
fn fitted_intervals_are_off_what_was_asked_for_and_not_off_what_was_drawn() {
    let mut session = session(Strategy::Awake);
    let plan = Plan { arrival: Arrival::FittedRealNic, ..plan(1_500, Span::from_us(200), 500) };
    let options =
        AccuracyOptions { plan, repeat: 1, smallest: false, cycle: false, retry_disturbed: false };
    let found = accuracy(&mut session, &options, &mut Watch::unobserved()).unwrap();
    session.stop().unwrap();
    let (figures, injected) = (&found.result.figures, &found.series[0]);
    let mut asked: Vec<f64> =
        injected.intervals.iter().map(|each| injected.error_ns(each).abs()).collect();
    asked.sort_by(f64::total_cmp);
    let drawn_ns = figures["interval_error_p50_ns"].as_f64().unwrap();
    assert!(drawn_ns < asked[asked.len() / 2], "{drawn_ns} {asked:?}");
    assert_eq!(figures["published_worst_error_ns"], 4e9);
    assert!(figures.contains_key("fitted") && !figures.contains_key("published_exact_share"));
    assert!(found.result.warnings.iter().any(|warning| warning.what.contains("are fitted")));
}

#[test]
fn a_sweep_runs() {
    let mut target = OnDemand::new(|_| Ok(session(Strategy::Poll)));
    let plan = SweepPlan {
        sizes_bytes: vec![1_500],
        count: 200,
        repeat: 1,
        receiver: Receiver::Driver,
        ..SweepPlan::default()
    };
    let application = Application::default();
    let swept = sweep(&mut target, &plan, application, &mut Watch::unobserved()).unwrap();
    target.stop().unwrap();
    assert!(swept.cycles.len() > 2);
    assert_eq!(swept.result.rows.unwrap().len(), 1);
}

#[test]
fn cost_has_no_end_to_end_figure_without_an_application() {
    let mut session = session(Strategy::Poll);
    let options = CostOptions { sizes_bytes: vec![1_500], repeat: 1, sampling: false };
    let found = cost(&mut session, &options, &mut Watch::unobserved()).unwrap();
    session.stop().unwrap();
    let rows = found.result.rows.unwrap();
    assert!(rows[0].contains_key("send_ns") && !rows[0].contains_key("end_to_end_ns"));
    let said = |warning: &Warning| warning.what.contains("end to end");
    assert!(!found.result.warnings.iter().any(said));
}

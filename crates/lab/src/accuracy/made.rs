//! The accuracy of intervals as it is measured on a session.

use serde::{Deserialize, Serialize};
use serde_json::json;
use warikomi_clock::{Span, Time};
use warikomi_inject::{Arrival, Plan, Receiver};
use warikomi_measure::{Repeat, RunResult, Warning, as_object, no_handler, published};
use warikomi_session::Session;

use super::cycle::{self, CycleStep};
use super::lag::Lag;
use super::resolution::{self, Resolution};
use super::series::{MOST_EXCUSED, MOST_RETRIES, PlaceFigures, Series, is_disturbed};
use super::smallest::{self, KEPT_SHARE, Smallest, Tried};
use super::{alone, errors};
use crate::error::Error;
use crate::inject::{Application, inject, run_id};
use crate::record::interval_error;
use crate::watch::Watch;

/// What to measure.
#[derive(Clone, Debug)]
pub struct AccuracyOptions {
    /// Interval, size and number of the packets; they are meant for the driver, whatever it says.
    pub plan: Plan,
    /// How often; the repetition in the middle is the result.
    pub repeat: u32,
    /// Whether to look for the smallest interval, too.
    pub smallest: bool,
    /// Whether to take the cycle of an interrupt apart, too.
    pub cycle: bool,
    /// Whether what is disturbed is done again, up to [`MOST_RETRIES`] times.
    pub retry_disturbed: bool,
}

/// What came of it.
pub struct Measured {
    /// The figures.
    pub result: RunResult,
    /// The plan that was carried out.
    pub plan: Plan,
    /// Every interval of the repetition that is the result, one series a place.
    pub series: Vec<Series>,
    /// The time of the first deadline, from which the times in the samples count.
    pub start: Time,
    /// What was tried on the way to the smallest interval, in order of the interval; empty if that was
    /// left out.
    pub tried: Vec<Tried>,
    /// The shares of each repetition.
    pub repeats: Vec<Repeat>,
    /// The steps of each interrupt's cycle; empty if that was left out.
    pub cycle: Vec<CycleStep>,
}

/// Carries it out on a session. A step is a repetition, or an interval that is tried.
pub fn accuracy(
    session: &mut Session,
    options: &AccuracyOptions,
    watch: &mut Watch,
) -> Result<Measured, Error> {
    let plan = Plan { receiver: Receiver::Driver, ..options.plan.clone() };
    let (resolution, alone) = watch.step("resolution, and interrupts alone", |_| {
        let resolution = resolution::measure(&mut *session.target)?;
        Ok((resolution, alone::measure(&mut *session.target)?))
    })?;
    let repetitions: Vec<u32> = (1..=options.repeat.max(1)).collect();
    let made = watch.each(
        &repetitions,
        |_| "measuring".to_owned(),
        |_, watch| Repetition::make(session, &plan, options.retry_disturbed, watch),
    )?;
    let runs = made.into_iter().map(|made| Run::of(made, resolution.pass)).collect::<Vec<_>>();
    let repeats = repeats(&runs);
    let retried: u32 = runs.iter().map(|run| run.made.retried).sum();
    let Run { made: Repetition { result, series, start, lag, .. }, places } = middle(runs);
    let (tried, smallest) = match options.smallest {
        true => {
            // What can be injected at all is not a matter of how intervals are drawn.
            let exact = Plan { arrival: Arrival::Constant, ..plan.clone() };
            smallest::search(session, &exact, options.retry_disturbed, watch)?
        }
        false => Default::default(),
    };
    let cycle = match options.cycle {
        true => {
            watch.step("an interrupt's cycle", |watch| cycle::measure(session, &plan, watch))?
        }
        false => Vec::new(),
    };
    let mut result = describe(result, &places, &resolution);
    if plan.arrival.is_fitted() {
        describe_fitted(&mut result);
    }
    if options.retry_disturbed {
        let of_tried: u32 = tried.iter().map(|tried| tried.retried).sum();
        result.figures.insert("retried_runs".into(), (retried + of_tried).into());
    }
    if options.cycle {
        result.figures.insert("cycle".into(), json!(cycle::rows(&cycle)));
    }
    result.figures.insert("repeats".into(), repetitions.len().into());
    result.figures.extend(alone);
    result.figures.extend(lag.figures());
    let errors = errors::table(&series, plan.spacing(), resolution.pass);
    result.figures.insert("errors".into(), json!(errors));
    if options.smallest {
        describe_smallest(&mut result, &smallest);
    }
    Ok(Measured { result, plan, series, start, tried, repeats, cycle })
}

/// One repetition.
#[derive(Serialize, Deserialize)]
struct Repetition {
    result: RunResult,
    series: Vec<Series>,
    start: Time,
    lag: Lag,
    /// How often it was done again because it was disturbed.
    retried: u32,
}

impl Repetition {
    fn make(
        session: &mut Session,
        plan: &Plan,
        retry: bool,
        watch: &mut Watch,
    ) -> Result<Repetition, Error> {
        let mut retried = 0;
        loop {
            let made = Repetition::once(session, plan, watch)?;
            if !retry || retried == MOST_RETRIES || !is_disturbed(&made.series) {
                return Ok(Repetition { retried, ..made });
            }
            retried += 1;
        }
    }

    fn once(session: &mut Session, plan: &Plan, watch: &mut Watch) -> Result<Repetition, Error> {
        let run_id = run_id(&*session.target);
        let mut run = inject(session, plan, Application::default(), run_id, &mut |at| {
            watch.progress(at.done, at.all, "measuring");
        })?;
        if plan.arrival.is_fitted() {
            // Against what was asked for the rows have it; this is against what was drawn.
            run.result.figures.extend(interval_error(&run.ledger));
        }
        run.check()?;
        let series = Series::of(&run, plan.spacing()).to_vec();
        let lag = Lag::of(&run, plan.spacing());
        Ok(Repetition { result: run.result, series, start: run.start, lag, retried: 0 })
    }
}

/// A repetition with its figures.
struct Run {
    made: Repetition,
    places: Vec<PlaceFigures>,
}

impl Run {
    fn of(made: Repetition, resolution: Span) -> Run {
        let places = made.series.iter().filter_map(|series| series.figures(resolution)).collect();
        Run { made, places }
    }

    /// By which repetitions are put in order.
    fn exact_share(&self) -> f64 {
        self.places.first().map_or(0.0, |injected| injected.exact_share)
    }
}

/// The repetition in the middle, by the share of exact intervals at the injection: whole, so that
/// its figures, its ledger and its samples belong together.
fn middle(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.exact_share().total_cmp(&b.exact_share()));
    runs.swap_remove((runs.len() - 1) / 2)
}

fn repeats(runs: &[Run]) -> Vec<Repeat> {
    let mut repeats = Vec::new();
    for (run, repeat) in runs.iter().zip(1..) {
        for place in &run.places {
            let figures = [
                ("exact_share", place.exact_share),
                ("within_1_share", place.within_1_share),
                ("within_6_25_share", place.within_6_25_share),
                ("worst_error_ns", place.worst_error_ns),
            ];
            repeats.extend(figures.map(|(name, value)| Repeat {
                figure: format!("{}_{name}", place.place.name()),
                size_bytes: None,
                repeat,
                value,
            }));
        }
    }
    repeats
}

fn describe(run: RunResult, places: &[PlaceFigures], resolution: &Resolution) -> RunResult {
    let requested_ns = run.intervals.as_ref().and_then(|intervals| intervals.requested_ns);
    let mut result = RunResult { experiment: "accuracy".into(), ..run };
    result.rows = Some(places.iter().map(as_object).collect());
    let published = published::injection().interval_accuracy;
    let figures = [
        ("requested_ns", requested_ns),
        ("resolution_ns", Some(resolution.pass.as_ns())),
        ("clock_tick_ns", Some(resolution.tick.as_ns())),
        ("published_requested_ns", Some(published.requested_us * 1e3)),
        ("published_exact_share", Some(published.exact_share)),
        ("published_worst_error_share", Some(published.worst_error_share)),
        ("published_smallest_interval_ns", Some(published.smallest_interval_us * 1e3)),
    ];
    result.figures.extend(figures.map(|(name, value)| (name.to_owned(), value.into())));
    let excused = places.iter().map(|place| place.excused_share).fold(0.0, f64::max);
    if excused > MOST_EXCUSED {
        result.warnings.push(Warning {
            what: format!(
                "{:.1}% of the intervals fall into hiccups: this run shows nothing",
                100.0 * excused
            ),
            hint: "leave the machine alone meanwhile, or give --retry-disturbed".into(),
        });
    }
    // Here the handler is asked about, also of a driver that polls.
    let missing = no_handler(&result).filter(|warning| !result.warnings.contains(warning));
    result.warnings.extend(missing);
    result
}

/// Of fitted intervals what was published of a system says nothing; what they are fitted to does.
fn describe_fitted(result: &mut RunResult) {
    let published = published::injection().interval_accuracy;
    let figures = &mut result.figures;
    for system in ["published_requested_ns", "published_exact_share", "published_worst_error_share"]
    {
        figures.remove(system);
    }
    figures.insert("fitted".into(), json!(["arrival: fitted-real-nic"]));
    figures.insert("published_jitter_ns".into(), (published.real_nic_jitter_us * 1e3).into());
    figures.insert(
        "published_worst_error_ns".into(),
        (published.real_nic_worst_outlier_s * 1e9).into(),
    );
}

fn describe_smallest(result: &mut RunResult, smallest: &Smallest) {
    let figures = [
        ("smallest_interval_ns", smallest.kept_ns),
        ("smallest_paced_interval_ns", smallest.paced_ns),
        ("smallest_handler_interval_ns", smallest.handler_ns),
        ("smallest_kept_limit_share", Some(KEPT_SHARE)),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    result.figures.extend(known.map(|(name, value)| (name, value.into())));
    if smallest.kept_ns.is_none() {
        result.warnings.push(Warning {
            what: format!(
                "no interval up to {} was kept: {}% within 6.25% of it was never reached",
                smallest.longest,
                100.0 * KEPT_SHARE
            ),
            hint: "give the support side a quieter core (see warikomi doctor), and repeat".into(),
        });
    }
}

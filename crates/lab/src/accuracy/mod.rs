//! How exactly a requested interval is kept, at three places: where the NIC is given a packet, where
//! its interrupt rises, and where the driver's handler first looks at it.
//!
//! The packets are of an EtherType that no protocol takes. What a stack and an application do with
//! a packet keeps the target's only core busy when the next interrupt comes, and would be measured
//! instead of the interrupt.
//!
//! A driver in a process of its own tells the time of each handler by itself; there, interrupts without
//! packets are looked at, too ([`alone`]).
//!
//! Intervals that fall into a hiccup of the loop that injects are marked, and figures are given with
//! and without them. The target cannot be watched like that: it has one core, and a process that
//! spun on it would delay the very interrupts that are looked at. For its side there is the time
//! that it waited for its core, and the time that the host stole, over the whole run.

mod alone;
pub(crate) mod columns;
mod errors;
mod resolution;
mod series;
mod smallest;

use resolution::Resolution;
use warikomi_clock::{Span, Time, read_tsc};
use warikomi_inject::{Plan, Receiver};
use warikomi_measure::{Repeat, RunResult, Warning, as_object, no_handler, published};

use crate::inject::{Application, Injected, inject};
use crate::watch::Progress;
use crate::{Error, Session};

pub use series::{Interval, PlaceFigures, Series};
pub use smallest::{KEPT_SHARE, Step, Tried};

/// What to measure.
#[derive(Clone, Debug)]
pub struct AccuracyOptions {
    /// Interval, size and number of the packets; they are meant for the driver, whatever it says.
    pub plan: Plan,
    /// How often; the repetition in the middle is the result.
    pub repeat: u32,
    /// Whether to look for the smallest interval, too.
    pub smallest: bool,
}

/// What came of it.
pub struct Accuracy {
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
}

/// Carries it out on a session.
pub fn accuracy(
    session: &mut Session,
    options: &AccuracyOptions,
    progress: &mut dyn FnMut(Step),
) -> Result<Accuracy, Error> {
    let plan = Plan { receiver: Receiver::Driver, ..options.plan.clone() };
    let resolution = resolution::measure(&mut *session.target)?;
    let alone = alone::measure(&mut *session.target)?;
    let mut runs = Vec::new();
    for repeat in 0..u64::from(options.repeat.max(1)) {
        let total = plan.count * u64::from(options.repeat.max(1));
        let mut show = |at: Progress<'_>| {
            let done = repeat * plan.count + at.done;
            progress(Step { what: "measuring", done, total });
        };
        let run_id = read_tsc() as u32;
        let run = inject(session, &plan, Application::default(), run_id, &mut show)?;
        run.check()?;
        runs.push(Run::of(run, plan.spacing(), resolution.pass));
    }
    let repeats = repeats(&runs);
    let run = middle(runs);
    let (tried, smallest) = match options.smallest {
        true => smallest::search(session, &plan, progress)?,
        false => Default::default(),
    };
    let mut result = describe(run.result, &run.places, &resolution);
    result.figures.insert("repeats".into(), options.repeat.max(1).into());
    result.figures.extend(alone);
    let errors = errors::table(&run.series, plan.spacing(), resolution.pass);
    result.figures.insert("errors".into(), serde_json::json!(errors));
    if options.smallest {
        describe_smallest(&mut result, &smallest);
    }
    Ok(Accuracy { result, plan, series: run.series, start: run.start, tried, repeats })
}

/// One repetition.
struct Run {
    result: RunResult,
    series: Vec<Series>,
    places: Vec<PlaceFigures>,
    start: Time,
}

impl Run {
    fn of(run: Injected, requested: Span, resolution: Span) -> Run {
        let series = Series::of(&run, requested).to_vec();
        let places = series.iter().filter_map(|series| series.figures(resolution)).collect();
        Run { result: run.result, series, places, start: run.start }
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
                figure: format!("{}_{name}", place.place),
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
    // Here the handler is asked about, also of a driver that polls.
    let missing = no_handler(&result).filter(|warning| !result.warnings.contains(warning));
    result.warnings.extend(missing);
    result
}

fn describe_smallest(result: &mut RunResult, smallest: &smallest::Smallest) {
    let figures = [
        ("smallest_interval_ns", smallest.kept_ns),
        ("smallest_paced_interval_ns", smallest.paced_ns),
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

//! The costs as they are measured on a session.

use serde::{Deserialize, Serialize};
use serde_json::json;
use warikomi_inject::{Receiver, Warmup};
use warikomi_measure::{Repeat, RunResult, Thresholds, TimeBase, as_object, warnings};
use warikomi_session::Session;

use super::fit::median;
use super::remarks::{not_sampled, remarks};
use super::row::{Row, split};
use super::sampling::{LEAST_SAMPLES, NoSamples, Sampler};
use super::send::{CALLS, Call, Series};
use super::{receive, send};
use crate::error::Error;
use crate::watch::Watch;

/// What to measure.
#[derive(Clone, Debug)]
pub struct CostOptions {
    /// Frame lengths in bytes.
    pub sizes_bytes: Vec<usize>,
    /// How often; medians are shown.
    pub repeat: u32,
    /// Whether to sample the target's functions, too.
    pub sampling: bool,
}

/// What came of it.
pub struct Costs {
    /// The figures.
    pub result: RunResult,
    /// The calls behind the send times: by frame length, of the repetition in the middle.
    pub calls: Vec<(usize, Vec<Call>)>,
    /// The figures of each repetition.
    pub repeats: Vec<Repeat>,
}

/// Packets while functions are sampled.
const SAMPLED_PACKETS: u64 = 500_000;

/// Runs all of it on one session. A step is a repetition for one frame length, and all sampling.
pub fn cost(
    session: &mut Session,
    options: &CostOptions,
    watch: &mut Watch,
) -> Result<Costs, Error> {
    let sizes = &options.sizes_bytes;
    let repeat = options.repeat.max(1);
    // In turns, because these machines change within minutes.
    let in_turns = |repeat| sizes.iter().map(move |&size| (size, repeat));
    let cases: Vec<(usize, u32)> = (1..=repeat).flat_map(in_turns).collect();
    let name = |(size, repeat): &(usize, u32)| format!("{size} bytes, repetition {repeat}");
    let made = watch.each(&cases, name, |(size, _), watch| {
        let before = session.watch_cores();
        let made = Repetition::make(session, *size)?;
        watch.saw(session, &before);
        Ok(made)
    })?;
    let sampled = match options.sampling {
        true => watch.step("functions", |watch| sample(session, sizes, watch))?,
        false => Sampled::default(),
    };
    let (target, machine) = watch.seen();
    let mut result = RunResult::new("cost", TimeBase::Real, machine);
    result.target = target;
    result.plan = as_object(&json!({
        "sizes_bytes": sizes, "repeat": repeat, "sampling": options.sampling, "calls": CALLS,
    }));
    result.warnings = warnings(&result, &Thresholds::default());
    result.warnings.extend(sampled.refused.as_deref().map(not_sampled));
    let repeats = made.iter().zip(&cases).flat_map(|(made, case)| made.repeats(*case)).collect();
    let calls = describe(&mut result, sizes, &made, &sampled, session.target.has_application());
    Ok(Costs { result, calls, repeats })
}

/// One repetition for one frame length.
#[derive(Serialize, Deserialize)]
struct Repetition {
    send: Option<Series>,
    signalled_ns: Option<f64>,
    driver_ns: Option<f64>,
    end_to_end_ns: Option<f64>,
}

impl Repetition {
    fn make(session: &mut Session, size: usize) -> Result<Repetition, Error> {
        Ok(Repetition {
            send: send::polled(session, size)?,
            signalled_ns: send::signalled_ns(session, size)?,
            driver_ns: receive::driver_ns(session, size)?,
            end_to_end_ns: receive::end_to_end_ns(session, size)?,
        })
    }

    fn repeats(&self, (size, repeat): (usize, u32)) -> Vec<Repeat> {
        let figures = [
            ("send_ns", self.send.as_ref().map(|series| series.counted.mean)),
            ("send_signalled_ns", self.signalled_ns),
            ("receive_ns", self.driver_ns),
            ("end_to_end_ns", self.end_to_end_ns),
        ];
        let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
        known
            .map(|(name, value)| Repeat {
                figure: name.to_owned(),
                size_bytes: Some(size),
                repeat,
                value,
            })
            .collect()
    }
}

/// The share of copying for the first lengths, and why there are no more.
#[derive(Default, Serialize, Deserialize)]
struct Sampled {
    copy_shares: Vec<f64>,
    refused: Option<String>,
}

fn sample(session: &mut Session, sizes: &[usize], watch: &mut Watch) -> Result<Sampled, Error> {
    let before = session.watch_cores();
    let mut sampled = Sampled::default();
    for (&size, done) in sizes.iter().zip(0..) {
        watch.progress(done, sizes.len() as u64, &format!("{size} bytes, functions"));
        match copy_share(session, size) {
            Ok(share) => sampled.copy_shares.push(share),
            Err(NoSamples::Target(error)) => return Err(error.into()),
            Err(NoSamples::Perf(why)) => {
                sampled.refused = Some(why);
                break;
            }
        }
    }
    watch.saw(session, &before);
    Ok(sampled)
}

fn copy_share(session: &mut Session, size: usize) -> Result<f64, NoSamples> {
    let sampler = Sampler::start(&mut *session.target)?;
    let none = Warmup { count: 0, ..Warmup::default() };
    let run = receive::flood(session, size, Receiver::Driver, SAMPLED_PACKETS, none);
    let run = run.map_err(|error| match error {
        Error::Target(error) => NoSamples::Target(error),
        other => NoSamples::Perf(other.to_string()),
    })?;
    let end = run.ledger.rows().filter_map(|row| row.injected).max().unwrap_or(run.start);
    let samples = sampler.finish(&mut *session.target, (run.start, end))?;
    if samples.count() < LEAST_SAMPLES {
        let few = format!("perf took only {} samples of a run", samples.count());
        return Err(NoSamples::Perf(few));
    }
    Ok(samples.copy_share())
}

/// Puts rows and figures into the result; returns the calls behind the send times. `made` is of each
/// length in turn.
fn describe(
    result: &mut RunResult,
    sizes: &[usize],
    made: &[Repetition],
    sampled: &Sampled,
    application: bool,
) -> Vec<(usize, Vec<Call>)> {
    let mut calls = Vec::new();
    let mut rows = Vec::new();
    for (at, &size) in sizes.iter().enumerate() {
        let of_size = || made.iter().skip(at).step_by(sizes.len());
        let middle =
            |figure: fn(&Repetition) -> Option<f64>| median(of_size().filter_map(figure).collect());
        let send = send::median(of_size().filter_map(|made| made.send.as_ref()).collect());
        let receive_ns = middle(|made| made.driver_ns);
        let sampled = receive_ns.zip(sampled.copy_shares.get(at));
        rows.push(Row {
            send_ns: send.map(|send| send.counted.mean),
            send_p50_ns: send.map(|send| send.counted.p50),
            send_p99_ns: send.map(|send| send.counted.p99),
            send_signalled_ns: middle(|made| made.signalled_ns),
            receive_ns,
            end_to_end_ns: middle(|made| made.end_to_end_ns),
            sampled_copy_ns: sampled.map(|(whole, share)| whole * share),
            sampled_protocol_ns: sampled.map(|(whole, share)| whole * (1.0 - share)),
            ..Row::published(size)
        });
        calls.push((size, send.map(|send| send.calls.clone()).unwrap_or_default()));
    }
    let fits = split(&mut rows);
    for (name, line) in ["send", "receive", "end_to_end"].into_iter().zip(fits) {
        let Some(line) = line else { continue };
        let parts = [
            ("fixed_ns", line.fixed_ns),
            ("ns_per_byte", line.ns_per_byte),
            ("r_squared", line.r_squared),
        ];
        let parts = parts.map(|(part, value)| (format!("{name}_{part}"), value.into()));
        result.figures.extend(parts);
    }
    result.warnings.extend(remarks(&rows, fits[1].is_some(), application));
    result.rows = Some(rows.iter().map(as_object).collect());
    calls
}

//! The costs as they are measured on a session.

use serde::{Deserialize, Serialize};
use serde_json::json;
use warikomi_clock::{Span, Time};
use warikomi_inject::{Receiver, Warmup};
use warikomi_measure::{Repeat, RunResult, Thresholds, TimeBase, as_object, warnings};
use warikomi_session::Session;

use super::fit::median;
use super::remarks::{not_sampled, remarks};
use super::row::{Row, split};
use super::sampling::{LEAST_SAMPLES, NoSamples, Sampler, Samples};
use super::send::{CALLS, Call, Series};
use super::{receive, send};
use crate::error::Error;
use crate::inject::Injected;
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

/// Packets of a run while functions are sampled.
const SAMPLED_PACKETS: u64 = 500_000;
/// For so long in all it is sampled: some 1,000 samples.
const SAMPLED_TIME: Span = Span::from_ms(200);
/// Runs that this may take: with an application each is as short as a socket is full, some 1 ms.
const SAMPLED_RUNS: usize = 400;

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
    signalled: Option<Series>,
    driver_ns: Option<f64>,
    end_to_end_ns: Option<f64>,
}

impl Repetition {
    fn make(session: &mut Session, size: usize) -> Result<Repetition, Error> {
        Ok(Repetition {
            send: send::polled(session, size)?,
            signalled: send::signalled(session, size)?,
            driver_ns: receive::driver_ns(session, size)?,
            end_to_end_ns: receive::end_to_end_ns(session, size)?,
        })
    }

    fn repeats(&self, (size, repeat): (usize, u32)) -> Vec<Repeat> {
        let figures = [
            ("send_ns", self.send.as_ref().map(|series| series.counted.mean)),
            ("send_signalled_ns", self.signalled.as_ref().map(|series| series.counted.mean)),
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

/// What was sampled for the first lengths, and why there are no more.
#[derive(Default, Serialize, Deserialize)]
struct Sampled {
    lengths: Vec<SampledLength>,
    refused: Option<String>,
}

/// What was sampled for one length.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SampledLength {
    /// The share of copying of what the driver alone needs.
    copy_share: f64,
    path: Option<PathTimes>,
}

/// What the target's kernel needs for a packet with an application that receives it, in nanoseconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct PathTimes {
    copy_ns: f64,
    protocol_ns: f64,
}

fn sample(session: &mut Session, sizes: &[usize], watch: &mut Watch) -> Result<Sampled, Error> {
    let before = session.watch_cores();
    let mut sampled = Sampled::default();
    for (&size, done) in sizes.iter().zip(0..) {
        watch.progress(done, sizes.len() as u64, &format!("{size} bytes, functions"));
        match sample_length(session, size) {
            Ok(length) => sampled.lengths.push(length),
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

fn sample_length(session: &mut Session, size: usize) -> Result<SampledLength, NoSamples> {
    let copy_share = copy_share(session, size)?;
    // Elsewhere the path is of several processes, of which one would be seen.
    let whole = session.has_kernel() && session.target.has_application();
    let path = if whole { Some(path_times(session, size)?) } else { None };
    Ok(SampledLength { copy_share, path })
}

fn copy_share(session: &mut Session, size: usize) -> Result<f64, NoSamples> {
    let flood = |session: &mut Session| {
        receive::flood(session, size, Receiver::Driver, SAMPLED_PACKETS, Warmup::NONE)
    };
    let (samples, _) = sample_runs(session, flood, |packet| packet.injected)?;
    Ok(samples.copy_share())
}

/// The same of everything up to the socket: packets that no protocol takes would leave nothing of a protocol to see.
fn path_times(session: &mut Session, size: usize) -> Result<PathTimes, NoSamples> {
    let flood = |session: &mut Session| receive::flood_application(session, size, Warmup::NONE);
    let (samples, delivered) = sample_runs(session, flood, |packet| packet.delivered)?;
    if delivered == 0 {
        return Err(NoSamples::Perf("no packet reached the application".to_owned()));
    }
    let of_packet = |samples| Samples::time_ns(samples) / delivered as f64;
    Ok(PathTimes { copy_ns: of_packet(samples.copy), protocol_ns: of_packet(samples.protocol) })
}

/// Samples runs until they have taken long enough, each up to the last of these times of its packets; also gives how
/// many packets they delivered.
fn sample_runs(
    session: &mut Session,
    make: impl Fn(&mut Session) -> Result<Injected, Error>,
    time: fn(warikomi_measure::Row) -> Option<Time>,
) -> Result<(Samples, u64), NoSamples> {
    let sampler = Sampler::start(&mut *session.target)?;
    let (mut runs, mut sampled, mut delivered) = (Vec::new(), Span::ZERO, 0);
    while sampled < SAMPLED_TIME && runs.len() < SAMPLED_RUNS {
        let run = make(session).map_err(no_run)?;
        let end = run.ledger.rows().filter_map(time).max().unwrap_or(run.start);
        delivered += run.ledger.totals().delivered;
        sampled += end.since(run.start);
        runs.push((run.start, end));
    }
    Ok((enough(sampler.finish(&mut *session.target, &runs)?)?, delivered))
}

fn no_run(error: Error) -> NoSamples {
    match error {
        Error::Target(error) => NoSamples::Target(error),
        other => NoSamples::Perf(other.to_string()),
    }
}

fn enough(samples: Samples) -> Result<Samples, NoSamples> {
    match samples.count() {
        few @ ..LEAST_SAMPLES => {
            Err(NoSamples::Perf(format!("perf took only {few} samples of a length")))
        }
        _ => Ok(samples),
    }
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
        let told = send::median(of_size().filter_map(|made| made.signalled.as_ref()).collect());
        let receive_ns = middle(|made| made.driver_ns);
        let end_to_end_ns = middle(|made| made.end_to_end_ns);
        let sampled = sampled.lengths.get(at);
        let of_driver = receive_ns.zip(sampled.map(|sampled| sampled.copy_share));
        let path = sampled.and_then(|sampled| sampled.path);
        let path_rest = |path: PathTimes| Some(end_to_end_ns? - path.copy_ns - path.protocol_ns);
        rows.push(Row {
            send_ns: send.map(|send| send.counted.mean),
            send_p50_ns: send.map(|send| send.counted.p50),
            send_p99_ns: send.map(|send| send.counted.p99),
            send_signalled_ns: told.map(|told| told.counted.mean),
            send_signalled_p50_ns: told.map(|told| told.counted.p50),
            send_signalled_p99_ns: told.map(|told| told.counted.p99),
            telling_ns: told.zip(send).map(|(told, send)| told.counted.mean - send.counted.mean),
            interrupts_per_send: told.map(|told| told.interrupts_per_call),
            receive_ns,
            end_to_end_ns,
            sampled_copy_ns: of_driver.map(|(whole, share)| whole * share),
            sampled_rest_ns: of_driver.map(|(whole, share)| whole * (1.0 - share)),
            path_copy_ns: path.map(|path| path.copy_ns),
            path_protocol_ns: path.map(|path| path.protocol_ns),
            // Of different runs: where they contradict each other there is no rest.
            path_rest_ns: path.and_then(path_rest).filter(|ns| *ns >= 0.0),
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

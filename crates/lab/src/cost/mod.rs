//! What a packet costs: the support side to send, the target to receive, by frame length.
//!
//! The send side is timed call by call. The receive side is taken apart in two ways that do not share
//! an assumption. The cost of a saturated target against the frame length is nearly a line: what
//! grows with the length is copying, the rest is protocol processing. And where `perf` is permitted,
//! the functions in which the target spends its time are sampled: those that copy, and the rest.

pub(crate) mod columns;
mod fit;
mod receive;
mod sampling;
mod send;

use sampling::{LEAST_SAMPLES, NoSamples, Sampler};
use serde::Serialize;
use warikomi_inject::{Receiver, Warmup};
use warikomi_measure::{Repeat, RunResult, TimeBase, Warning, as_object, published};

use crate::{Error, Session};

pub use fit::Line;
use fit::middle;
pub use send::{CALLS, COUNTED, Call};

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
pub struct Cost {
    /// The figures.
    pub result: RunResult,
    /// The calls behind the send times: by frame length, of the repetition in the middle.
    pub calls: Vec<(usize, Vec<Call>)>,
    /// The figures of each repetition.
    pub repeats: Vec<Repeat>,
}

/// What one frame length costs, in nanoseconds a packet. What could not be measured soundly is
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Frame length in bytes.
    pub size_bytes: usize,
    /// Mean time to send, calls 1,000 to 2,000 of 3,000, while the driver polls.
    pub send_ns: Option<f64>,
    /// Half of these calls took no longer.
    pub send_p50_ns: Option<f64>,
    /// 99 of 100 took no longer.
    pub send_p99_ns: Option<f64>,
    /// The published mean.
    pub published_send_ns: Option<f64>,
    /// Mean time to send when the driver waits, so that its interrupt has to be signalled.
    pub send_signalled_ns: Option<f64>,
    /// What the saturated driver needs.
    pub receive_ns: Option<f64>,
    /// Of that, what grows with the length: copying.
    pub copy_ns: Option<f64>,
    /// The rest of it: processing.
    pub protocol_ns: Option<f64>,
    /// Copying by the functions that `perf` sampled.
    pub sampled_copy_ns: Option<f64>,
    /// The rest by these.
    pub sampled_protocol_ns: Option<f64>,
    /// What the saturated target needs until its application has the packet.
    pub end_to_end_ns: Option<f64>,
    /// Of that, what grows with the length.
    pub end_to_end_copy_ns: Option<f64>,
    /// The rest of it.
    pub end_to_end_protocol_ns: Option<f64>,
    /// The published time to copy.
    pub published_copy_ns: Option<f64>,
    /// The published time of protocol processing.
    pub published_protocol_ns: Option<f64>,
}

/// Packets while functions are sampled.
const SAMPLED_PACKETS: u64 = 500_000;

/// Lines and samples that differ by more than this share of the whole cost contradict each other.
const CONTRADICTION_SHARE: f64 = 0.25;

/// The figures of all repetitions for one frame length.
#[derive(Default)]
struct OfSize {
    send: Vec<send::Series>,
    signalled: Vec<send::Series>,
    driver_ns: Vec<f64>,
    end_to_end_ns: Vec<f64>,
    copy_share: Option<f64>,
}

/// Runs all of it on one session. `progress` is told steps done and in all.
pub fn cost(
    session: &mut Session,
    options: &CostOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Cost, Error> {
    let sizes = &options.sizes_bytes;
    let repeat = options.repeat.max(1);
    let steps = sizes.len() * (repeat as usize + usize::from(options.sampling));
    let mut of_sizes: Vec<OfSize> = sizes.iter().map(|_| OfSize::default()).collect();
    let mut step = 0;
    let mut repeats = Vec::new();
    let before = session.watch_cores();
    // In turns, because these machines change within minutes.
    for repeat in 1..=repeat {
        for (&size, of_size) in sizes.iter().zip(&mut of_sizes) {
            progress(step, steps);
            repeats.extend(once(session, size, repeat, of_size)?);
            step += 1;
        }
    }
    let mut warnings = Vec::new();
    if options.sampling {
        let sampled = sample(session, sizes, &mut of_sizes, &mut || {
            progress(step, steps);
            step += 1;
        });
        match sampled {
            Ok(()) => {}
            Err(NoSamples::Target(error)) => return Err(error.into()),
            Err(NoSamples::Perf(why)) => warnings.push(not_sampled(&why)),
        }
    }
    let machine = session.machine_since(&before);
    let mut result = RunResult::new("cost", TimeBase::Real, machine);
    result.target = session.info.clone();
    result.plan.insert("sizes_bytes".into(), sizes.clone().into());
    result.plan.insert("repeat".into(), repeat.into());
    result.plan.insert("sampling".into(), options.sampling.into());
    result.plan.insert("calls".into(), CALLS.into());
    result.warnings = warikomi_measure::warnings(&result, &warikomi_measure::Thresholds::default());
    result.warnings.extend(warnings);
    let calls = describe(&mut result, sizes, of_sizes, session.target.has_application());
    Ok(Cost { result, calls, repeats })
}

/// One repetition for one frame length.
fn once(
    session: &mut Session,
    size: usize,
    repeat: u32,
    of_size: &mut OfSize,
) -> Result<Vec<Repeat>, Error> {
    let send = send::polled(session, size)?;
    let signalled = send::signalled(session, size)?;
    let driver_ns = receive::driver_ns(session, size)?;
    let end_to_end_ns = receive::end_to_end_ns(session, size)?;
    let mean = |series: &Option<send::Series>| series.as_ref().map(|series| series.counted.mean);
    let figures = [
        ("send_ns", mean(&send)),
        ("send_signalled_ns", mean(&signalled)),
        ("receive_ns", driver_ns),
        ("end_to_end_ns", end_to_end_ns),
    ];
    of_size.send.extend(send);
    of_size.signalled.extend(signalled);
    of_size.driver_ns.extend(driver_ns);
    of_size.end_to_end_ns.extend(end_to_end_ns);
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let size_bytes = Some(size);
    Ok(known
        .map(|(name, value)| Repeat { figure: name.to_owned(), size_bytes, repeat, value })
        .collect())
}

fn sample(
    session: &mut Session,
    sizes: &[usize],
    of_sizes: &mut [OfSize],
    step: &mut dyn FnMut(),
) -> Result<(), NoSamples> {
    for (&size, of_size) in sizes.iter().zip(of_sizes) {
        step();
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
        of_size.copy_share = Some(samples.copy_share());
    }
    Ok(())
}

fn not_sampled(why: &str) -> Warning {
    Warning {
        what: format!("the target's functions were not sampled: {why}"),
        hint:
            "install perf (linux-perf), and allow it (kernel.perf_event_paranoid at 2 or lower, or \
               run as root), or leave sampling out (--no-sampling)"
                .to_owned(),
    }
}

/// Puts rows and figures into the result; returns the calls behind the send times.
fn describe(
    result: &mut RunResult,
    sizes: &[usize],
    of_sizes: Vec<OfSize>,
    application: bool,
) -> Vec<(usize, Vec<Call>)> {
    let mut calls = Vec::new();
    let mut rows = Vec::new();
    for (&size, of_size) in sizes.iter().zip(of_sizes) {
        let send = send::median(of_size.send);
        let signalled = send::median(of_size.signalled);
        let mut row = Row::published(size);
        row.send_ns = send.as_ref().map(|send| send.counted.mean);
        row.send_p50_ns = send.as_ref().map(|send| send.counted.p50);
        row.send_p99_ns = send.as_ref().map(|send| send.counted.p99);
        row.send_signalled_ns = signalled.map(|send| send.counted.mean);
        row.receive_ns = median(of_size.driver_ns);
        row.end_to_end_ns = median(of_size.end_to_end_ns);
        let sampled = row.receive_ns.zip(of_size.copy_share);
        row.sampled_copy_ns = sampled.map(|(whole, share)| whole * share);
        row.sampled_protocol_ns = sampled.map(|(whole, share)| whole * (1.0 - share));
        calls.push((size, send.map(|send| send.calls).unwrap_or_default()));
        rows.push(row);
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

/// Fits the lines through the rows (send, receive, end to end), and takes the costs of receiving
/// apart by theirs.
fn split(rows: &mut [Row]) -> [Option<Line>; 3] {
    let through = |of: fn(&Row) -> Option<f64>| {
        let point = |row: &Row| Some((row.size_bytes as f64, of(row)?));
        Line::through(&rows.iter().filter_map(point).collect::<Vec<_>>())
    };
    let fits = [
        through(|row| row.send_ns),
        through(|row| row.receive_ns),
        through(|row| row.end_to_end_ns),
    ];
    for row in rows {
        let parts = |whole: Option<f64>, line: Option<Line>| {
            let copy = line.map(|line| line.bytes_ns(row.size_bytes));
            // Where the line says more than the whole, or less than nothing, it says nothing.
            let parts = whole.zip(copy).filter(|(whole, copy)| (0.0..=*whole).contains(copy));
            parts.map(|(whole, copy)| (copy, whole - copy)).unzip()
        };
        let (driver, all) = (parts(row.receive_ns, fits[1]), parts(row.end_to_end_ns, fits[2]));
        (row.copy_ns, row.protocol_ns) = driver;
        (row.end_to_end_copy_ns, row.end_to_end_protocol_ns) = all;
    }
    fits
}

/// What is to be said against the rows.
fn remarks(rows: &[Row], fitted: bool, application: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut say = |what: String, hint: &str| warnings.push(Warning { what, hint: hint.to_owned() });
    let lengths = |which: fn(&Row) -> bool| {
        let lengths: Vec<_> =
            rows.iter().filter(|row| which(row)).map(|row| row.size_bytes.to_string()).collect();
        (!lengths.is_empty()).then(|| lengths.join(", "))
    };
    if !fitted {
        say(
            "with fewer than two lengths there is no line, and nothing to take the cost of receiving \
             apart with"
                .to_owned(),
            "give two or more --sizes, far apart",
        );
    }
    if let Some(lengths) = lengths(|row| row.send_ns.is_none()) {
        say(
            format!("of {lengths} bytes no packet that counts found a descriptor"),
            "repeat when nothing else runs on these cores",
        );
    }
    if let Some(lengths) = lengths(|row| row.receive_ns.is_none()) {
        say(
            format!("the driver was not saturated by frames of {lengths} bytes"),
            "the target is faster than the injection; there is no figure to be had",
        );
    }
    if let Some(lengths) = lengths(|row| row.end_to_end_ns.is_none()).filter(|_| application) {
        say(
            format!(
                "end to end there is no sound figure for {lengths} bytes: packets were lost behind \
                 the driver, or the target was not saturated"
            ),
            "repeat, with more --memory if it happens again",
        );
    }
    if let Some(lengths) = lengths(is_off_the_line).filter(|_| fitted) {
        say(
            format!(
                "the line through the costs does not fit at {lengths} bytes: it says more than the \
                 whole for the bytes alone, and there the whole is not taken apart"
            ),
            "repeat with more --repeat when nothing else runs; if it stays so, the cost does not grow \
             evenly, and lengths nearer to each other (--sizes) say more",
        );
    }
    if let Some(lengths) = lengths(contradicts) {
        say(
            format!(
                "the two ways to tell copying differ by more than {}% of the cost, at {lengths} bytes",
                100.0 * CONTRADICTION_SHARE
            ),
            "believe the samples for the share of the copying functions, and the line for what a \
             longer frame costs in all (caches and allocation grow with it, too)",
        );
    }
    warnings
}

fn is_off_the_line(row: &Row) -> bool {
    let apart = |whole: Option<f64>, copy: Option<f64>| whole.is_some() && copy.is_none();
    apart(row.receive_ns, row.copy_ns) || apart(row.end_to_end_ns, row.end_to_end_copy_ns)
}

fn contradicts(row: &Row) -> bool {
    let figures = row.copy_ns.zip(row.sampled_copy_ns).zip(row.receive_ns);
    figures.is_some_and(|((line, samples), whole)| {
        (line - samples).abs() > CONTRADICTION_SHARE * whole
    })
}

impl Row {
    fn published(size_bytes: usize) -> Row {
        let published = published::injection();
        let breakdown = published.receive_breakdown(size_bytes);
        Row {
            size_bytes,
            published_send_ns: published.send_ns(size_bytes),
            published_copy_ns: breakdown.map(|parts| parts.copy_us * 1e3),
            published_protocol_ns: breakdown.map(|parts| parts.protocol_us * 1e3),
            ..Row::default()
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    middle(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |size: usize| Row {
            receive_ns: Some(400.0 + 0.2 * size as f64),
            sampled_copy_ns: Some(0.2 * size as f64),
            send_ns: Some(100.0),
            end_to_end_ns: Some(2_000.0 + 0.5 * size as f64),
            ..Row::published(size)
        };
        [1_024, 1_500, 8_192].map(row).into()
    }

    #[test]
    fn what_grows_with_the_length_is_copying_and_the_parts_are_the_whole() {
        let mut rows = rows();
        let [send, receive, _] = split(&mut rows);
        assert!(send.unwrap().ns_per_byte.abs() < 1e-9);
        assert!((receive.unwrap().fixed_ns - 400.0).abs() < 1e-6);
        for row in &rows {
            let (copy, protocol) = (row.copy_ns.unwrap(), row.protocol_ns.unwrap());
            assert!((copy - 0.2 * row.size_bytes as f64).abs() < 1e-6);
            assert!((copy + protocol - row.receive_ns.unwrap()).abs() < 1e-9);
            assert!((row.end_to_end_protocol_ns.unwrap() - 2_000.0).abs() < 1e-6);
        }
        assert_eq!(rows[1].published_copy_ns, Some(272.0));
        assert_eq!(remarks(&rows, true, true), []);
    }

    #[test]
    fn where_the_line_says_more_than_the_whole_nothing_is_taken_apart() {
        let mut rows = rows();
        rows[1].end_to_end_ns = Some(10.0);
        split(&mut rows);
        assert_eq!((rows[1].end_to_end_copy_ns, rows[1].end_to_end_protocol_ns), (None, None));
        assert!(rows[1].copy_ns.is_some() && rows[0].end_to_end_copy_ns.is_some());
        let said = remarks(&rows, true, true);
        assert!(said.len() == 1 && said[0].what.contains("does not fit at 1500 bytes"), "{said:?}");
    }

    #[test]
    fn what_contradicts_or_is_missing_is_said() {
        let mut rows = rows();
        rows[0].receive_ns = None;
        split(&mut rows);
        rows[2].sampled_copy_ns = Some(0.0);
        rows[1].end_to_end_ns = None;
        let said: Vec<String> =
            remarks(&rows, true, true).into_iter().map(|each| each.what).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("saturated by frames of 1024 bytes"), "{said:?}");
        assert!(said[1].contains("for 1500 bytes") && said[2].contains("at 8192 bytes"));
        assert!(rows[0].copy_ns.is_none() && rows[0].protocol_ns.is_none());
    }

    #[test]
    fn medians_are_of_what_there_is() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!((median(vec![2.0, 1.0]), median(vec![])), (Some(1.0), None));
    }
}

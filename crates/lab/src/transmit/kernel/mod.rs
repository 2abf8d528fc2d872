//! Sending in a real kernel, by its unmodified driver.
//!
//! Three senders: the kernel's packet generator, which hands frames to the driver and nothing else; an
//! application with a UDP socket; and one that writes to a TCP connection, because segmentation offload is
//! for TCP alone (r8169 has none for UDP). Every frame is judged by the wire ([`JudgingHost`]): what it saw
//! is what the sender says that it sent, or there is no result.

pub(super) mod columns;
mod judge;
mod options;
mod row;
mod send;

use std::time::Duration;

use serde_json::Value;
use warikomi_clock::Span;
use warikomi_measure::{CpuTime, RunResult, Thresholds, table, warnings};
use warikomi_nic::FunctionCounters;
use warikomi_protocol::commands::Configure;
use warikomi_session::Session;
use warikomi_sim::history::digest_of;
use warikomi_target::{CardId, TargetError};
use warikomi_wire::peer::in_turn::Expected;

use self::options::Case;
use self::row::Outcome;
use crate::error::Error;
use crate::inject::{run_id, time_base};
use crate::watch::Watch;

pub use judge::{Judge, JudgingHost};
pub use options::{Completion, Options, Sender};
pub use row::Row;

/// A warm-up has this part of a run's messages.
const WARMUP_PART: u64 = 10;
/// How long what the guest has sent may take to the wire.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);
/// Interrupts of a run whose times are kept.
const LOGGED_INTERRUPTS: usize = 65_536;
/// Time between two notes of the guest's processor time: as well is known when the system has counted it.
const NOTE_CPU_EVERY: Span = Span::from_us(100);
/// Time between two looks meanwhile, and for the last interrupts.
const LOOK: Duration = Duration::from_millis(2);

/// What came of a comparison.
pub struct Transmitted {
    /// The figures; a row for each sender with each of its parameters.
    pub result: RunResult,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Compares senders on one session that is cabled to `judge`'s host, in rounds, so that what changes in the
/// machine meets all rows. Each case in each round is a step.
pub fn transmit(
    session: &mut Session,
    judge: &Judge,
    options: &Options,
    watch: &mut Watch,
) -> Result<Transmitted, Error> {
    let cases = cases(session, options)?;
    let turns = cases.repeat(options.repeat);
    let made = watch.each(&turns, Case::to_string, |case, watch| {
        let before = session.watch_cores();
        let made = match prepare(session, case)? {
            Ok(()) => Ok(measure(session, judge, options, case)?),
            Err(reason) => Err(reason),
        };
        watch.saw(session, &before);
        Ok(made)
    })?;
    let row = |(number, case)| Row::of(case, made.iter().skip(number).step_by(cases.len()));
    let rows: Vec<Row> = cases.iter().enumerate().map(row).collect();
    let (mut target, machine) = watch.seen();
    // It is different in each row.
    target.settings.remove("coalesce");
    let time = time_base(session);
    let mut result = table("transmit", time, machine, target, options, &rows);
    result.warnings = warnings(&result, &Thresholds::default());
    result.warnings.extend(row::sent_again(&rows));
    Ok(Transmitted { result, rows })
}

/// The rows that there are on this session.
fn cases(session: &Session, options: &Options) -> Result<Vec<Case>, Error> {
    let mtu_bytes = session.info.settings.get("mtu_bytes").and_then(Value::as_u64);
    options.cases(mtu_bytes.and_then(|mtu| mtu.try_into().ok()).unwrap_or(0))
}

/// Has each row's messages sent once, without a step of its own for it; how many messages came to the wire, and a digest of
/// what came of them.
pub(crate) fn send_once(
    session: &mut Session,
    judge: &Judge,
    options: &Options,
) -> Result<(u64, String), Error> {
    let (mut messages, mut digests) = (0, Vec::new());
    for case in cases(session, options)? {
        if prepare(session, &case)?.is_ok() {
            let outcome = measure(session, judge, options, &case)?;
            messages += outcome.messages;
            digests.push(format!("{case}: {outcome:?}"));
        }
    }
    Ok((messages, digest_of(digests.iter().map(String::as_str))))
}

/// Sets the guest up for a case. The inner error is the guest's reason why it cannot be had.
fn prepare(session: &mut Session, case: &Case) -> Result<Result<(), String>, TargetError> {
    // Scatter/gather and checksums are always on, so that TSO alone makes the difference.
    let offloads = [("sg", true), ("tx", true), ("tso", case.tso.unwrap_or(false))];
    let configure = Configure {
        coalesce: Some(case.completion.coalesce()),
        offloads: offloads.map(|(name, on)| (name.to_owned(), on)).into(),
        ..Configure::report_only()
    };
    match session.target.ask(configure, Duration::ZERO) {
        Ok(_) => Ok(Ok(())),
        Err(TargetError::Refused { message, .. }) => Ok(Err(message)),
        Err(other) => Err(other),
    }
}

/// Lets the guest send a case's messages, after some that do not count.
fn measure(
    session: &mut Session,
    judge: &Judge,
    options: &Options,
    case: &Case,
) -> Result<Outcome, Error> {
    let count = options.messages(case.size_bytes);
    run(session, judge, options, case, count.div_ceil(WARMUP_PART))?;
    run(session, judge, options, case, count)
}

/// Lets the guest send so many messages, and insists that the wire has seen just these.
fn run(
    session: &mut Session,
    judge: &Judge,
    options: &Options,
    case: &Case,
    count: u64,
) -> Result<Outcome, Error> {
    let wrong = |what| Error::Wrong { row: case.to_string(), what };
    let run_id = run_id(&*session.target);
    let payload_bytes = case.size_bytes;
    let expected = match case.sender {
        Sender::Pktgen => Expected::Pktgen { payload_bytes },
        Sender::Udp => Expected::Udp { run_id, payload_bytes },
        Sender::Tcp => Expected::Tcp,
    };
    let clock = session.target.clock();
    let of_guest = || CpuTime::of(session.target.process_id(), clock, NOTE_CPU_EVERY);
    // In virtual time the processor has no share in what takes how long.
    let cpu = (!clock.is_virtual()).then(of_guest).transpose();
    judge.begin(expected, cpu.map_err(Error::CpuTime)?);
    session.target.card(CardId::FIRST)?.0.probe().restart(LOGGED_INTERRUPTS);
    let (before, received_before) =
        (session.target.card(CardId::FIRST)?.0.counters(), judge.received());
    let messages = send::send(&mut *session.target, options, case, count, run_id)?;
    let (sent, unit) = match case.sender {
        Sender::Tcp => (messages * u64::from(payload_bytes), "bytes"),
        Sender::Pktgen | Sender::Udp => (messages, "messages"),
    };
    let arrived = |judge: &Judge| match case.sender {
        Sender::Tcp => judge.received().bytes - received_before.bytes,
        Sender::Pktgen | Sender::Udp => judge.seen().messages,
    };
    for _ in 0..LONGEST_DRAIN.as_millis() / LOOK.as_millis() {
        if arrived(judge) >= sent {
            break;
        }
        session.target.serve_for(LOOK)?;
    }
    // The interrupt of the last ones.
    session.target.serve_for(LOOK)?;
    let seen = judge.seen();
    if let Some(what) = &seen.wrong {
        return Err(wrong(what.clone()));
    }
    let came = arrived(judge);
    if came != sent {
        return Err(wrong(format!("of {sent} {unit} sent, {came} came to the wire")));
    }
    let wrong_bytes = judge.received().wrong_bytes - received_before.wrong_bytes;
    if wrong_bytes > 0 {
        return Err(wrong(format!("of {sent} bytes sent, {wrong_bytes} are not what was sent")));
    }
    if clock.is_virtual() && seen.sent_again > 0 {
        // Nothing is late there, so the kernel has no reason of its own.
        return Err(wrong(format!("{} frames were sent again", seen.sent_again)));
    }
    let (nic, _) = session.target.card(CardId::FIRST)?;
    let counted = since(nic.counters(), &before);
    let interrupts = nic.probe().take_records();
    Ok(Outcome::of(messages, &seen, judge.cpu_share(), &counted, &interrupts))
}

fn since(now: FunctionCounters, before: &FunctionCounters) -> FunctionCounters {
    FunctionCounters {
        doorbells: now.doorbells - before.doorbells,
        interrupts: now.interrupts - before.interrupts,
        tx_descriptors: now.tx_descriptors - before.tx_descriptors,
        ..FunctionCounters::default()
    }
}

//! Inject what was recorded before, or captured from real traffic.
//!
//! A trace is replayed with its own packets: an application in the guest recognises them, if they were
//! meant for one and are all there. The application in the guest does not know frames of a
//! capture, so for them the account ends at the driver, whatever the guest's stack makes of them.

mod columns;
mod flags;
mod load;
mod until;

use std::rc::Rc;

use warikomi_clock::Span;
use warikomi_inject::{Arrival, Plan, Receiver, Schedule};
use warikomi_measure::{Fate, RunResult, Warning};
use warikomi_session::Session;
use warikomi_target::CardId;
use warikomi_trace::{Comparison, Header, Reader, Tape};
use warikomi_wire::WireKind;

use crate::error::Error;
use crate::inject::{Application, Injected, Order, inject_from};
use crate::record::{describe, header, interval_error};
use crate::watch::Progress;

pub use flags::Replay;
pub use load::{Origin, Replayable, load};

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Leave the frames' destination addresses as they are, and do not address them to the guest's NIC.
    pub keep_addresses: bool,
    /// What the application in the guest is given, if there is one.
    pub application: Application,
}

/// What came of a replay.
pub struct Replayed {
    /// The run.
    pub injected: Injected,
    /// How the driver behaved, against the recording; `None` for a capture.
    pub comparison: Option<Comparison>,
    /// The trace of the replay itself, as a file has it; empty for a capture.
    pub trace: Vec<u8>,
}

/// Replays on a session that is up; `run_id` is for packets of the warm-up, and for a capture. A trace
/// is recorded again, so that the two can be compared.
pub fn replay(
    session: &mut Session,
    replayable: Replayable,
    options: ReplayOptions,
    wire: &WireKind,
    run_id: u32,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Replayed, Error> {
    let receiver = replayable.receiver();
    let Replayable { mut schedule, origin, speed, mut remarks } = replayable;
    if !options.keep_addresses {
        let card = session.target.card(CardId::FIRST)?;
        schedule.readdress(card.0.mac_address());
    }
    let recorded = origin.header();
    let run_id = recorded.map_or(run_id, |header| header.run_id);
    let mut plan = plan_for((&schedule, receiver), recorded, speed);
    if plan.receiver == Receiver::Application && !session.target.has_application() {
        plan.receiver = Receiver::Driver;
        remarks.push(no_application());
    }
    let sizes: Vec<u64> = schedule.sizes_bytes().collect();
    let tape = recorded.map(|_| {
        let numbered = schedule.is_run(run_id) && plan.flows == 1;
        let literal = if numbered { 0 } else { schedule.total_bytes() };
        Rc::new(Tape::for_packets(plan.count, literal))
    });
    let order =
        Order { plan: &plan, application: options.application, run_id, tape: tape.as_ref() };
    let source = |_: &_, start| Ok(schedule.from(start));
    let mut injected = inject_from(session, &order, source, progress)?;
    correct(&mut injected, &sizes, &plan);
    injected.result.plan.insert("arrival".into(), origin.name().into());
    injected.result.plan.insert("speed".into(), speed.into());
    injected.result.warnings.extend(remarks);
    let (mut comparison, mut trace) = (None, Vec::new());
    if let (Some(tape), Origin::Trace { behaviour, header: from }) = (&tape, &origin) {
        describe(&mut injected, tape);
        let header = header(session, run_id, wire, from.plan.clone())?;
        tape.write_to(&header, &mut trace).map_err(Error::Recording)?;
        let found = behaviour.compare(Reader::new(&trace[..])?)?;
        tell(&found, &mut injected.result);
        comparison = Some(found);
    } else {
        injected.result.figures.extend(interval_error(&injected.ledger));
    }
    Ok(Replayed { injected, comparison, trace })
}

/// A plan that says about a schedule what a plan can say. Its packets are not those of the plan.
fn plan_for(
    (schedule, receiver): (&Schedule, Receiver),
    recorded: Option<&Header>,
    speed: f64,
) -> Plan {
    let count = schedule.arrivals().len() as u64;
    let was = recorded.and_then(|header| header.plan.clone()).unwrap_or_default();
    let bursts = count.div_ceil(u64::from(was.packets_per_interrupt));
    let mean = schedule.duration() / bursts.saturating_sub(1).max(1);
    // "Poisson" has no single interval either against which one could judge. A recorded plan may
    // have.
    let constant = recorded.and(was.comparable_interval());
    let interval =
        constant.map_or(mean, |span| Span::from_ps((span.as_ps() as f64 / speed) as u64));
    Plan {
        size_bytes: schedule.longest_frame_bytes(),
        interval: interval.max(Span::from_ps(1)),
        count,
        receiver,
        arrival: if constant.is_some() { Arrival::Constant } else { Arrival::Poisson },
        line_rate_bps: None,
        ..was
    }
}

fn no_application() -> Warning {
    Warning {
        what:
            "the packets were meant for an application, and this target has none above its driver"
                .into(),
        hint: "their account ends at the driver".into(),
    }
}

/// Counts the bytes of frames that are not all of one length.
fn correct(injected: &mut Injected, sizes: &[u64], plan: &Plan) {
    let result = &mut injected.result;
    "replay".clone_into(&mut result.experiment);
    if let Some(bps) = &mut result.throughput_bps {
        let taken = |fate| matches!(fate, Fate::Unclaimed | Fate::LostInStack | Fate::Delivered);
        let rows = injected.ledger.rows().zip(sizes);
        let bytes: u64 = rows.filter(|(row, _)| taken(row.fate)).map(|(_, size)| size).sum();
        let assumed = result.ledger.map_or(0, |totals| totals.accepted) * plan.size_bytes as u64;
        *bps = if assumed == 0 { 0.0 } else { *bps * bytes as f64 / assumed as f64 };
    }
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64;
    result.plan.insert("size_bytes".into(), (mean.round() as u64).into());
    result.plan.insert("longest_bytes".into(), plan.size_bytes.into());
}

fn tell(found: &Comparison, result: &mut RunResult) {
    let figures = &mut result.figures;
    figures.insert("arrivals_replayed".into(), found.arrivals.into());
    figures.insert("arrivals_different".into(), found.different_arrivals.into());
    figures.insert("outcomes_different".into(), found.different_outcomes.into());
    figures.insert("steps_never_recorded".into(), found.new_steps.into());
    let first = found.first.as_ref().map(ToString::to_string);
    figures.insert("first_difference".into(), first.into());
}

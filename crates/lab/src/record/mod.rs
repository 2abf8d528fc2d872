//! Inject, and record what happens at the device's edge.

mod accuracy;
mod export;
mod flags;

use std::io::{self, Write};
use std::rc::Rc;

use serde_json::{Map, Value};
use warikomi_inject::Plan;
use warikomi_measure::{RunResult, Warning};
use warikomi_session::Session;
use warikomi_target::CardId;
use warikomi_trace::{Header, Tape};
use warikomi_wire::WireKind;

use crate::error::Error;
use crate::inject::{Application, Injected, Order, inject_plan};
use crate::watch::Progress;

pub(crate) use accuracy::interval_error;
pub use export::{FormatName, NotExported, write_export};
pub use flags::{Record, TRACE};

/// What came of a recorded run.
pub struct Recording {
    /// The run itself.
    pub injected: Injected,
    /// What happened at the device's edge.
    pub trace: Trace,
}

/// A trace that can be written.
pub struct Trace {
    header: Header,
    tape: Rc<Tape>,
}

impl Trace {
    /// Writes it, as a [`Reader`](warikomi_trace::Reader) reads it.
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<()> {
        self.tape.write_to(&self.header, to)
    }
}

/// Carries `plan` out as [`inject`](crate::inject::inject) does, and records from the first packet
/// until the driver has taken the last. The warm-up is not recorded. `wire` is what the NIC is cabled
/// to; a replay needs it.
pub fn record(
    session: &mut Session,
    plan: &Plan,
    application: Application,
    run_id: u32,
    wire: &WireKind,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Recording, Error> {
    // Frames of several flows do not differ in their sequence number alone.
    let literal = if plan.flows == 1 { 0 } else { plan.count * plan.size_bytes as u64 };
    let tape = Rc::new(Tape::for_packets(plan.count, literal));
    let order = Order { plan, application, run_id, tape: Some(&tape) };
    let mut injected = inject_plan(session, &order, progress)?;
    "record".clone_into(&mut injected.result.experiment);
    let header = header(session, run_id, wire, Some(plan.clone()))?;
    describe(&mut injected, &tape);
    Ok(Recording { injected, trace: Trace { header, tape } })
}

pub(crate) fn header(
    session: &mut Session,
    run_id: u32,
    wire: &WireKind,
    plan: Option<Plan>,
) -> Result<Header, Error> {
    Ok(Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        driver: session.info.driver.clone(),
        model: session.info.model.clone(),
        kernel: session.info.kernel.clone(),
        mac: session.target.card(CardId::FIRST)?.0.mac_address(),
        run_id,
        wire: wire.to_string(),
        plan,
    })
}

/// Adds what is to be said about the trace, and how well the times were kept.
pub(crate) fn describe(injected: &mut Injected, tape: &Tape) {
    let error = interval_error(&injected.ledger);
    let RunResult { figures, warnings, .. } = &mut injected.result;
    figures.extend(trace_figures(tape));
    figures.extend(error);
    if tape.dropped() > 0 {
        let what = format!(
            "the trace is full: it has the first {} events of the run, and the last {} are missing",
            tape.events(),
            tape.dropped()
        );
        warnings.push(Warning { what, hint: "record fewer packets in one run".into() });
    }
}

/// Events in a trace, its bytes, and bytes per event.
pub(crate) fn trace_figures(tape: &Tape) -> Map<String, Value> {
    let (events, bytes) = (tape.events(), tape.bytes());
    let mut figures = Map::new();
    figures.insert("trace_events".into(), events.into());
    figures.insert("trace_bytes".into(), bytes.into());
    if events > 0 {
        figures.insert("trace_bytes_per_event".into(), (bytes as f64 / events as f64).into());
    }
    figures
}

//! `warikomi replay`.

use std::path::PathBuf;

use clap::Args;
use warikomi_clock::Span;
use warikomi_inject::Receiver;
use warikomi_measure::RunResult;
use warikomi_session::{TargetArguments, Usual, VirtualArguments};
use warikomi_wire::WireKind;

use super::columns;
use super::load::{Origin, Replayable, load};
use super::until::UntilArguments;
use super::{ReplayOptions, Replayed, replay};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::inject::{Application, run_id};
use crate::record::TRACE;
use crate::watch::{Progress, Watch};

/// Gives the packets of a trace (trace.wkt of `warikomi record`) or of real traffic (pcap, pcapng) to
/// a driver, in their order, at the times at which they came, and accounts for each.
///
/// A trace goes to the same or any other driver or kernel. The result says where the driver first
/// behaved differently from the recording: a packet with another outcome at the NIC, or a step from one
/// register access to the next that it never took there. How often it polls, and how many packets share
/// an interrupt, depends on time and is not compared.
///
/// Frames of a capture are addressed to the guest's NIC, and the driver is where their account ends.
/// They keep their own times, to the nanosecond if the file has them.
#[derive(Args)]
pub struct Replay {
    /// A trace, a pcap or a pcapng file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many times as fast as it was: 0.001 to 1000
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Leave destination addresses as they are: the NIC then filters what is not for it
    #[arg(long)]
    keep_addresses: bool,
    /// Fail (exit status 1) if the driver behaves differently from the recording
    #[arg(long)]
    expect_same: bool,
    /// The socket's receive buffer of the application that receives, in bytes [default: 16777216]
    #[arg(long, value_name = "BYTES")]
    socket_buffer: Option<u32>,
    /// What the NIC is cabled to [default: as in the recording; sink for a capture]
    #[arg(long)]
    wire: Option<WireKind>,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    time: VirtualArguments,
    #[command(flatten)]
    until: UntilArguments,
}

impl Experiment for Replay {
    const NAME: &'static str = "replay";
    const ABOUT: &'static str =
        "Inject what was recorded, or real traffic from a pcap or pcapng file";

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let replayable = load(&self.file, self.speed)
            .map_err(|error| Error::NoReplay { path: self.file.clone(), error: Box::new(error) })?;
        if self.expect_same && matches!(replayable.origin, Origin::Capture(_)) {
            return Err(Error::impossible(
                "--expect-same needs a trace: a capture does not say what a driver did",
            ));
        }
        let receiver = self.receiver(&replayable);
        let application = Application::default().asked(self.socket_buffer, receiver)?;
        let kind = self.wire(&replayable);
        let mut prepared = self.target.prepare_at(Usual::Packets, &self.time, 1)?;
        if !was_as_fast_as_possible(&replayable) {
            prepared.defer_nothing();
        }
        self.until.check(&prepared)?;
        let mut session = watch.start(&prepared, &kind)?;
        let until = self.until.begin(&mut session, &prepared)?;
        let options = ReplayOptions { keep_addresses: self.keep_addresses, application };
        let run_id = run_id(&*session.target);
        // What gdb has on the terminal is not written over.
        let show = &mut |progress: Progress<'_>| match &until {
            Some(until) if until.is_in_gdb() => {}
            _ => watch.tell(progress),
        };
        let mut replayed = replay(&mut session, replayable, options, &kind, run_id, show)?;
        if let Some(until) = until {
            until.end(&mut session, &mut replayed.injected.result)?;
        }
        session.stop()?;
        Ok(self.conclude(replayed))
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl Replay {
    fn conclude(&self, replayed: Replayed) -> Conclusion {
        let Replayed { injected, comparison, trace } = replayed;
        let different = comparison.is_some_and(|comparison| comparison.first.is_some());
        let mut conclusion = injected.conclude();
        if !trace.is_empty() {
            conclusion = conclusion.with_file(TRACE, move |file| file.write_all(&trace));
        }
        if self.expect_same && different {
            conclusion.failed.get_or_insert(Error::Different);
        }
        conclusion
    }

    fn receiver(&self, replayable: &Replayable) -> Receiver {
        match self.target.receiver() {
            Receiver::Application => replayable.receiver(),
            other => other,
        }
    }

    fn wire(&self, replayable: &Replayable) -> WireKind {
        let recorded = || replayable.origin.header().and_then(|header| header.wire_kind());
        self.wire.clone().or_else(recorded).unwrap_or(WireKind::Sink)
    }
}

/// Settings are to be those of the recording.
fn was_as_fast_as_possible(replayable: &Replayable) -> bool {
    let plan = replayable.origin.header().and_then(|header| header.plan.as_ref());
    plan.is_some_and(|plan| plan.spacing() == Span::ZERO)
}

//! `warikomi record`.

use std::io;

use clap::Args;
use warikomi_measure::RunResult;

use super::export::{FormatName, NotExported, write_export};
use super::{Recording, record};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::inject::{Inject, Ordered};
use crate::watch::Watch;

/// Does what `warikomi inject` does, and records from the first packet until the driver has taken the
/// last what happens at the device's edge: register accesses, interrupts, DMA and frames, each with
/// its time. The trace is trace.wkt in the run's directory.
///
/// Replay it with `warikomi replay`, look at it with `warikomi export`.
#[derive(Args)]
#[group(skip)]
pub struct Record {
    #[command(flatten)]
    inject: Inject,
    /// Export the trace into the run's directory as well: trace.pcapng for Wireshark, trace.json for
    /// ui.perfetto.dev; may be repeated
    #[arg(long, value_enum, value_name = "FORMAT")]
    export: Vec<FormatName>,
}

/// The trace's name in a run's directory.
pub const TRACE: &str = "trace.wkt";

impl Experiment for Record {
    const NAME: &'static str = "record";
    const ABOUT: &'static str = "Inject, and record all that happens at the device's edge";

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        if self.inject.strict.strict.is_some() {
            return Err(Error::impossible(
                "--strict is for inject: a strict card looks at all of its descriptors, and a trace would be \
                 full of that",
            ));
        }
        if let Some(flag) = self.inject.second_given().first() {
            return Err(Error::impossible(format!(
                "{flag} is for inject: a trace is of one card; leave it out"
            )));
        }
        self.inject.carry_out(watch, |session, order, show| {
            let Ordered { plan, application, run_id } = order;
            let recording = record(session, plan, application, run_id, &self.inject.wire, show)?;
            let Recording { injected, trace } = recording;
            let conclusion = injected.conclude().with_file(TRACE, move |file| trace.write_to(file));
            Ok(self.export.iter().fold(conclusion, with_export))
        })
    }

    fn describe(result: &mut RunResult) {
        Inject::describe(result);
    }
}

/// With the trace, which is in the directory by then, in another form.
fn with_export(conclusion: Conclusion, &format: &FormatName) -> Conclusion {
    conclusion.with(move |directory| {
        let trace = directory.path().join(TRACE);
        directory.write(&format!("trace.{}", format.extension()), |file| {
            match write_export(&trace, format, file) {
                Ok(_) => Ok(()),
                Err(NotExported::Write(error)) => Err(error),
                Err(damaged) => Err(io::Error::other(damaged)),
            }
        })
    })
}

//! `warikomi replace --target kernel`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use warikomi_clock::{Seed, Span};
use warikomi_lab::replace::Load;
use warikomi_lab::replace::kernel::{Options, Traffic, replace};

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use warikomi_session::TargetArguments;

/// What a kernel has a use for; `None` and nothing for what is usual.
pub(crate) struct Asked<'a> {
    pub(crate) target: &'a TargetArguments,
    pub(crate) loads: &'a [Load],
    pub(crate) trials: Option<u64>,
    pub(crate) interval: Option<Span>,
    pub(crate) frame_bytes: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) runs: &'a Path,
    pub(crate) json: bool,
}

impl Asked<'_> {
    fn options(&self) -> Result<Options> {
        let usual = Options::default();
        let trials = self.trials.map_or(Ok(usual.trials), u32::try_from);
        ensure!(trials.is_ok(), "so many trials take years; give fewer");
        Ok(Options {
            loads: if self.loads.is_empty() { usual.loads } else { self.loads.to_vec() },
            trials: trials.unwrap_or_default(),
            interval: self.interval.unwrap_or(usual.interval),
            frame_bytes: self.frame_bytes.unwrap_or(usual.frame_bytes),
            seed: self.seed.map_or(usual.seed, Seed),
            ..usual
        })
    }

    pub(crate) fn run(&self, invocation: &Invocation) -> Result<ExitCode> {
        let options = self.options()?;
        let prepared = self.target.prepare()?;
        let Some(brought_up) = prepared.kernel() else { anyhow::bail!("this is no kernel") };
        let (host, traffic) = Traffic::with_host();
        let bar = Cleared::over_rows();
        let mut session = prepared.start(Box::new(host), &invocation.interrupted, &mut |_| ())?;
        let mut result = replace(&mut session, brought_up, &traffic, &options, &mut |progress| {
            bar.show(progress.done as usize, progress.all as usize, progress.load.name());
        })?;
        session.stop()?;
        drop(bar);
        output::describe_and_print(&mut result, self.json);
        let directory = invocation.new_run(self.runs, "replace")?;
        directory.write_result(&result)?;
        eprintln!("kept in {}", directory.path().display());
        Ok(ExitCode::SUCCESS)
    }
}

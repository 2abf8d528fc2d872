//! Runs any experiment: its flags, its bar, its directory, what is printed of it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use warikomi_lab::{Entry, NewRun, Progress, Watch};

use crate::invocation::Invocation;
use crate::output::{self, Cleared};

// What every experiment has besides its own flags. No doc comment: clap would take it for the help's.
#[derive(Args)]
struct KeepArguments {
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Go on with a run that was stopped, from its directory: steps that it has made are not made again
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The subcommand of an experiment.
pub(crate) fn command(entry: &Entry) -> Command {
    // First of all that the command's help lists.
    KeepArguments::augment_args((entry.command)()).display_order(0)
}

/// Carries an experiment out, prints what came of it and keeps it.
pub(crate) fn run(
    entry: &Entry,
    matches: &ArgMatches,
    invocation: &Invocation,
) -> Result<ExitCode> {
    let keep = KeepArguments::from_arg_matches(matches)?;
    let experiment = (entry.read)(matches)?;
    let bar = Cleared::over_rows();
    let mut watch = watch(entry, &keep, invocation, &bar)?;
    let found = experiment(&mut watch);
    drop(bar);
    let mut conclusion = match (found, watch.directory()) {
        (Err(error), Some(kept)) => {
            let (name, path) = (entry.name, kept.path().display());
            return Err(error).context(format!(
                "the steps so far are in {path}; go on with: warikomi {name} --resume {path}"
            ));
        }
        (found, _) => found?,
    };

    // First to the user: a disk may be full.
    (entry.describe)(&mut conclusion.result);
    conclusion.result.layout.settle();
    output::print(&conclusion.result, keep.json);
    let directory = watch.end()?;
    let failed = conclusion.failed.take();
    conclusion.keep(&directory)?;
    eprintln!("kept in {}", directory.path().display());
    match failed {
        Some(error) => Err(error.into()),
        None if invocation.interrupted.is_set() => Ok(ExitCode::from(output::EXIT_INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn watch(
    entry: &Entry,
    keep: &KeepArguments,
    invocation: &Invocation,
    bar: &Cleared,
) -> Result<Watch> {
    let interrupted = invocation.interrupted.clone();
    let bar = bar.0.clone();
    let show = Box::new(move |progress: Progress<'_>| {
        if progress.all > 0 {
            bar.set_length(progress.all);
            bar.set_position(progress.done);
        }
        bar.set_message(progress.at_work.to_owned());
        bar.tick();
    });
    if let Some(directory) = &keep.resume {
        let watch = Watch::of_resumed_run(interrupted, show, directory)?;
        eprintln!("going on after {} steps", watch.earlier_steps());
        return Ok(watch);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let run = NewRun {
        runs: keep.runs.clone(),
        name: entry.name.to_owned(),
        now_s: now.as_secs(),
        plan: invocation.plan.clone().unwrap_or_default(),
    };
    Ok(Watch::of_new_run(interrupted, show, run))
}

//! Runs any experiment: its flags, its bar, its directory, what is printed of it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use warikomi_lab::{Conclusion, Entry, Error, NewRun, Progress, ShardDirectory, Watch};
use warikomi_measure::{MadeShard, RunResult, Shard};

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
    /// Make the cases I, I + N, I + 2N and so on alone, on one of several machines; `warikomi merge` makes one
    /// result of all N shards
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The subcommand of an experiment.
pub(crate) fn command(entry: &Entry) -> Command {
    // What must be given is in the plan of a run that goes on.
    let command = (entry.command)().mut_args(|argument| match argument.is_required_set() {
        true => argument.required(false).required_unless_present("resume"),
        false => argument,
    });
    // One that has no shards has the flag all the same, hidden, so that it can say why it refuses it.
    let hide = |argument: clap::Arg| argument.hide(!entry.shards);
    // First of all that the command's help lists.
    KeepArguments::augment_args(command).mut_arg("shard", hide).display_order(0)
}

/// Carries an experiment out, prints what came of it and keeps it.
pub(crate) fn run(
    entry: &Entry,
    matches: &ArgMatches,
    invocation: &Invocation,
) -> Result<ExitCode> {
    let keep = KeepArguments::from_arg_matches(matches)?;
    ensure!(
        keep.shard.is_none() || entry.shards,
        "{} cannot be made in shards: it has one case, or cases that depend on each other; run it as a whole",
        entry.name
    );
    let bar = Cleared::over_rows();
    let (interrupted, show) = (invocation.interrupted.clone(), show(&bar));
    let watch = match &keep.resume {
        Some(directory) => {
            let watch = Watch::of_resumed_run(interrupted, show, directory)?;
            eprintln!("going on after {} steps", watch.earlier_steps());
            watch
        }
        None => Watch::of_new_run(interrupted, show, new_run(entry, &keep, invocation)),
    };
    carry_out(entry, matches, invocation, watch.with_shard(keep.shard), bar)
}

/// Makes the result of a run whose steps were all made by its shards.
pub(crate) fn merge(
    entry: &Entry,
    matches: &ArgMatches,
    invocation: &Invocation,
    shards: Vec<ShardDirectory>,
) -> Result<ExitCode> {
    let keep = KeepArguments::from_arg_matches(matches)?;
    ensure!(entry.shards, "{} cannot be made in shards", entry.name);
    let bar = Cleared::over_rows();
    let (interrupted, show) = (invocation.interrupted.clone(), show(&bar));
    let run = new_run(entry, &keep, invocation);
    let watch = Watch::of_merged_run(interrupted, show, run, shards)?;
    carry_out(entry, matches, invocation, watch, bar)
}

fn carry_out(
    entry: &Entry,
    matches: &ArgMatches,
    invocation: &Invocation,
    mut watch: Watch,
    bar: Cleared,
) -> Result<ExitCode> {
    let experiment = (entry.read)(matches)?;
    let found = experiment(&mut watch);
    drop(bar);
    let mut conclusion = match (found, watch.directory()) {
        (Err(Error::ShardMade(made)), _) => of_shard(entry, &watch, *made),
        (Err(error), Some(kept)) => {
            let (name, path) = (entry.name, kept.path().display());
            return Err(error).context(format!(
                "the steps so far are in {path}; go on with: warikomi {name} --resume {path}"
            ));
        }
        (found, _) => found?,
    };

    watch.note_shards(&mut conclusion.result)?;
    // First to the user: a disk may be full.
    warikomi_lab::describe_by(entry, &mut conclusion.result);
    output::print(&conclusion.result, matches.get_flag("json"));
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

/// What is kept of a shard: which one it is, where it was made, and nothing that needs the others.
fn of_shard(entry: &Entry, watch: &Watch, made: MadeShard) -> Conclusion {
    let mut result = RunResult::new(entry.name, watch.time_base(), made.machine.clone());
    result.target = watch.seen().0;
    result.shard = Some(made);
    Conclusion::new(result)
}

fn show(bar: &Cleared) -> Box<dyn FnMut(Progress<'_>)> {
    let bar = bar.0.clone();
    Box::new(move |progress: Progress<'_>| {
        if progress.all > 0 {
            bar.set_length(progress.all);
            bar.set_position(progress.done);
        }
        bar.set_message(progress.at_work.to_owned());
        bar.tick();
    })
}

fn new_run(entry: &Entry, keep: &KeepArguments, invocation: &Invocation) -> NewRun {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    NewRun {
        runs: keep.runs.clone(),
        name: entry.name.to_owned(),
        now_s: now.as_secs(),
        plan: invocation.plan.clone().unwrap_or_default(),
    }
}

//! `warikomi merge`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Command};
use warikomi_lab::{Entry, ShardDirectory};
use warikomi_report::read::Run;

use crate::experiment;
use crate::invocation::Invocation;
use crate::plan::PlanFile;

/// Make one result of the shards of a run
///
/// Takes the directories that the shards of one run have left (--shard 1/N to N/N, each made by itself, on
/// any machine), and makes the run that one machine would have made: its result, tables and files, in a
/// directory of its own. The shards stay as they are. A shard that is missing, there twice, unfinished, of
/// another plan or of another version of Warikomi is an error.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The directories of all shards, in any order
    #[arg(value_name = "DIR", required = true)]
    shards: Vec<PathBuf>,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warikomi histories --count 1000000 --shard 1/2 --runs shards
  warikomi histories --count 1000000 --shard 2/2 --runs shards
  warikomi merge shards/*
      The same as warikomi histories --count 1000000. examples/slurm does it on a cluster.";

pub(crate) fn run(
    arguments: &Arguments,
    experiments: &[Entry],
    command: &Command,
    invocation: Invocation,
) -> Result<ExitCode> {
    let (plan, shards) = read(&arguments.shards)?;
    let mut flags = vec!["--runs".into(), arguments.runs.clone().into_os_string()];
    flags.extend(arguments.json.then(|| "--json".into()));
    let line = plan.command_line(command, &flags);
    let line = line.with_context(|| arguments.shards[0].join("plan.toml").display().to_string())?;
    let matches = command.clone().get_matches_from(line);
    let invocation = Invocation::new(command, &matches, invocation.interrupted)?;
    let entry = experiments.iter().find(|entry| entry.name == plan.experiment());
    match (entry, matches.subcommand()) {
        (Some(entry), Some((_, matches))) => experiment::merge(entry, matches, &invocation, shards),
        _ => bail!("there is no experiment '{}'", plan.experiment()),
    }
}

/// The plan that all shards are of, and the shards.
fn read(directories: &[PathBuf]) -> Result<(PlanFile, Vec<ShardDirectory>)> {
    let mut plan: Option<PlanFile> = None;
    let mut shards = Vec::new();
    for path in directories {
        let (own, shard) =
            read_one(path).with_context(|| format!("{} cannot be merged", path.display()))?;
        if let Some(what) = plan.as_ref().and_then(|first| own.difference(first)) {
            let first = directories[0].display();
            bail!("{} is not of the plan that {first} is of: {what}", path.display());
        }
        plan.get_or_insert(own);
        shards.push(shard);
    }
    Ok((plan.context("name the directories of all shards")?, shards))
}

/// One shard, and the plan of the whole run.
fn read_one(path: &Path) -> Result<(PlanFile, ShardDirectory)> {
    let mut plan = PlanFile::read(&path.join("plan.toml"))?;
    let shard = plan.take_shard()?;
    let shard = shard.context("it is the directory of a whole run, and not of a shard")?;
    let version = plan.version().unwrap_or("an unknown version");
    ensure!(
        version == env!("CARGO_PKG_VERSION"),
        "it was made by Warikomi {version}, and this is {}; merge with the version that made the shards",
        env!("CARGO_PKG_VERSION")
    );
    let result = path.join("result.json");
    let finished = result.try_exists().with_context(|| format!("cannot read {}", result.display()));
    let (name, directory) = (plan.experiment(), path.display());
    ensure!(
        finished?,
        "shard {shard} is not finished; go on with: warikomi {name} --resume {directory}"
    );
    let made = Run::load(path)?.result.shard;
    let made = made.filter(|made| made.shard == shard);
    let made = made.with_context(|| format!("its result.json is not of shard {shard}"))?;
    Ok((plan, ShardDirectory { path: path.to_owned(), made }))
}

//! A command as it was given: what its run keeps as its plan, and whether the user has had enough of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use warikomi_target::Interrupted;

use crate::plan::{self, PlanFile};

/// Run an experiment again from the plan.toml of an earlier run
///
/// The plan.toml of a run holds every flag of the run, with its value; it can be written by hand, too.
/// Flags behind it take the place of the plan's: warikomi run plan.toml --kernel-version 6.12 runs the same
/// on another kernel.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Flags of the experiment that take the place of the plan's
    #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  warikomi run runs/RUN/plan.toml
      The same again, in a directory of its own.
  warikomi run runs/RUN/plan.toml --kernel-version 6.12 --json
      The same on another kernel, with the result as JSON.

A plan by hand:
  experiment = \"inject\"
  [flags]
  size = 1500
  interval = \"38us\"
  count = 1000";

/// A command that is carried out.
pub(crate) struct Invocation {
    /// Set when the user presses Ctrl-C.
    pub(crate) interrupted: Interrupted,
    /// The text of `plan.toml`; nothing for a command that is no experiment.
    pub(crate) plan: Option<String>,
}

impl Invocation {
    /// What these arguments ask for.
    pub(crate) fn new(
        command: &Command,
        matches: &ArgMatches,
        interrupted: Interrupted,
    ) -> Result<Invocation> {
        let plan = PlanFile::of(command, matches)?;
        let plan = plan.map(|plan| plan.to_toml()).transpose()?;
        Ok(Invocation { interrupted, plan })
    }
}

/// What is meant by a command line: what it says, or what the plan says that it names.
pub(crate) fn meant(command: &Command, given: &[OsString]) -> Result<ArgMatches> {
    let matches = command.clone().get_matches_from(given);
    let again = |path: &Path, plan: &PlanFile, flags: &[OsString]| -> Result<ArgMatches> {
        let line = plan.command_line(command, flags);
        let line = line.with_context(|| path.display().to_string())?;
        Ok(command.clone().get_matches_from(line))
    };
    match matches.subcommand() {
        Some(("run", run)) => {
            let RunArguments { plan, flags } = RunArguments::from_arg_matches(run)?;
            again(&plan, &PlanFile::read(&plan)?, &flags)
        }
        Some((name, experiment)) => match experiment.try_get_one::<PathBuf>("resume") {
            Ok(Some(directory)) => {
                let mut flags = beside_resume(command, name, experiment)?;
                flags.extend(["--resume".into(), directory.into()]);
                let path = directory.join("plan.toml");
                let plan = PlanFile::read_own(directory)?;
                let (begun, directory) = (plan.experiment(), directory.display());
                ensure!(
                    begun == name,
                    "{directory} is of a run of {begun}; go on with: warikomi {begun} --resume {directory}"
                );
                again(&path, &plan, &flags)
            }
            _ => Ok(matches),
        },
        None => Ok(matches),
    }
}

/// The flags beside `--resume`: `--json`, or none. Steps that were made with other flags would be of another
/// run.
fn beside_resume(command: &Command, name: &str, matches: &ArgMatches) -> Result<Vec<OsString>> {
    let mut flags = Vec::new();
    let subcommand = plan::find(command, name)?;
    for argument in plan::given(&subcommand, matches) {
        match argument.get_id().as_str() {
            "resume" => {}
            "json" => flags.push("--json".into()),
            _ => bail!(
                "{argument} cannot be given beside --resume: a run goes on as it was begun, with the \
                 flags in its plan.toml; only --json may be given"
            ),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed(line: &[&str]) -> Result<ArgMatches> {
        let command = crate::command(warikomi_lab::EXPERIMENTS);
        let given: Vec<OsString> = ["warikomi"].iter().chain(line).map(OsString::from).collect();
        meant(&command, &given)
    }

    #[test]
    fn a_run_goes_on_as_the_experiment_that_it_is() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().to_str().unwrap();
        std::fs::write(run.path().join("plan.toml"), "experiment = \"cost\"").unwrap();
        let said = resumed(&["sweep", "--resume", directory]).unwrap_err().to_string();
        assert!(said.contains("go on with: warikomi cost --resume"), "{said}");
        let plan = "experiment = \"replay\"\n[flags]\nfile = \"/a.wkt\"";
        std::fs::write(run.path().join("plan.toml"), plan).unwrap();
        // Its file is in the plan.
        let matches = resumed(&["replay", "--resume", directory]).unwrap();
        let (name, replay) = matches.subcommand().unwrap();
        let file: &PathBuf = replay.get_one("file").unwrap();
        assert_eq!((name, file.as_path()), ("replay", Path::new("/a.wkt")));
    }

    #[test]
    fn a_run_goes_on_as_it_was_begun() {
        let resumed = |flags: &[&str]| {
            let line = [&["sweep", "--resume", "/nonexistent"], flags].concat();
            resumed(&line).unwrap_err().to_string()
        };
        for (flags, refused) in [
            (&["--sizes", "60"][..], "--sizes"),
            (&["--json", "--count=5000"], "--count"),
            (&["--target", "process"], "--target"),
            (&["--runs", "elsewhere"], "--runs"),
        ] {
            let said = resumed(flags);
            assert!(said.starts_with(refused) && said.contains("as it was begun"), "{said}");
        }
        for flags in [&[][..], &["--json"]] {
            assert!(resumed(flags).contains("cannot read the plan"));
        }
    }
}

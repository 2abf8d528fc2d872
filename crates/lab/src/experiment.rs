//! What an experiment is.
//!
//! Its flags are its plan: a struct that clap reads from the command line, and `plan.toml` holds the same
//! flags. Its rows are plain data with serde. What its columns mean it says of a finished result. From that
//! follow, written once for all experiments: `--help`, the plan and its repetition, the bar, `--resume`, the
//! tables on the terminal, the page, its plots, CSV and JSON files, and `warikomi compare`.

use std::io::{self, Write};

use clap::{ArgMatches, Args, Command};
use serde::Serialize;
use warikomi_measure::{RunDirectory, RunResult, WriteError};
use warikomi_session::Strictness;

use crate::error::Error;
use crate::strict;
use crate::strike;
use crate::watch::Watch;

/// One experiment, with what was asked of it.
pub trait Experiment: Args + 'static {
    /// The subcommand; runs are called so, too.
    const NAME: &'static str;
    /// What it is for, in a line of the command's help.
    const ABOUT: &'static str;
    /// Whether its cases can be made apart, on several machines (`--shard`). They can if all of them are made
    /// by one call of [`Watch::each`] or [`Watch::each_of_steps`] with no step behind it. A step before it is
    /// made by every shard, and must come out the same in each. All cases are made on one target with the same
    /// settings, which is started on demand ([`OnDemand`](crate::OnDemand)), because merging starts none.
    const SHARDS: bool = false;

    /// The system whose published figures stand beside its own, with the year.
    const PUBLISHED: Option<&'static str> = None;

    /// What is to follow from steps that a driver must not take, if the card is to name them. Of experiments that have
    /// `--strict`.
    fn strict(&self) -> Option<Strictness> {
        None
    }

    /// What [`carry_out`] does, but for what a strict card adds to it. What cannot be is refused before a target is
    /// started for it. Steps that
    /// [`Watch::each`] or [`Watch::step`] has made are kept, and not made again when a run goes on.
    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error>;

    /// Says in a result what its columns are, which tables and charts they make, and what matters most.
    fn describe(result: &mut RunResult);
}

/// Writes one file of a run.
type WriteFile = Box<dyn FnOnce(&RunDirectory) -> Result<(), WriteError>>;

/// Carries an experiment out, with strict cards if it wants them.
pub fn carry_out<E: Experiment>(experiment: &E, watch: &mut Watch) -> Result<Conclusion, Error> {
    let strictness = experiment.strict();
    watch.make_strict(strictness.is_some());
    let mut conclusion = experiment.run(watch).map_err(|error| after_steps(error, watch))?;
    if let Some(found) = watch.found() {
        found.put(&mut conclusion.result);
    }
    if watch.unanswering() > 0 {
        conclusion.result.warnings.push(strike::unanswering(watch.unanswering()));
    }
    let steps = strict::steps(&conclusion.result);
    if strictness == Some(Strictness::Fail) && steps > 0 {
        conclusion.failed.get_or_insert(Error::NotStrict { steps });
    }
    Ok(conclusion)
}

/// A run that ends with an error has no result, so the error says what strict cards have found, and a file of the run
/// has all of it.
fn after_steps(error: Error, watch: &mut Watch) -> Error {
    if let Error::ShardMade(_) = error {
        return error;
    }
    let found = watch.found_until_the_error();
    let Some(steps) = found.in_words() else { return error };
    let kept = match watch.keep_until_the_error(&found) {
        Ok(Some(path)) => format!("; they are in {}", path.display()),
        Ok(None) => String::new(),
        // Why the run ended matters more than that.
        Err(error) => format!("; they could not be kept: {error}"),
    };
    Error::AfterSteps { error: Box::new(error), steps: steps + &kept }
}

/// What came of an experiment.
pub struct Conclusion {
    /// The figures.
    pub result: RunResult,
    /// Why the run has failed although it has figures: they are shown and kept all the same.
    pub failed: Option<Error>,
    files: Vec<WriteFile>,
}

impl Conclusion {
    /// Figures, and nothing else.
    pub fn new(result: RunResult) -> Conclusion {
        Conclusion { result, failed: None, files: Vec::new() }
    }

    /// With `NAME.csv`, a line for each row.
    #[must_use]
    pub fn with_table<R: Serialize + 'static>(
        self,
        name: &'static str,
        rows: impl IntoIterator<Item = R> + 'static,
    ) -> Conclusion {
        self.with(move |directory| directory.write_table(name, rows))
    }

    /// With a file of any other kind.
    #[must_use]
    pub fn with_file(
        self,
        name: &'static str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'static,
    ) -> Conclusion {
        self.with(move |directory| directory.write(name, write))
    }

    /// With whatever this writes.
    #[must_use]
    pub fn with(
        mut self,
        write: impl FnOnce(&RunDirectory) -> Result<(), WriteError> + 'static,
    ) -> Conclusion {
        self.files.push(Box::new(write));
        self
    }

    /// Writes all files, and the result last.
    pub fn keep(self, directory: &RunDirectory) -> Result<(), WriteError> {
        for write in self.files {
            write(directory)?;
        }
        directory.write_result(&self.result)
    }
}

/// An experiment whose flags have been read.
pub type Ready = Box<dyn Fn(&mut Watch) -> Result<Conclusion, Error>>;

/// An experiment in the list of those that there are.
#[derive(Clone, Copy)]
pub struct Entry {
    /// See [`Experiment::NAME`].
    pub name: &'static str,
    /// The subcommand with its flags.
    pub command: fn() -> Command,
    /// Reads the flags.
    pub read: fn(&ArgMatches) -> Result<Ready, clap::Error>,
    /// See [`Experiment::describe`].
    pub describe: fn(&mut RunResult),
    /// See [`Experiment::SHARDS`].
    pub shards: bool,
    /// See [`Experiment::PUBLISHED`].
    pub published: Option<&'static str>,
}

impl Entry {
    /// The line of the list.
    pub const fn of<E: Experiment>() -> Entry {
        Entry {
            name: E::NAME,
            command: command::<E>,
            read: read::<E>,
            describe: E::describe,
            shards: E::SHARDS,
            published: E::PUBLISHED,
        }
    }
}

fn command<E: Experiment>() -> Command {
    E::augment_args(Command::new(E::NAME)).about(E::ABOUT)
}

fn read<E: Experiment>(matches: &ArgMatches) -> Result<Ready, clap::Error> {
    let experiment = E::from_arg_matches(matches)?;
    Ok(Box::new(move |watch| carry_out(&experiment, watch)))
}

#[cfg(test)]
mod tests {
    use warikomi_clock::Time;
    use warikomi_pci::Width;
    use warikomi_target::{Interrupted, TargetError};
    use warikomi_testbench::RTL8168;
    use warikomi_testbench::cards::Subject;

    use super::*;
    use crate::journal::{NewRun, STEPS_UNTIL_THE_ERROR};

    #[test]
    fn an_error_says_what_the_strict_card_of_a_target_that_is_gone_had_found() {
        let runs = tempfile::tempdir().unwrap();
        let run = NewRun {
            runs: runs.path().to_owned(),
            name: "test".into(),
            now_s: 1,
            plan: String::new(),
        };
        let mut watch = Watch::of_new_run(Interrupted::default(), Box::new(|_| ()), run);
        let mut bench = Subject::of(RTL8168).strict().bench();
        watch.keep_findings(bench.nic.strict().unwrap().keep_findings(), Time::ZERO);
        assert!(matches!(after_steps(Error::NoWork, &mut watch), Error::NoWork));
        assert!(watch.directory().is_none(), "nothing is to be kept");
        bench.read(1, Width::B8);
        drop(bench);
        let error = after_steps(TargetError::Interrupted.into(), &mut watch);
        assert!(error.is_interrupted());
        let words = error.to_string();
        assert!(
            words.contains("the driver took 1 step that it must not take until then: "),
            "{words}"
        );
        let path = watch.directory().unwrap().path().join(STEPS_UNTIL_THE_ERROR);
        assert!(words.ends_with(&format!("; they are in {}", path.display())), "{words}");
        let kept: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((&kept["steps"], &kept["findings"][0]["count"]), (&1.into(), &1.into()));
        // Once more, and then an end that has a result.
        after_steps(Error::NoWork, &mut watch);
        watch.end().unwrap();
        assert!(!path.exists(), "the result has what was found");
    }
}

//! The steps of a run that have been made: a line of `steps.jsonl` for each, written when it is done, so that
//! a run that was stopped goes on where it was. The file goes when the run has ended.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use warikomi_measure::{Machine, RunDirectory, TargetInfo};

use crate::error::Error;

/// The file of steps.
const STEPS: &str = "steps.jsonl";

/// The longest file of steps that is read, in bytes: some million of them.
const MAX_STEPS_BYTES: u64 = 256 << 20;

/// A run that is to be kept.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Where the directories of runs are.
    pub runs: PathBuf,
    /// The experiment.
    pub name: String,
    /// When it begins, in seconds since 1970.
    pub now_s: u64,
    /// The text of `plan.toml`.
    pub plan: String,
}

/// What a step was made on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) target: TargetInfo,
    pub(crate) machine: Machine,
}

impl Seen {
    /// The later target, and both machines as one.
    pub(crate) fn and(self, later: Seen) -> Seen {
        Seen { target: later.target, machine: self.machine.watched_again(later.machine) }
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Step<R> {
    step: String,
    made: R,
    seen: Option<Seen>,
}

/// Steps that have been made.
pub(crate) struct Journal {
    place: Place,
    earlier: VecDeque<Step<Value>>,
}

enum Place {
    /// Nothing is kept.
    Nowhere,
    /// The directory is made when there is something to keep.
    ToBe(NewRun),
    In(RunDirectory, File),
}

impl Journal {
    pub(crate) fn of_nothing() -> Journal {
        Journal { place: Place::Nowhere, earlier: VecDeque::new() }
    }

    pub(crate) fn begin(run: NewRun) -> Journal {
        Journal { place: Place::ToBe(run), earlier: VecDeque::new() }
    }

    /// Of a run that was stopped.
    pub(crate) fn resume(path: &Path) -> Result<Journal, Error> {
        let directory = RunDirectory::reopen(path).map_err(Error::NoResume)?;
        let steps = path.join(STEPS);
        let unreadable = |source| Error::Steps { path: steps.clone(), source };
        let bytes = std::fs::metadata(&steps).map_err(unreadable)?.len();
        if bytes > MAX_STEPS_BYTES {
            let too_long = format!("{bytes} bytes are too many for a file of steps");
            return Err(unreadable(io::Error::other(too_long)));
        }
        let text = std::fs::read(&steps).map_err(unreadable)?;
        let (earlier, whole) = read(&text)?;
        let file = directory.append(STEPS, whole as u64)?;
        Ok(Journal { place: Place::In(directory, file), earlier: earlier.into() })
    }

    pub(crate) fn earlier_steps(&self) -> usize {
        self.earlier.len()
    }

    pub(crate) fn directory(&self) -> Option<&RunDirectory> {
        match &self.place {
            Place::In(directory, _) => Some(directory),
            Place::Nowhere | Place::ToBe(_) => None,
        }
    }

    /// What an earlier run has made of the step that comes next, if it came so far.
    pub(crate) fn earlier<R: DeserializeOwned>(
        &mut self,
        name: &str,
    ) -> Result<Option<(R, Option<Seen>)>, Error> {
        let Some(Step { step, made, seen }) = self.earlier.pop_front() else { return Ok(None) };
        if step != name {
            return Err(Error::OtherRun);
        }
        let made = serde_json::from_value(made).map_err(|_| Error::OtherRun)?;
        Ok(Some((made, seen)))
    }

    /// Writes down what has been made.
    pub(crate) fn keep(
        &mut self,
        name: &str,
        made: &impl Serialize,
        seen: Option<&Seen>,
    ) -> Result<(), Error> {
        if matches!(self.place, Place::Nowhere) {
            return Ok(());
        }
        let step = Step { step: name.to_owned(), made, seen: seen.cloned() };
        let mut line = serde_json::to_string(&step).map_err(io::Error::from)?;
        line.push('\n');
        self.make()?;
        let Place::In(_, file) = &mut self.place else { return Ok(()) };
        // At once: half a line at the end of the file is what a run leaves that is killed here.
        Ok(file.write_all(line.as_bytes())?)
    }

    /// Makes the directory.
    fn make(&mut self) -> Result<(), Error> {
        if let Place::ToBe(run) = &self.place {
            let directory = RunDirectory::create(&run.runs, run.now_s, &run.name)?;
            directory.write_plan(&run.plan)?;
            let file = directory.append(STEPS, 0)?;
            self.place = Place::In(directory, file);
        }
        Ok(())
    }

    /// The directory, without the steps.
    pub(crate) fn end(mut self) -> Result<RunDirectory, Error> {
        self.make()?;
        match self.place {
            Place::In(directory, _) => {
                std::fs::remove_file(directory.path().join(STEPS))?;
                Ok(directory)
            }
            Place::Nowhere | Place::ToBe(_) => Err(Error::impossible("this run is not kept")),
        }
    }
}

/// The whole lines of a file, and how many bytes they are. Half a line at the end is of a step that was not
/// completely written.
fn read(text: &[u8]) -> Result<(Vec<Step<Value>>, usize), Error> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split_inclusive(|byte| *byte == b'\n').zip(1..);
    let steps = lines.map(|(line, number)| {
        let damaged =
            |what: serde_json::Error| Error::Damaged { line: number, what: what.to_string() };
        serde_json::from_slice(line).map_err(damaged)
    });
    Ok((steps.collect::<Result<_, _>>()?, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_line_at_the_end_is_left_out_and_a_damaged_one_is_named() {
        let line = "{\"step\":\"a\",\"made\":1,\"seen\":null}\n";
        let (steps, whole) = read(format!("{line}{{\"step\":").as_bytes()).unwrap();
        assert_eq!((steps.len(), whole), (1, line.len()));
        let error = read(format!("{line}nonsense\n{line}").as_bytes()).err().unwrap();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn a_directory_without_steps_and_one_with_a_result_do_not_go_on() {
        let directory = tempfile::tempdir().unwrap();
        let error = Journal::resume(directory.path()).err().unwrap();
        assert!(error.to_string().contains("steps.jsonl"), "{error}");
        std::fs::write(directory.path().join("result.json"), "{}").unwrap();
        let error = Journal::resume(directory.path()).err().unwrap();
        assert!(error.to_string().contains("exists already"), "{error}");
    }

    proptest! {
        #[test]
        fn never_panics_on_any_file(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&text);
        }

        #[test]
        fn what_is_kept_is_read(
            names in prop::collection::vec(".*", 1..10),
            made in (any::<i64>(), prop::num::f64::NORMAL),
        ) {
            let runs = tempfile::tempdir().unwrap();
            let run = NewRun {
                runs: runs.path().to_owned(), name: "test".into(), now_s: 1, plan: String::new(),
            };
            let mut journal = Journal::begin(run);
            for name in &names {
                journal.keep(name, &made, None).unwrap();
            }
            let mut again = Journal::resume(journal.directory().unwrap().path()).unwrap();
            for name in &names {
                prop_assert_eq!(again.earlier::<(i64, f64)>(name).unwrap().unwrap().0, made);
            }
            prop_assert!(again.earlier::<i64>("more").unwrap().is_none());
        }
    }
}

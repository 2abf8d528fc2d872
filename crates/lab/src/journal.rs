//! The steps of a run that have been made: a line of `steps.jsonl` for each, written when it is done, so that
//! a run that was stopped goes on where it was. The file goes when the run has ended; that of a shard stays,
//! because the other shards' steps are joined with it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use warikomi_measure::{Machine, RunDirectory, TargetInfo, TimeBase};
use warikomi_shared::open_own;

use crate::error::Error;
use crate::strict::Found;

/// The file of steps.
pub(crate) const STEPS: &str = "steps.jsonl";

/// The file of what strict cards had found when a run ended with an error.
pub(crate) const STEPS_UNTIL_THE_ERROR: &str = "strict.json";

/// The longest file of steps that is read, in bytes: some million of them.
pub(crate) const MAX_STEPS_BYTES: u64 = 256 << 20;

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
    /// Nothing where it was not watched for long enough, and in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
    #[serde(default)]
    pub(crate) time_base: TimeBase,
    /// Of a strict card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<Found>,
    /// Targets that did not answer what came to them first, though nothing had struck.
    #[serde(default)]
    pub(crate) unanswering: u64,
}

impl Seen {
    /// The later target, both machines as one, and all that was found.
    pub(crate) fn and(self, later: Seen) -> Seen {
        let machine = match (self.machine, later.machine) {
            (Some(before), Some(later)) => Some(before.watched_again(later)),
            (before, later) => later.or(before),
        };
        let found = match (self.found, later.found) {
            (Some(before), Some(later)) => Some(before.and(later)),
            (before, later) => later.or(before),
        };
        let unanswering = self.unanswering + later.unanswering;
        Seen { machine, found, unanswering, ..later }
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Step<R> {
    pub(crate) step: String,
    /// The case that it belongs to, from 0; nothing for a step beside the cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) case: Option<u64>,
    pub(crate) made: R,
    pub(crate) seen: Option<Seen>,
}

/// Steps that have been made.
pub(crate) struct Journal {
    place: Place,
    earlier: VecDeque<Step<Value>>,
    /// Whether all steps have been made, so that none may be made now.
    complete: bool,
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
        Journal { place: Place::Nowhere, earlier: VecDeque::new(), complete: false }
    }

    pub(crate) fn begin(run: NewRun) -> Journal {
        Journal { place: Place::ToBe(run), earlier: VecDeque::new(), complete: false }
    }

    /// Of a run whose steps were all made by its shards.
    pub(crate) fn of_shards(run: NewRun, steps: Vec<Step<Value>>) -> Journal {
        Journal { place: Place::ToBe(run), earlier: steps.into(), complete: true }
    }

    /// Of a run that was stopped.
    pub(crate) fn resume(path: &Path) -> Result<Journal, Error> {
        let directory = RunDirectory::reopen(path).map_err(Error::NoResume)?;
        let steps = path.join(STEPS);
        let file = open_own(&steps, File::options().read(true));
        let text = file.and_then(|file| contents(file, MAX_STEPS_BYTES));
        let text = text.map_err(|source| Error::Steps { path: steps, source })?;
        let (earlier, whole) = read(&text)?;
        let file = directory.append(STEPS, whole as u64)?;
        let place = Place::In(directory, file);
        Ok(Journal { place, earlier: earlier.into(), complete: false })
    }

    pub(crate) fn earlier_steps(&self) -> usize {
        self.earlier.len()
    }

    /// Whether all steps have been made, so that none may be made now.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
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
        let Some(Step { step, made, seen, .. }) = self.earlier.pop_front() else {
            let missing = || Error::NotInShards { step: name.to_owned() };
            return if self.complete { Err(missing()) } else { Ok(None) };
        };
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
        case: Option<u64>,
        made: &impl Serialize,
        seen: Option<&Seen>,
    ) -> Result<(), Error> {
        if matches!(self.place, Place::Nowhere) {
            return Ok(());
        }
        let step = Step { step: name.to_owned(), case, made, seen: seen.cloned() };
        let mut line = serde_json::to_string(&step).map_err(io::Error::from)?;
        line.push('\n');
        self.make()?;
        let Place::In(_, file) = &mut self.place else { return Ok(()) };
        // At once: half a line at the end of the file is what a run leaves that is killed here.
        Ok(file.write_all(line.as_bytes())?)
    }

    /// Writes a file beside the steps, in place of an earlier one; its path, if anything is kept.
    pub(crate) fn keep_beside(
        &mut self,
        name: &str,
        what: &impl Serialize,
    ) -> Result<Option<PathBuf>, Error> {
        self.make()?;
        let Place::In(directory, _) = &self.place else { return Ok(None) };
        let path = directory.path().join(name);
        remove(&path)?;
        directory.write(name, |file| Ok(serde_json::to_writer_pretty(file, what)?))?;
        Ok(Some(path))
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

    /// The directory; the steps stay in it only if they are still needed.
    pub(crate) fn end(mut self, keep_steps: bool) -> Result<RunDirectory, Error> {
        self.make()?;
        match self.place {
            Place::In(directory, _) => {
                if !keep_steps {
                    std::fs::remove_file(directory.path().join(STEPS))?;
                }
                // Of an attempt that this run went on from; the result has what was found.
                remove(&directory.path().join(STEPS_UNTIL_THE_ERROR))?;
                Ok(directory)
            }
            Place::Nowhere | Place::ToBe(_) => Err(Error::impossible("this run is not kept")),
        }
    }
}

/// Removes a file that may be there.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is in a file that may have this number of bytes.
pub(crate) fn contents(file: File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > most_bytes {
        return Err(io::Error::other("it is too long for a file of steps"));
    }
    Ok(text)
}

/// The whole lines of a file, and how many bytes they are. Half a line at the end is of a step that was not
/// completely written.
pub(crate) fn read(text: &[u8]) -> Result<(Vec<Step<Value>>, usize), Error> {
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

    #[test]
    fn steps_that_are_a_link_are_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&elsewhere, "half a line").unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.path().join(STEPS)).unwrap();
        let error = Journal::resume(directory.path()).err().unwrap();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "half a line");
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
                journal.keep(name, None, &made, None).unwrap();
            }
            let mut again = Journal::resume(journal.directory().unwrap().path()).unwrap();
            for name in &names {
                prop_assert_eq!(again.earlier::<(i64, f64)>(name).unwrap().unwrap().0, made);
            }
            prop_assert!(again.earlier::<i64>("more").unwrap().is_none());
        }
    }
}

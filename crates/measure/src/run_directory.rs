//! Where a run is kept.
//!
//! A run has a directory of its own, made for it and never used again. Each file appears in it
//! complete or not at all (written under another name, then renamed), and `result.json` comes last:
//! a directory with one is a finished run.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use warikomi_clock::Time;
use warikomi_shared::{check_directory, is_open_to_all, open_own};

use crate::{Fate, Row, RunResult};

/// Runs of one experiment that may begin in one second.
const MAX_SAME_SECOND: u32 = 10_000;

/// Why a run could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk is full.
    #[error(
        "no space is left for {}; free some, or choose another directory for the runs",
        path.display()
    )]
    NoSpace {
        /// The file that was being written.
        path: PathBuf,
    },
    /// We may not write there.
    #[error(
        "{} may not be written; choose another directory for the runs, or change its permissions",
        path.display()
    )]
    NotAllowed {
        /// The file that was being written.
        path: PathBuf,
    },
    /// The file is there already.
    #[error("{} exists already, and a run is never overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A name of an experiment that would lead out of the directory.
    #[error("'{0}' is no name of an experiment: use letters, digits and dashes")]
    Name(String),
    /// Another user may have made it.
    #[error("{} is not used for runs: {source}; choose another directory", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Anything else.
    #[error("{} could not be written: {source}", path.display())]
    Io {
        /// The file that was being written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl WriteError {
    fn new(path: &Path, source: io::Error) -> WriteError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                WriteError::NoSpace { path }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                WriteError::NotAllowed { path }
            }
            io::ErrorKind::AlreadyExists => WriteError::Exists { path },
            _ => WriteError::Io { path, source },
        }
    }
}

/// The directory of one run.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes `runs/<utc>-<experiment>-<n>`, with the first `n` from 1 on that is free. `now` is in
    /// seconds since 1970.
    pub fn create(runs: &Path, now: u64, experiment: &str) -> Result<RunDirectory, WriteError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if experiment.is_empty() || experiment.len() > 64 || !experiment.chars().all(plain) {
            return Err(WriteError::Name(experiment.to_owned()));
        }
        fs::create_dir_all(runs).map_err(|error| WriteError::new(runs, error))?;
        // Where everyone may write, anyone may have made it before us.
        if runs.canonicalize().is_ok_and(|path| path.parent().is_some_and(is_open_to_all)) {
            check_ours(runs)?;
        }
        let stamp = utc_stamp(now);
        let mut path = runs.to_owned();
        for number in 1..=MAX_SAME_SECOND {
            path = runs.join(format!("{stamp}-{experiment}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(RunDirectory { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(WriteError::new(&path, error)),
            }
        }
        Err(WriteError::Exists { path })
    }

    /// The directory of a run that was stopped before it had a result, to continue it. It must be this user's.
    pub fn reopen(path: &Path) -> Result<RunDirectory, WriteError> {
        check_ours(path)?;
        let result = path.join("result.json");
        match fs::symlink_metadata(&result) {
            Ok(_) => return Err(WriteError::Exists { path: result }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(WriteError::new(&result, error)),
        }
        Ok(RunDirectory { path: path.to_owned() })
    }

    /// Opens a file to which a run adds as it goes on, and cuts it to its first `keep` bytes. Unlike
    /// the others it is there before it is complete. A link is not followed.
    pub fn append(&self, name: &str, keep: u64) -> Result<fs::File, WriteError> {
        let path = self.path.join(name);
        let opened = || {
            let file = open_own(&path, fs::OpenOptions::new().append(true).create(true))?;
            file.set_len(keep)?;
            Ok(file)
        };
        opened().map_err(|error| WriteError::new(&path, error))
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `plan.toml`: enough to run it again.
    pub fn write_plan(&self, toml: &str) -> Result<(), WriteError> {
        self.write("plan.toml", |file| file.write_all(toml.as_bytes()))
    }

    /// Writes `result.json`; to be called last.
    pub fn write_result(&self, result: &RunResult) -> Result<(), WriteError> {
        self.write("result.json", |file| file.write_all(result.to_json().as_bytes()))
    }

    /// Writes `samples.csv`: a row a packet, times in nanoseconds since `start`. What is not known
    /// is empty.
    pub fn write_samples(
        &self,
        start: Time,
        rows: impl Iterator<Item = Row>,
    ) -> Result<(), WriteError> {
        self.write("samples.csv", |file| {
            let mut csv = csv::Writer::from_writer(file);
            for row in rows {
                csv.serialize(Sample::new(start, &row)).map_err(io::Error::from)?;
            }
            csv.flush()
        })
    }

    /// Writes `NAME.csv`, a line for each row: the numbers behind a plot.
    pub fn write_table<R: Serialize>(
        &self,
        name: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), WriteError> {
        self.write(&format!("{name}.csv"), |file| {
            let mut csv = csv::Writer::from_writer(file);
            for row in rows {
                csv.serialize(row).map_err(io::Error::from)?;
            }
            csv.flush()
        })
    }

    /// Writes a file of any other kind, once.
    pub fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let path = self.path.join(name);
        self.write_at(&path, write).map_err(|error| WriteError::new(&path, error))
    }

    fn write_at(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut temporary = BufWriter::new(tempfile::NamedTempFile::new_in(&self.path)?);
        write(&mut temporary)?;
        let temporary = temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
        readable_by_all(temporary.path())?;
        temporary.as_file().sync_all()?;
        temporary.persist_noclobber(path).map(drop).map_err(|error| error.error)
    }
}

fn check_ours(path: &Path) -> Result<(), WriteError> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    check_directory(path).map_err(|source| match missing(&source) {
        true => WriteError::new(path, source),
        false => WriteError::NotOurs { path: path.to_owned(), source },
    })
}

/// Temporary files are for their owner alone; a result is not a secret.
fn readable_by_all(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// A line of `samples.csv`.
#[derive(Serialize)]
struct Sample {
    sequence: u64,
    fate: Fate,
    planned_ns: Option<f64>,
    injected_ns: Option<f64>,
    inject_ns: Option<f64>,
    accepted_ns: Option<f64>,
    delivered_ns: Option<f64>,
    queue: Option<u16>,
}

impl Sample {
    fn new(start: Time, row: &Row) -> Sample {
        // Not `since`, which would show as 0 what a foreign clock puts before the start.
        let relative = |at: Time| (at.as_ps() as i128 - start.as_ps() as i128) as f64 / 1e3;
        Sample {
            sequence: row.sequence,
            fate: row.fate,
            planned_ns: row.planned.map(relative),
            injected_ns: row.injected.map(relative),
            inject_ns: row.took.map(|took| took.as_ns()),
            accepted_ns: row.accepted.map(relative),
            delivered_ns: row.delivered.map(relative),
            queue: row.queue,
        }
    }
}

/// Seconds since 1970 as `20250131T235959Z`.
///
/// The calendar is that of Hinnant's "chrono-compatible low-level date algorithms" (days from the
/// civil calendar, eras of 400 years that begin in March).
pub fn utc_stamp(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let since_era = days + 719_468;
    let (era, day_of_era) = (since_era / 146_097, since_era % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, TimeBase};
    use proptest::prelude::*;
    use warikomi_clock::Span;

    #[test]
    fn stamps_are_utc() {
        assert_eq!(utc_stamp(0), "19700101T000000Z");
        assert_eq!(utc_stamp(951_782_399), "20000228T235959Z");
        assert_eq!(utc_stamp(951_782_400), "20000229T000000Z");
        assert_eq!(utc_stamp(1_735_689_599), "20241231T235959Z");
    }

    #[test]
    fn runs_of_one_second_do_not_meet() {
        let runs = tempfile::tempdir().unwrap();
        let first = RunDirectory::create(runs.path(), 0, "inject").unwrap();
        let second = RunDirectory::create(runs.path(), 0, "inject").unwrap();
        assert!(first.path().ends_with("19700101T000000Z-inject-1"));
        assert!(second.path().ends_with("19700101T000000Z-inject-2"));
    }

    #[test]
    fn a_file_is_written_once_and_leaves_nothing_else_behind() {
        let runs = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(runs.path(), 0, "inject").unwrap();
        run.write_plan("count = 1\n").unwrap();
        assert!(matches!(run.write_plan("count = 2\n"), Err(WriteError::Exists { .. })));
        let failed = run.write("other", |_| Err(io::ErrorKind::StorageFull.into()));
        assert!(matches!(failed, Err(WriteError::NoSpace { .. })));
        let names: Vec<_> = fs::read_dir(run.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, ["plan.toml"]);
        assert_eq!(fs::read_to_string(run.path().join("plan.toml")).unwrap(), "count = 1\n");
    }

    #[test]
    fn a_result_comes_back_and_samples_have_a_row_a_packet() {
        let runs = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(runs.path(), 0, "inject").unwrap();
        let at = |ns: u64| Some(Time::from_ps(ns * 1_000));
        let row = Row {
            sequence: 0,
            fate: Fate::Delivered,
            queue: Some(3),
            planned: at(1_000),
            injected: at(1_100),
            took: Some(Span::from_ps(205_500)),
            accepted: None,
            delivered: at(9_000),
        };
        run.write_samples(Time::from_ps(1_000_000), std::iter::once(row)).unwrap();
        let text = fs::read_to_string(run.path().join("samples.csv")).unwrap();
        let header =
            "sequence,fate,planned_ns,injected_ns,inject_ns,accepted_ns,delivered_ns,queue";
        let expected = format!("{header}\n0,delivered,0.0,100.0,205.5,,8000.0,3\n");
        assert_eq!(text, expected);
        let result = RunResult::new("inject", TimeBase::Real, Machine::default());
        run.write_result(&result).unwrap();
        let text = fs::read_to_string(run.path().join("result.json")).unwrap();
        assert_eq!(RunResult::from_json(&text).unwrap(), result);
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_directory() {
        let runs = tempfile::tempdir().unwrap();
        for name in ["", "../x", "a/b", "."] {
            let made = RunDirectory::create(runs.path(), 0, name);
            assert!(matches!(made, Err(WriteError::Name(_))), "{name}");
        }
    }

    #[test]
    fn a_run_that_was_stopped_goes_on_and_one_that_has_ended_does_not() {
        let runs = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(runs.path(), 0, "sweep").unwrap();
        run.append("cycles.csv", 0).unwrap().write_all(b"a\nb\nhal").unwrap();
        let again = RunDirectory::reopen(run.path()).unwrap();
        again.append("cycles.csv", 4).unwrap().write_all(b"c\n").unwrap();
        assert_eq!(fs::read(run.path().join("cycles.csv")).unwrap(), b"a\nb\nc\n");
        again.write("result.json", |file| file.write_all(b"{}")).unwrap();
        assert!(matches!(RunDirectory::reopen(run.path()), Err(WriteError::Exists { .. })));
    }

    #[test]
    fn a_run_goes_on_in_its_own_files_alone() {
        let runs = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(runs.path(), 0, "sweep").unwrap();
        let precious = runs.path().join("precious");
        fs::write(&precious, "kept").unwrap();
        std::os::unix::fs::symlink(&precious, run.path().join("cycles.csv")).unwrap();
        let refused = run.append("cycles.csv", 0).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(run.path(), everyone).unwrap();
        let refused = RunDirectory::reopen(run.path()).unwrap_err().to_string();
        assert!(refused.contains("may write in it"), "{refused}");
    }

    #[test]
    fn runs_are_not_kept_in_what_another_user_has_made_where_everyone_may_write() {
        let everywhere = tempfile::tempdir().unwrap();
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        fs::set_permissions(everywhere.path(), everyone).unwrap();
        let runs = everywhere.path().join("runs");
        let run = RunDirectory::create(&runs, 0, "sweep").unwrap();
        // Only root can give a directory away.
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&runs, Some(1), None).unwrap();
            let refused = RunDirectory::create(&runs, 0, "sweep").unwrap_err();
            assert!(matches!(refused, WriteError::NotOurs { .. }), "{refused}");
            std::os::unix::fs::chown(run.path(), Some(1), None).unwrap();
            let refused = RunDirectory::reopen(run.path()).unwrap_err().to_string();
            assert!(refused.contains("another user"), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn later_is_later_in_the_directory_too(a in 0u64..200_000_000_000, b in 0u64..200_000_000_000) {
            prop_assert_eq!(a.cmp(&b), utc_stamp(a).cmp(&utc_stamp(b)));
        }
    }
}

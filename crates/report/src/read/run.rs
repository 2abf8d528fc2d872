//! A finished run: its result, its plan and its repeats.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use warikomi_measure::{Repeat, RunResult};

use super::error::{ReadError, absent};
use super::tables::stream;

/// The longest `result.json` and `plan.toml` that are read, in bytes.
const MAX_TEXT_BYTES: u64 = 64 * 1024 * 1024;
/// The most lines of `repeats.csv` that are kept.
const MAX_REPEATS: usize = 100_000;

/// A finished run, read from its directory.
#[derive(Clone, Debug)]
pub struct Run {
    /// Directory of the run.
    pub path: PathBuf,
    /// What it is called: the last part of its path.
    pub name: String,
    /// `result.json`.
    pub result: RunResult,
    /// `plan.toml`, if there is one.
    pub plan: Option<String>,
}

impl Run {
    /// Reads result and plan; tables are read when they are needed.
    pub fn load(directory: &Path) -> Result<Run, ReadError> {
        let path = directory.join("result.json");
        let json = text(&path)?.ok_or_else(|| ReadError::NoResult(directory.to_owned()))?;
        let result =
            RunResult::from_json(&json).map_err(|source| ReadError::Result { path, source })?;
        // `.` and `..` have no name of their own.
        let full = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let name = full.file_name().unwrap_or(full.as_os_str()).to_string_lossy().into_owned();
        let plan = text(&directory.join("plan.toml"))?;
        Ok(Run { path: directory.to_owned(), name, result, plan })
    }

    /// The lines of `repeats.csv`; empty if there is none.
    pub fn repeats(&self) -> Result<Vec<Repeat>, ReadError> {
        let mut repeats = Vec::new();
        let path = self.path.join("repeats.csv");
        stream(&path, &mut |_| true, |repeat: Repeat| {
            if repeats.len() < MAX_REPEATS {
                repeats.push(repeat);
            }
        })?;
        Ok(repeats)
    }
}

/// A whole file as text; `None` if it is not there.
fn text(path: &Path) -> Result<Option<String>, ReadError> {
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        return Err(ReadError::TooLong { path: path.to_owned(), limit: MAX_TEXT_BYTES });
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_run_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Run::load(path).unwrap_err().to_string();
        assert!(refused(dir.path()).contains("directory of a finished run"));
        assert!(refused(Path::new("/nonexistent")).contains("/nonexistent"));
        fs::write(dir.path().join("result.json"), "{").unwrap();
        let message = refused(dir.path());
        assert!(message.contains("result.json") && message.contains("not a result"), "{message}");
        fs::write(dir.path().join("result.json"), [0xff, 0xfe]).unwrap();
        assert!(refused(dir.path()).contains("cannot read"));
    }
}

//! Why a run cannot be read.

use std::io;
use std::path::PathBuf;

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such directory, or no finished run in it.
    #[error(
        "{} has no result.json: give the directory of a finished run, such as one below runs/",
        .0.display()
    )]
    NoResult(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is longer than any of its kind.
    #[error("{} is longer than {limit} bytes, too long to be what its name says", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The result is none.
    #[error("{}: {source}", path.display())]
    Result {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: warikomi_measure::ReadError,
    },
    /// A table is damaged.
    #[error("{}, line {line}: {what}; run the experiment again, or correct the line", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The line, from 1; the header is line 1.
        line: u64,
        /// What is wrong with the line.
        what: String,
    },
    /// The user stopped us.
    #[error("stopped while {} was read", .0.display())]
    Stopped(PathBuf),
}

/// Whether the file is not there at all.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

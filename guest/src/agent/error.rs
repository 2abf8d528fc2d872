//! Why a request failed.

use std::io;
use std::path::{Path, PathBuf};

/// What the answer's `error` says.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    #[error("cannot {what}: {source}")]
    System { what: String, source: io::Error },
    #[error("cannot {what} {path}: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{what} is not {expected}: {given:?}")]
    Invalid { what: &'static str, expected: &'static str, given: String },
    #[error("no interface is known yet; name one, or send wait_interface first")]
    NoInterface,
    #[error("{0}")]
    Other(String),
}

/// Shorthand of this crate.
pub(super) type Result<T> = std::result::Result<T, AgentError>;

/// Adds what was being done to a system error.
pub(super) trait Context<T> {
    /// `cannot {what}: {system's words}`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| AgentError::System { what: what(), source: source.into() })
    }
}

/// A file's text, with its path in the error.
pub(super) fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    std::fs::read_to_string(path).map_err(|source| AgentError::File {
        what: "read",
        path: path.to_owned(),
        source,
    })
}

/// Writes a file that exists, with its path in the error.
pub(super) fn write(path: impl AsRef<Path>, text: &str) -> Result<()> {
    use std::io::Write;
    let path = path.as_ref();
    let write = || {
        let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
        // One system call: sysfs takes each write as a whole value.
        let written = file.write(text.as_bytes())?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    };
    write().map_err(|source| AgentError::File { what: "write", path: path.to_owned(), source })
}

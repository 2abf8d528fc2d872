//! A function in a program's code, and why there may be none.

use std::ops::Range;
use std::path::PathBuf;

/// Why a file's code cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// It is no program and no module.
    #[error("cannot read the code of {}: {error}", path.display())]
    NoCode {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// Its debug information makes no sense.
    #[error("the debug information cannot be read: {0}")]
    Debug(#[from] gimli::Error),
}

/// A function as a symbol has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The symbol, with what the compiler appends (`.isra.0`, `.cold`).
    pub name: String,
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Function {
    /// The name in the source.
    pub fn source_name(&self) -> &str {
        source_name(&self.name)
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes)
    }
}

/// The name in the source of a symbol, to which the compiler may have appended something.
pub(crate) fn source_name(symbol: &str) -> &str {
    symbol.split('.').next().unwrap_or(symbol)
}

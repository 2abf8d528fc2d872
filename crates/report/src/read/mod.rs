//! A run's directory, read back.
//!
//! It may come from anywhere: lengths are bounded before anything is read, tables are streamed, and
//! an error names the file and, in a table, the line.

mod error;
mod rows;
mod run;
mod tables;

pub use self::error::ReadError;
pub use self::rows::{Wanted, lines, rows};
pub use self::run::Run;
pub use self::tables::{Sample, Watch, stream};

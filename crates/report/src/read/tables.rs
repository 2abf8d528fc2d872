//! The tables of a run, a line at a time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use warikomi_measure::Fate;

use super::{ReadError, Watch, absent};

/// The longest line of a table, in bytes. Without a bound a file without line ends would be one
/// line, kept in memory.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// A line of `samples.csv`: a packet. Times in nanoseconds since the first deadline.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Sample {
    /// How far it came.
    pub fate: Fate,
    /// When it was injected.
    #[serde(deserialize_with = "known")]
    pub injected_ns: Option<f64>,
    /// When the driver had taken it.
    #[serde(deserialize_with = "known")]
    pub accepted_ns: Option<f64>,
    /// When the application had it.
    #[serde(deserialize_with = "known")]
    pub delivered_ns: Option<f64>,
}

/// A line of `cycles.csv`: a cycle of a sweep.
#[derive(Clone, Debug, Deserialize)]
pub struct Cycle {
    /// Frame length in bytes.
    pub size_bytes: u64,
    /// The line that the frames came over, if any, in bit/s.
    #[serde(default)]
    pub line_rate_bps: Option<f64>,
    /// Time from one packet to the next, in nanoseconds; 0 for as fast as possible.
    #[serde(deserialize_with = "known")]
    pub interval_ns: Option<f64>,
    /// Share (0 to 1) accepted by the driver.
    #[serde(deserialize_with = "known")]
    pub driver_share: Option<f64>,
    /// Share (0 to 1) received by the application.
    #[serde(deserialize_with = "known")]
    pub end_to_end_share: Option<f64>,
    /// Whether something else disturbed the machine meanwhile, so that the cycle was repeated.
    #[serde(default, deserialize_with = "flag")]
    pub disturbed: bool,
}

/// A line of `intervals.csv`: an interval at a place.
#[derive(Clone, Debug, Deserialize)]
pub struct Interval {
    /// Where: `injected`, `raised` or `handler`.
    pub place: String,
    /// When it ended, in nanoseconds since the first deadline.
    #[serde(deserialize_with = "known")]
    pub at_ns: Option<f64>,
    /// Its length in nanoseconds.
    #[serde(deserialize_with = "known")]
    pub interval_ns: Option<f64>,
    /// Its length less the one that was asked for, in nanoseconds.
    #[serde(deserialize_with = "known")]
    pub error_ns: Option<f64>,
    /// Whether the loop of either side stood still meanwhile.
    #[serde(default, deserialize_with = "flag")]
    pub in_hiccup: bool,
}

/// A line of `smallest.csv`: how well an interval was kept.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Kept {
    /// The interval in nanoseconds.
    #[serde(deserialize_with = "known")]
    pub interval_ns: Option<f64>,
    /// Share (0 to 1) of intervals that were kept.
    #[serde(deserialize_with = "known")]
    pub kept_share: Option<f64>,
}

/// A line of `calls.csv`: a call that sent a packet.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Call {
    /// Frame length in bytes.
    pub size_bytes: u64,
    /// How long it took, in nanoseconds.
    #[serde(deserialize_with = "known")]
    pub send_ns: Option<f64>,
}

/// A number or nothing, in a column that must be there. Without this, `Option` would take a column
/// that is missing for one that is empty.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(deserializer)
}

/// `true` and `false`, or 1 and 0; empty is not known, and so not marked.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        other => Err(D::Error::custom(format!("'{other}' is neither true nor false"))),
    }
}

/// Gives each line of a table to `each`. Returns whether the table is there.
pub fn stream<R: DeserializeOwned>(
    path: &Path,
    watch: Watch<'_>,
    mut each: impl FnMut(R),
) -> Result<bool, ReadError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(false),
        Err(source) => return Err(ReadError::Io { path: path.to_owned(), source }),
    };
    let mut watched = Watched { inner: file, watch, line_bytes: 0, stopped: false };
    let mut csv = csv::ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(&mut watched);
    // Asked for, because the iterator below passes over an error in the header.
    let mut failed = csv.headers().err();
    if failed.is_none() {
        for row in csv.deserialize() {
            match row {
                Ok(row) => each(row),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
    }
    let near = csv.position().line();
    drop(csv);
    match failed {
        None => Ok(true),
        Some(_) if watched.stopped => Err(ReadError::Stopped(path.to_owned())),
        Some(error) => Err(damaged(path, &error, near)),
    }
}

fn damaged(path: &Path, error: &csv::Error, near: u64) -> ReadError {
    let path = path.to_owned();
    let line = error.position().map_or(near, csv::Position::line);
    let what = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, where the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not text in UTF-8".to_owned(),
        other => format!("{other:?}"),
    };
    ReadError::Table { path, line, what }
}

/// A reader that reports what was read, and refuses lines without an end.
struct Watched<'a, R> {
    inner: R,
    watch: Watch<'a>,
    line_bytes: usize,
    stopped: bool,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if !(self.watch)(read as u64) {
            self.stopped = true;
            return Err(io::Error::other("stopped"));
        }
        for line in buffer[..read].split_inclusive(|&byte| byte == b'\n') {
            self.line_bytes += line.len();
            if self.line_bytes > MAX_LINE_BYTES {
                let what = format!("a line of more than {MAX_LINE_BYTES} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            if line.ends_with(b"\n") {
                self.line_bytes = 0;
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn read<R: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<R>, ReadError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        fs::write(&path, bytes).unwrap();
        let mut rows = Vec::new();
        stream(&path, &mut |_| true, |row| rows.push(row)).map(|_| rows)
    }

    #[test]
    fn a_damaged_line_is_named() {
        let message =
            read::<Kept>(b"interval_ns,kept_share\n200,1\n300,much\n").unwrap_err().to_string();
        assert!(message.contains("table.csv, line 3"), "{message}");
        let message = read::<Kept>(b"interval_ns,kept_share\n200\n").unwrap_err().to_string();
        assert!(message.contains("line 2: 1 fields"), "{message}");
        let message = read::<Kept>(b"interval_ns\n200\n").unwrap_err().to_string();
        assert!(message.contains("kept_share"), "{message}");
        let endless = vec![b'1'; 3 * MAX_LINE_BYTES];
        assert!(read::<Kept>(&endless).unwrap_err().to_string().contains("bytes"));
    }

    #[test]
    fn what_is_not_known_is_empty_and_unknown_columns_do_not_matter() {
        let rows: Vec<Interval> =
            read(b"place,index,at_ns,interval_ns,error_ns,in_hiccup\nraised,1,,38000.5,0.5,true\n")
                .unwrap();
        assert_eq!((rows[0].at_ns, rows[0].interval_ns), (None, Some(38_000.5)));
        assert!(rows[0].in_hiccup);
    }

    #[test]
    fn the_watcher_can_stop_and_an_absent_table_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("smallest.csv");
        assert!(!stream(&path, &mut |_| true, |_: Kept| ()).unwrap());
        fs::write(&path, "interval_ns,kept_share\n1,1\n").unwrap();
        let stopped = stream(&path, &mut |_| false, |_: Kept| ());
        assert!(matches!(stopped, Err(ReadError::Stopped(_))));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = (read::<Sample>(&bytes), read::<Interval>(&bytes));
            let header = b"size_bytes,interval_ns,driver_share,end_to_end_share\n";
            let _ = read::<Cycle>(&[&header[..], &bytes].concat());
        }
    }
}

//! The tables of a run, a line at a time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use csv::StringRecord;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use warikomi_measure::Fate;

use super::error::{ReadError, absent};

/// The longest line of a table, in bytes. Without a bound a file without line ends would be one
/// line, kept in memory.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Asked while something long is read, with the bytes read since the last time: `false` stops.
pub type Watch<'a> = &'a mut dyn FnMut(u64) -> bool;

/// A line of `samples.csv`: a packet. Times in nanoseconds since the first deadline.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Sample {
    /// What became of the packet.
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

/// A number or nothing, in a column that must be there. Without this, `Option` would take a column
/// that is missing for one that is empty.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(deserializer)
}

/// Gives each line of a table to `each`. Returns whether the table is there.
pub fn stream<R: DeserializeOwned>(
    path: &Path,
    watch: Watch<'_>,
    mut each: impl FnMut(R),
) -> Result<bool, ReadError> {
    read(path, watch, |csv| {
        // Asked for, because the iterator below passes over an error in the header.
        csv.headers()?;
        for row in csv.deserialize() {
            each(row?);
        }
        Ok(None)
    })
}

/// Gives each line of a table, with its header, to `each`, which says what is wrong with it. A table that is
/// not there has none.
pub(super) fn records(
    path: &Path,
    watch: Watch<'_>,
    mut each: impl FnMut(&StringRecord, &StringRecord) -> Result<(), String>,
) -> Result<(), ReadError> {
    let there = read(path, watch, |csv| {
        let header = csv.headers()?.clone();
        let mut record = StringRecord::new();
        while csv.read_record(&mut record)? {
            if let Err(wrong) = each(&header, &record) {
                return Ok(Some((record.position().map_or(0, csv::Position::line), wrong)));
            }
        }
        Ok(None)
    });
    there.map(drop)
}

/// The reader of a table, whose errors name file and line.
type Reader<'a, 'b> = csv::Reader<&'a mut Watched<'b, File>>;
/// A line, and what is wrong with it.
type Wrong = Option<(u64, String)>;

fn read(
    path: &Path,
    watch: Watch<'_>,
    each: impl FnOnce(&mut Reader<'_, '_>) -> Result<Wrong, csv::Error>,
) -> Result<bool, ReadError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(false),
        Err(source) => return Err(ReadError::Io { path: path.to_owned(), source }),
    };
    let mut watched = Watched { inner: file, watch, line_bytes: 0, stopped: false };
    let mut csv = csv::ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(&mut watched);
    let ended = each(&mut csv);
    let near = csv.position().line();
    drop(csv);
    match ended {
        Ok(None) => Ok(true),
        Ok(Some((line, what))) => Err(ReadError::Table { path: path.to_owned(), line, what }),
        Err(_) if watched.stopped => Err(ReadError::Stopped(path.to_owned())),
        Err(error) => Err(damaged(path, &error, near)),
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
    use super::super::rows::{Wanted, lines};
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use warikomi_measure::layout::Object;

    fn table(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    fn kept(bytes: &[u8]) -> Result<Vec<Object>, ReadError> {
        let (_dir, path) = table(bytes);
        let numbers = ["interval_ns", "kept_share"].map(str::to_owned).to_vec();
        let wanted = Wanted {
            numbers,
            flags: vec!["in_hiccup".to_owned()],
            others: vec!["place".to_owned()],
        };
        let mut rows = Vec::new();
        lines(&path, &wanted, &mut |_| true, |row| rows.push(row.clone())).map(|()| rows)
    }

    #[test]
    fn a_damaged_line_is_named() {
        let said = |bytes: &[u8]| kept(bytes).unwrap_err().to_string();
        let message = said(b"interval_ns,kept_share\n200,1\n300,much\n");
        assert!(message.contains("table.csv, line 3"), "{message}");
        let message = said(b"interval_ns,kept_share\n200\n");
        assert!(message.contains("line 2: 1 fields"), "{message}");
        let message = said(b"interval_ns\n200\n");
        assert!(message.contains("kept_share"), "{message}");
        let message = said(b"interval_ns,kept_share,in_hiccup\n1,1,maybe\n");
        assert!(message.contains("neither true nor false"), "{message}");
        let endless = vec![b'1'; 3 * MAX_LINE_BYTES];
        assert!(said(&endless).contains("bytes"));
    }

    #[test]
    fn what_is_not_known_is_empty_and_unknown_columns_do_not_matter() {
        let rows = kept(
            b"place,index,kept_share,interval_ns,error_ns,in_hiccup\nraised,1,,38000.5,0.5,true\n",
        )
        .unwrap();
        let expected = serde_json::json!({"place": "raised", "kept_share": null,
            "interval_ns": 38_000.5, "in_hiccup": true});
        assert_eq!(serde_json::Value::Object(rows[0].clone()), expected);
    }

    #[test]
    fn the_watcher_can_stop_and_an_absent_table_is_none() {
        let (dir, path) = table(b"fate,injected_ns,accepted_ns,delivered_ns\n");
        assert!(!stream(&dir.path().join("none.csv"), &mut |_| true, |_: Sample| ()).unwrap());
        let stopped = stream(&path, &mut |_| false, |_: Sample| ());
        assert!(matches!(stopped, Err(ReadError::Stopped(_))));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = kept(&bytes);
            let header = b"interval_ns,kept_share,place,in_hiccup\n";
            let _ = kept(&[&header[..], &bytes].concat());
            let (_dir, path) = table(&bytes);
            let _ = stream(&path, &mut |_| true, |_: Sample| ());
        }
    }
}

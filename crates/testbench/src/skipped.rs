//! Tests that cannot run on this machine or with this kernel.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// Names the file that the tests of a run write into when they cannot run. `scripts/test` counts its lines.
pub const SKIPPED: &str = "WARIKOMI_SKIPPED";

/// Says that the calling test cannot run here, and why; the test returns then. The harness takes it for passed, so
/// it is also written into the file that [`SKIPPED`] names.
#[track_caller]
pub fn skipped(why: &str) {
    let line = format!("{}: {why}\n", Location::caller());
    print!("not run: {line}");
    if let Some(path) = std::env::var_os(SKIPPED) {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of what was skipped");
    }
}

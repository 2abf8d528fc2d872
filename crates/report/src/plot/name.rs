//! Names from files.

/// A name from a file, fit for a legend: no control characters, and not longer than that.
pub(super) fn clean(name: &str) -> String {
    const LONGEST: usize = 48;
    name.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

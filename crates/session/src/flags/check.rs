//! Flags that do not apply are refused, never ignored.

use crate::error::SessionError;

/// Those of some flags that were given.
pub fn given<const N: usize>(flags: [(&'static str, bool); N]) -> Vec<&'static str> {
    flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

/// Flags of another kind of target say that something else was meant.
pub fn refuse(given: &[&str], target: &str) -> Result<(), SessionError> {
    let Some(flag) = given.first() else { return Ok(()) };
    Err(SessionError::impossible(format!(
        "{flag} is for --target {target} only; leave it out, or choose that target"
    )))
}

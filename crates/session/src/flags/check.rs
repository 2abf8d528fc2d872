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

/// Why an experiment that asks more of its target than a driver that receives has no virtual machine.
pub(super) fn not_for_a_vm() -> SessionError {
    SessionError::impossible(
        "--target vm is for inject, record, sweep, accuracy and replay; anything else needs a kernel or a driver \
         process of ours: leave it out, or give --target kernel or --target process",
    )
}

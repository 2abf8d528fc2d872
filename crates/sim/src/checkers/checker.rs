//! What a checker does, and what it says.

use std::fmt;

use warikomi_clock::Time;

use crate::trace::Event;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// Virtual time of the violation.
    pub at: Time,
    /// What is wrong, in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.3} µs: {}", self.checker, self.at.as_ns() / 1e3, self.what)
    }
}

/// A checker of a history.
pub trait Checker {
    /// Name of the checker.
    fn name(&self) -> &'static str;

    /// What is wrong with this event, if anything is.
    fn check(&mut self, at: Time, event: &Event) -> Result<(), String>;
}

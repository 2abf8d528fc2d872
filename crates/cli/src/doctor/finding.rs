//! What a check found.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// As it should be.
    Good,
    /// Experiments run, with worse figures than they could have.
    Disturbs,
    /// Experiments do not run.
    Prevents,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(super) subject: &'static str,
    /// How bad it is.
    pub(super) severity: Severity,
    /// What was found, with figures.
    pub(super) found: String,
    /// What it means for an experiment; empty if it is good.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) means: String,
    /// What to do about it; empty if nothing needs to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) hint: String,
}

impl Finding {
    pub(super) fn good(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            subject,
            severity: Severity::Good,
            found: found.into(),
            means: String::new(),
            hint: String::new(),
        }
    }

    pub(super) fn bad(
        subject: &'static str,
        severity: Severity,
        found: impl Into<String>,
        means: &str,
        hint: impl Into<String>,
    ) -> Finding {
        Finding {
            subject,
            severity,
            found: found.into(),
            means: means.to_owned(),
            hint: hint.into(),
        }
    }
}

//! Is this machine fit for measuring, and if not, what to do?
//!
//! Each check is a function that returns one [`Finding`]; the order is the order in which a user
//! should mend things.

mod checks;
mod load;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Experiments run, with worse figures than they could have.
    Disturbs,
    /// Experiments do not run.
    Prevents,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, with figures.
    pub found: String,
    /// What it means for an experiment; empty if it is good.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub means: String,
    /// What to do about it; empty if nothing needs to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mend: String,
}

impl Finding {
    fn good(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            subject,
            severity: Severity::Good,
            found: found.into(),
            means: String::new(),
            mend: String::new(),
        }
    }

    fn bad(
        subject: &'static str,
        severity: Severity,
        found: impl Into<String>,
        means: &str,
        mend: impl Into<String>,
    ) -> Finding {
        Finding {
            subject,
            severity,
            found: found.into(),
            means: means.to_owned(),
            mend: mend.into(),
        }
    }
}

/// Looks at everything; takes about two seconds.
pub fn examine() -> Vec<Finding> {
    vec![
        checks::tools(),
        checks::sources(),
        checks::kernels(),
        checks::memory_directory(),
        checks::ptrace(),
        checks::clock(),
        checks::cores(),
        load::other_processes(),
        load::stolen_time(),
        load::hiccups(),
        checks::governor(),
        checks::real_time(),
    ]
}

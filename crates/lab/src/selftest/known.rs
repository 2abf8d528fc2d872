//! Why a test may fail: written down, once, for every case that does.

use std::fmt;

use serde::{Deserialize, Serialize};
use warikomi_session::is_version;

use super::ktap::Case;
use super::reasons::KNOWN;

/// Who lacks what a test wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lacks {
    /// The driver, on the real card as well.
    Driver,
    /// This version of the kernel, or the kernel as a process.
    Kernel,
    /// Our card: a bug of ours.
    Model,
    /// A program of this machine that the test runs.
    Tool,
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lacks::Driver => "the driver",
            Lacks::Kernel => "the kernel",
            Lacks::Model => "our card (a bug of ours)",
            Lacks::Tool => "a program of this machine",
        })
    }
}

/// A reason, and which failures it explains.
pub(super) struct Known {
    /// Drivers; all if there are none.
    pub(super) drivers: &'static [&'static str],
    /// What the kernel's release starts with.
    pub(super) kernel: &'static str,
    /// The test.
    pub(super) program: &'static str,
    /// What the case's name ends with.
    pub(super) case: &'static str,
    /// What the test says of it holds this.
    pub(super) says: &'static str,
    pub(super) lacks: Lacks,
    pub(super) why: &'static str,
}

/// Tests that are about no card, and what they are about.
const NOT_ABOUT_A_CARD: &[(&str, &str)] =
    &[("drivers/net/netcons_basic.sh", "netconsole on netdevsim")];

/// What this test is about, if that is no card.
pub(super) fn not_about_a_card(program: &str) -> Option<&'static str> {
    let (_, what) = NOT_ABOUT_A_CARD.iter().find(|(path, _)| *path == program)?;
    Some(what)
}

/// Why a case of this test does not pass with this driver in this kernel, if that is known.
pub(super) fn reason(
    driver: &str,
    release: &str,
    program: &str,
    case: &Case,
) -> Option<&'static Known> {
    KNOWN.iter().find(|known| {
        (known.drivers.is_empty() || known.drivers.contains(&driver))
            && (known.kernel.is_empty() || is_version(release, known.kernel))
            && known.program == program
            && case.name.ends_with(known.case)
            && case.said.contains(known.says)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_says_what_and_for_which_test() {
        for known in KNOWN {
            assert!(known.why.len() > 10, "{}", known.program);
            assert!(known.program.contains('/') && !known.why.ends_with('.'));
            let says_which = known.case.len() + known.says.len() > 0;
            assert!(says_which, "{}", known.why);
        }
    }
}

//! Why a test may fail: written down, once, for every case that does.

use std::fmt;

use serde::{Deserialize, Serialize};

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
